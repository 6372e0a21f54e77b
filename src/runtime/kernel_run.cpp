#include "runtime/kernel_run.h"

#include <cstring>

#include "base/error.h"
#include "device/view.h"
#include "ops/fused.h"
#include "ops/materialize.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

bool is_product_weight(const Kernel& row, const Sample& sample, std::size_t i) {
  if (row.op == "fused_linear")
    return i >= 1 && i <= static_cast<std::size_t>(from_blob<FusedLinear>(sample.op).weights);
  if (row.op == "expert_linear") return i == 2;
  if (row.op == "expert_gated_linear") return i == 2 || i == 3;
  if (row.op == "gated_linear") return i == 1 || i == 2;
  return (row.op == "linear" || row.op == "plane_conv" || row.op == "winograd_conv") && i == 1;
}

// A view as rows of its last axis, which may be padded when it is a matrix.
std::int64_t view_rows(const TensorView& v) {
  std::int64_t n = 1;
  for (int a = 0; a + 1 < v.rank; ++a) n *= v.dims[a];
  return n;
}
std::int64_t view_columns(const TensorView& v) { return v.rank == 0 ? 1 : v.dims[v.rank - 1]; }
std::int64_t view_row_bytes(const TensorView& v) { return row_bytes(v.dtype, view_columns(v)); }
std::byte* view_row(const TensorView& v, std::int64_t r) {
  return static_cast<std::byte*>(v.data) + r * (v.rank > 1 ? v.strides[v.rank - 2] : 0);
}

std::vector<float> decoded(const TensorView& v) {
  const std::int64_t columns = view_columns(v);
  std::vector<float> out(static_cast<std::size_t>(view_rows(v) * columns));
  for (std::int64_t r = 0; r < view_rows(v); ++r) decoder(v.dtype)(view_row(v, r), out.data() + r * columns, columns);
  return out;
}

}  // namespace

KernelRun::KernelRun(const Backend& backend, const Kernel& row, const Sample& sample, std::span<const Tensor> values,
                     Arrangement how)
    : backend_(backend), row_(row), sample_(sample), values_(values), how_(how) {
  for (std::size_t i = 0; i < sample.operands.size(); ++i) in_shapes_.push_back(laid_out(i));
  const Graph graph = sample_graph(*find_op(row.op), sample);
  for (const Shape& s : graph.nodes().back().results)
    out_shapes_.push_back(s.kind == ShapeKind::kv ? s.with(backend_.kv_layout()) : s);
  state_ = operand_of([](const Shape& s) { return s.is_updated(); });
  pages_ = operand_of([](const Shape& s) { return s.kind == ShapeKind::pages; });
}

Shape KernelRun::laid_out(std::size_t operand) const {
  const Shape& s = sample_.operands[operand].shape;
  if (s.kind == ShapeKind::kv) return s.with(backend_.kv_layout());
  return how_.packed_weights && is_product_weight(row_, sample_, operand) ? s.with(Layout::p16) : s;
}

std::size_t KernelRun::operand_of(bool (*is)(const Shape&)) const {
  for (std::size_t i = 0; i < in_shapes_.size(); ++i)
    if (is(in_shapes_[i])) return i;
  return 0;
}

bool KernelRun::accepted() const {
  for (std::size_t i = 0; how_.packed_weights && i < in_shapes_.size(); ++i)
    if (is_product_weight(row_, sample_, i) &&
        !backend_.can_pack(in_shapes_[i].dtype, in_shapes_[i].dtype, *in_shapes_[i].dim(-1).constant()))
      return false;
  return row_.accepts == nullptr || row_.accepts({sample_.op.data(), in_shapes_, out_shapes_});
}

bool KernelRun::can_be_in_place() const {
  const OpDef& def = *find_op(row_.op);
  const int k = def.in_place == nullptr ? -1 : def.in_place(sample_.op);
  return k >= 0 && in_shapes_[static_cast<std::size_t>(k)] == out_shapes_[0];
}

