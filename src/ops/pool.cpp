#include "ops/pool.h"

#include <cmath>
#include <limits>

#include "ir/graph.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/reduction.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// One window: what it has seen of x, and how many places count.
struct WindowSum {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  std::int64_t values = 0, with_pads = 0;

  void add(double v) {
    most = std::isnan(v) || std::isnan(most) ? std::numeric_limits<double>::quiet_NaN() : std::fmax(most, v);
    sum += v;
    ++values;
  }
  double result(const Pool& op) const {
    if (op.kind == PoolKind::max) return most;
    const std::int64_t n = op.count_pads ? with_pads : values;
    return n == 0 ? 0.0 : sum / static_cast<double>(n);
  }
};

std::array<std::int64_t, 3> pool_kernel(const Extents& kernel) {
  std::array<std::int64_t, 3> sizes{};
  for (int i = 0; i < kernel.size(); ++i) sizes[static_cast<std::size_t>(i)] = kernel[i];
  return sizes;
}

}  // namespace

void Pool::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32});
  checks::array(c, 0);
  check_window(c, 0, window());
  const Shape& x = c.in(0);
  if (kernel.size() == 0) c.fail("kernel: expected a size for each of {} spatial axes", x.rank() - 2);
  check_extents(c, "kernel", kernel, x.rank() - 2, 1);
  std::vector<Dim> dims = {x.dim(0), x.dim(1)};
  for (int i = 0; i + 2 < x.rank(); ++i) dims.push_back(window_count(c, i, kernel[i], window(), ceil_mode));
  c.out(Shape(dims, DType::f32));
}

void Pool::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const WindowPlan p = window_plan(x, y, pool_kernel(kernel).data(), window());
  const auto part = access::part_of(a, y.dims[0] * y.dims[1]);
  for (std::int64_t plane = part.begin; plane < part.end; ++plane)
    each_place(p.out, [&](const auto& at, std::int64_t place) {
      WindowSum sum;
      each_place(p.kernel, [&](const auto& k, std::int64_t) {
        bool inside = true, padded = true;
        std::int64_t flat = 0;
        for (std::size_t i = 0; i < 3; ++i) {
          const std::int64_t j = at[i] * p.stride[i] + k[i] * p.dilation[i] - p.begin[i];
          inside = inside && j >= 0 && j < p.in[i];
          padded = padded && j < p.in[i] + p.end[i];
          flat = flat * p.in[i] + j;
        }
        if (inside) sum.add(access::load_at(x, plane * p.inputs() + flat));
        sum.with_pads += padded ? 1 : 0;
      });
      access::store_at(y, plane * p.outputs() + place, sum.result(*this));
    });
}

void GlobalPool::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32});
  checks::array(c, 0);
  const Shape& x = c.in(0);
  if (x.rank() < 3) c.fail("x: expected [batch, channels, spatial...], found {}", x.text());
  Shape y = x;
  for (int i = 2; i < x.rank(); ++i) y = y.with_dim(i, 1);
  c.out(y);
}

void GlobalPool::decompose(Body& b) const {
  Value v = b.in(0);
  const Reduction fn = kind == PoolKind::max ? Reduction::max : Reduction::mean;
  for (int axis = b.shape(0).rank() - 1; axis >= 2; --axis)
    v = b.b(Reduce{.kind = fn, .axis = axis, .keep_dims = true}, v);
  b.ret({v});
}

std::vector<Sample> Pool::samples() {
  struct Case {
    std::string_view name;
    Shape x;
    Extents kernel;
    WindowAttrs window;
  };
  const Case cases[] = {
      {"one_value", Shape({1, 1, 1}, DType::f32), {1}, {}},
      {"line", Shape({2, 3, 21}, DType::f32), {4}, {{2}, {}, {1}, {2}}},
      {"line_dilated", Shape({1, 2, 50}, DType::f32), {3}, {{3}, {7}, {0}, {11}}},
      {"plane", Shape({2, 5, 9, 18}, DType::f32), {2, 2}, {{2, 2}, {}, {}, {}}},
      {"plane_overlap", Shape({1, 3, 7, 33}, DType::f32), {3, 3}, {{}, {}, {1, 1}, {1, 1}}},
      {"plane_asymmetric", Shape({1, 2, 8, 11}, DType::f32), {3, 5}, {{2, 3}, {2, 1}, {4, 0}, {0, 3}}},
      {"plane_kernel_above_input", Shape({3, 1, 2, 3}, DType::f32), {5, 7}, {{1, 2}, {}, {3, 4}, {2, 3}}},
      {"volume", Shape({2, 2, 5, 6, 7}, DType::f32), {2, 3, 2}, {{2, 1, 3}, {1, 2, 1}, {0, 1, 1}, {1, 1, 0}}},
  };
  std::vector<Sample> list;
  for (const Case& s : cases)
    for (const PoolKind kind : {PoolKind::max, PoolKind::average})
      for (const bool ceil : {false, true})
        for (const bool pads : {false, true}) {
          if (pads && kind == PoolKind::max) continue;
          const WindowAttrs& w = s.window;
          list.push_back(make_sample(fmt::format("{}_{}{}{}", s.name, kPoolKindNames[static_cast<std::size_t>(kind)],
                                                 pads ? "_pads" : "", ceil ? "_ceil" : ""),
                                     Pool{kind, pads, ceil, s.kernel, w.strides, w.dilations, w.pads_begin, w.pads_end},
                                     {{s.x, Fill::normal, 1.0f, {}}}));
        }
  return list;
}

std::vector<Sample> GlobalPool::samples() {
  std::vector<Sample> list;
  for (const PoolKind kind : {PoolKind::max, PoolKind::average}) {
    const std::string_view text = kPoolKindNames[static_cast<std::size_t>(kind)];
    list.push_back(make_sample(fmt::format("line_{}", text), GlobalPool{kind}, {samples::normal({2, 3, 17})}));
    list.push_back(make_sample(fmt::format("plane_{}", text), GlobalPool{kind}, {samples::normal({1, 5, 4, 7})}));
    list.push_back(make_sample(fmt::format("volume_{}", text), GlobalPool{kind}, {samples::normal({3, 1, 2, 5, 3})}));
  }
  return list;
}

}  // namespace rlx
