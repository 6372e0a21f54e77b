#include "backends/cpu/shape.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "ops/shape_ops.h"

namespace rlx::cpu {
namespace {

bool plain_float(const Shape& s) {
  return s.kind == ShapeKind::tensor && s.layout == Layout::plain && s.rank() > 0 &&
         (s.dtype == DType::f32 || s.dtype == DType::f16 || s.dtype == DType::bf16);
}
bool accepts_copy(const KernelQuery& q) {
  return std::all_of(q.in.begin(), q.in.end(), plain_float) && plain_float(q.out[0]);
}

std::int64_t element_bytes(const TensorView& v) { return v.dtype == DType::f32 ? 4 : 2; }

// A run along the last axis.
void copy_run(const std::byte* from, std::int64_t step, std::byte* to, std::int64_t n, std::int64_t bytes) noexcept {
  if (step == bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(n * bytes));
  } else if (bytes == 4) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * 4, from + i * step, 4);
  } else {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * 2, from + i * step, 2);
  }
}

// to = from, of the same dims, for the part of this worker. A stride of 0 repeats.
void copy_view(const KernelArgs& a, const TensorView& from, const TensorView& to) noexcept {
  const std::int64_t bytes = element_bytes(to);
  const int last = to.rank - 1;
  std::int64_t rows = 1;
  for (int i = 0; i < last; ++i) rows *= to.dims[i];
  const std::int64_t end = rows * (a.thread + 1) / a.threads;
  for (std::int64_t r = rows * a.thread / a.threads; r < end && to.dims[last] > 0; ++r) {
    const auto* source = static_cast<const std::byte*>(from.data);
    auto* target = static_cast<std::byte*>(to.data);
    std::int64_t rest = r;
    for (int axis = last - 1; axis >= 0; --axis) {
      source += rest % to.dims[axis] * from.strides[axis];
      target += rest % to.dims[axis] * to.strides[axis];
      rest /= to.dims[axis];
    }
    copy_run(source, from.strides[last], target, to.dims[last], bytes);
  }
}

int axis_in(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

// x: any shape; y: its axes in another order
void transpose(const Transpose& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  TensorView from = x;
  for (int i = 0; i < x.rank; ++i) {
    const int source = op.axes.size() == 0 ? x.rank - 1 - i : axis_in(op.axes[i], x.rank);
    from.dims[i] = x.dims[source];
    from.strides[i] = x.strides[source];
  }
  copy_view(a, from, y);
}

void concat(const Concat& op, const KernelArgs& a) noexcept {
  TensorView to = a.out[0];
  const int axis = axis_in(op.axis, to.rank);
  auto* start = static_cast<std::byte*>(to.data);
  for (int i = 0; i < a.inputs; ++i) {
    to.data = start;
    to.dims[axis] = a.in[i].dims[axis];
    copy_view(a, a.in[i], to);
    start += a.in[i].dims[axis] * to.strides[axis];
  }
}

void broadcast_to(const BroadcastTo&, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  TensorView from = y;
  from.data = x.data;
  for (int i = 0; i < y.rank; ++i) {
    const int own = i - (y.rank - x.rank);
    from.strides[i] = own < 0 || x.dims[own] == 1 ? 0 : x.strides[own];
  }
  copy_view(a, from, y);
}

void slice(const Slice& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const int axis = axis_in(op.axis, y.rank);
  TensorView from = x;
  from.data = static_cast<std::byte*>(x.data) + op.start.evaluate({}) * x.strides[axis];
  from.dims[axis] = y.dims[axis];
  from.strides[axis] *= op.step;
  copy_view(a, from, y);
}

// x with places of the value before and after it on one axis. Halves: of 0 alone.
void pad(const Pad& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const int axis = axis_in(op.axis, y.rank);
  const std::int64_t before = op.before.evaluate({});
  TensorView value = y;  // one value, repeated
  value.data = const_cast<float*>(&op.value);
  for (int i = 0; i < y.rank; ++i) value.strides[i] = 0;
  const auto part = [&](std::int64_t first, std::int64_t count, const TensorView& from) {
    TensorView to = y, source = from;
    to.data = static_cast<std::byte*>(y.data) + first * y.strides[axis];
    to.dims[axis] = source.dims[axis] = count;
    copy_view(a, source, to);
  };
  part(0, before, value);
  part(before, x.dims[axis], x);
  part(before + x.dims[axis], y.dims[axis] - before - x.dims[axis], value);
}
bool accepts_pad(const KernelQuery& q) {
  return accepts_copy(q) && (q.in[0].dtype == DType::f32 || static_cast<const Pad*>(q.op)->value == 0.0f);
}

constexpr Kernel kTable[] = {
    kernel<Transpose, transpose>("transpose_any", Isa::baseline, accepts_copy),
    kernel<Concat, concat>("concat_any", Isa::baseline, accepts_copy),
    kernel<BroadcastTo, broadcast_to>("broadcast_to_any", Isa::baseline, accepts_copy),
    kernel<Slice, slice>("slice_any", Isa::baseline, accepts_copy),
    kernel<Pad, pad>("pad_any", Isa::baseline, accepts_pad),
};

}  // namespace

KernelTable shape_kernels() { return {kTable, static_cast<int>(std::size(kTable))}; }

}  // namespace rlx::cpu