void KernelRun::prepare(int threads) {
  storage_.clear();
  in_.clear();
  out_.clear();
  scratch_.clear();
  for (std::size_t i = 0; i < in_shapes_.size(); ++i) in_.push_back(operand(i));
  for (const Shape& s : out_shapes_) out_.push_back(s.is_updated() ? in_[state_] : result(s));
  if (how_.in_place) out_[0] = in_[static_cast<std::size_t>(find_op(row_.op)->in_place(sample_.op))];
  ScratchNeed need;
  const std::int64_t context = pages_ != 0 ? values_[pages_].dims()[1] * kPageTokens : 0;
  if (row_.scratch != nullptr) need = row_.scratch({sample_.op.data(), in_.data(), out_.data(), threads, context});
  shared_ = buffer(need.shared + 64).at;
  shared_zeroed_ = need.shared_zeroed;
  for (int t = 0; t < threads; ++t) scratch_.push_back(buffer(need.per_worker + 64).at);
}

void KernelRun::call(Workers& workers) {
  RLX_CHECK(static_cast<std::size_t>(workers.threads()) == scratch_.size(), "a run is prepared for its threads");
  std::memset(shared_, 0, static_cast<std::size_t>(shared_zeroed_));
  workers.run([this, &workers](int thread) noexcept {
    KernelArgs a;
    a.in = in_.data();
    a.out = out_.data();
    a.inputs = static_cast<int>(in_.size());
    a.outputs = static_cast<int>(out_.size());
    a.thread = thread;
    a.threads = workers.threads();
    a.scratch = scratch_[static_cast<std::size_t>(thread)];
    a.shared = shared_;
    row_.run(sample_.op.data(), a);
  });
}

std::vector<std::vector<float>> KernelRun::results() const {
  std::vector<std::vector<float>> list;
  for (std::size_t i = 0; i < out_.size(); ++i)
    list.push_back(out_shapes_[i].kind == ShapeKind::kv ? export_cache() : decoded(out_[i]));
  return list;
}

KernelRun::Buffer& KernelRun::buffer(std::int64_t bytes, std::int64_t misalign) {
  storage_.push_back(std::make_unique<Buffer>());
  Buffer& b = *storage_.back();
  b.bytes.assign(static_cast<std::size_t>(bytes) + 192, std::byte{0});
  const auto address = reinterpret_cast<std::uintptr_t>(b.bytes.data());
  b.at = b.bytes.data() + (64 - address % 64) % 64 + misalign;
  return b;
}

bool KernelRun::padded(const Shape& s) const {
  return how_.padded_rows && s.dtype == DType::f32 && s.rank() == 2 && s.kind == ShapeKind::tensor &&
         s.layout == Layout::plain;
}

TensorView KernelRun::operand(std::size_t i) {
  const Shape& s = in_shapes_[i];
  const Tensor& value = values_[i];
  TensorView v = make_view(s, {});
  if (s.kind == ShapeKind::kv) {
    import_cache(s, value);
    v.data = &pool_;
  } else if (s.kind == ShapeKind::pages) {
    v.rank = 2;
    for (int a = 0; a < 2; ++a) v.dims[a] = value.dims()[static_cast<std::size_t>(a)];
    v.strides[1] = 4;
    v.strides[0] = 4 * v.dims[1];
    v.data = const_cast<std::byte*>(value.data());
  } else if (s.kind == ShapeKind::recurrent) {
    v.dims[0] = value.dims()[0];
    v.data = buffer(value.byte_size()).at;
    std::memcpy(v.data, value.data(), static_cast<std::size_t>(value.byte_size()));
  } else if (s.layout == Layout::p16) {
    pack(v, s, value);
  } else {
    place(v, s);
    const std::int64_t bytes = view_row_bytes(v);
    for (std::int64_t r = 0; r < view_rows(v); ++r)
      std::memcpy(view_row(v, r), value.data() + r * bytes, static_cast<std::size_t>(bytes));
  }
  return v;
}

// [n, k], or such a matrix for each expert.
void KernelRun::pack(TensorView& v, const Shape& s, const Tensor& value) {
  const std::int64_t n = v.dims[v.rank - 2], k = v.dims[v.rank - 1], bytes = backend_.packed_bytes(s.dtype, n, k),
                     count = v.rank == 3 ? v.dims[0] : 1;
  v.data = buffer(bytes * count).at;
  for (std::int64_t e = 0; e < count; ++e)
    backend_.pack({value.data() + e * n * row_bytes(value.dtype(), k), value.dtype(), s.dtype, n, k,
                   static_cast<std::byte*>(v.data) + e * bytes},
                  0, (n + 15) / 16);
}

void KernelRun::place(TensorView& v, const Shape& s) {
  if (padded(s)) v.strides[0] += 12;
  v.data = buffer(view_rows(v) * (v.rank > 1 ? v.strides[v.rank - 2] : view_row_bytes(v)) + 64, padded(s) ? 4 : 0).at;
}

TensorView KernelRun::result(const Shape& s) {
  TensorView v = make_view(s, {});
  place(v, s);
  for (std::int64_t r = 0; r < view_rows(v); ++r)
    std::memset(view_row(v, r), 0xff, static_cast<std::size_t>(view_row_bytes(v)));
  return v;
}

// Calls f(slot, token, page, token in page) for every token place of the cache.
template <typename F>
void KernelRun::each_token(F&& f) const {
  const Tensor& table = values_[pages_];
  const std::int64_t slots = table.dims()[0], per_slot = table.dims()[1];
  const std::span<const std::int32_t> pages = table.as<std::int32_t>();
  for (std::int64_t s = 0; s < slots; ++s)
    for (std::int64_t t = 0; t < per_slot * kPageTokens; ++t)
      f(s, t, std::int64_t{pages[static_cast<std::size_t>(s * per_slot + t / kPageTokens)]}, t % kPageTokens);
}

void KernelRun::import_cache(const Shape& s, const Tensor& content) {
  heads_ = *s.dim(0).constant();
  dim_ = *s.dim(1).constant();
  kv_dtype_ = s.dtype;
  const std::int64_t pages = values_[pages_].elements();
  const KvHeadBytes b = backend_.kv_head_bytes(s.dtype, dim_);
  pool_ = {buffer(b.k * heads_ * pages).at,
           buffer(b.v * heads_ * pages).at,
           b.k * heads_,
           b.k,
           b.v * heads_,
           b.v,
           pages};
  const std::vector<std::int32_t>& held = sample_.operands[state_].ints;
  std::int64_t total = 0;
  std::vector<std::int64_t> first;
  for (std::int32_t n : held) {
    first.push_back(total);
    total += n;
  }
  const float* k = content.as<float>().data();
  const float* v = k + total * heads_ * dim_;
  each_token([&](std::int64_t slot, std::int64_t t, std::int64_t page, std::int64_t at) {
    if (t >= held[static_cast<std::size_t>(slot)]) return;
    for (std::int64_t h = 0; h < heads_; ++h) {
      const std::int64_t offset = ((first[static_cast<std::size_t>(slot)] + t) * heads_ + h) * dim_;
      backend_.kv_store({&pool_, kv_dtype_, h, dim_, page, at, 1}, k + offset, v + offset);
    }
  });
}

std::vector<float> KernelRun::export_cache() const {
  const Tensor& table = values_[pages_];
  const std::int64_t places = table.elements() * kPageTokens, per_slot = table.dims()[1] * kPageTokens;
  std::vector<float> out(static_cast<std::size_t>(2 * places * heads_ * dim_));
  each_token([&](std::int64_t slot, std::int64_t t, std::int64_t page, std::int64_t at) {
    for (std::int64_t h = 0; h < heads_; ++h) {
      float* k = out.data() + ((slot * per_slot + t) * heads_ + h) * dim_;
      backend_.kv_load({&pool_, kv_dtype_, h, dim_, page, at, 1}, k, k + places * heads_ * dim_);
    }
  });
  return out;
}

}  // namespace rlx
