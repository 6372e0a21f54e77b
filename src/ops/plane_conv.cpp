#include "ops/plane_conv.h"

#include <cmath>

#include "ir/graph.h"
#include "ops/arithmetic.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/samples.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

constexpr int kMostKernel = 24;  // what Concat takes, in the body

}  // namespace

void PlaneConv::infer(InferContext& c) const {
  checks::operand_count(c, 2 + bias + residual, "x, w, then bias and residual by their flags");
  c.dtype(0, {DType::f32, DType::bf16});
  checks::plain(c, 0, c.in(0).dtype, 4);
  checks::weight(c, 1);
  if (kernel.size() != 2) c.fail("kernel: expected two sizes, found {}", kernel.size());
  check_extents(c, "kernel", kernel, 2, 1);
  check_extents(c, "strides", strides, 2, 1);
  check_extents(c, "pads_begin", pads_begin, 2, 0);
  check_extents(c, "pads_end", pads_end, 2, 0);
  const Shape &x = c.in(0), &w = c.in(1);
  for (int i = 0; i < 2; ++i)
    if (kernel[i] > kMostKernel) c.fail("kernel {}: expected at most {}", kernel.text(), kMostKernel);
  checks::has_columns(c, 1, x.dim(3) * (kernel[0] * kernel[1]), "the kernel and the channels of x");
  if (bias) checks::vector(c, bias_at(), DType::f32, w.dim(0), "the rows of w");
  std::vector<Dim> dims = {x.dim(0)};
  for (int i = 0; i < 2; ++i)
    dims.push_back(window_count(c, {i, x.dim(1 + i)}, kernel[i], {strides, {}, pads_begin, pads_end}));
  dims.push_back(w.dim(0));
  const Shape y(dims, DType::f32);
  if (residual) checks::residual(c, residual_at(), y);
  c.out(y);
}

void PlaneConv::decompose(Body& b) const {
  Value x = b.in(0);
  Dim places[2];
  for (int i = 0; i < 2; ++i) {
    const int before = pads_begin.get(i, 0), after = pads_end.get(i, 0);
    if (before + after > 0) x = b.b(Pad{.axis = 1 + i, .before = before, .after = after}, x);
    places[i] = ceil_div(b.b.shape(x).dim(1 + i) - kernel[i] + 1, strides.get(i, 1));
  }
  // Every stride-th line along an axis from `first` on, as many as there are places.
  const auto taken = [&](Value v, int axis, int first) {
    const int stride = strides.get(axis, 1);
    const Dim stop = (places[axis] - 1) * stride + 1 + first;
    if (first == 0 && stop == b.b.shape(v).dim(1 + axis) && stride == 1) return v;
    return b.b(Slice{.axis = 1 + axis, .start = first, .stop = stop, .step = stride}, v);
  };
  const auto beside = [&](const std::vector<Value>& parts) {
    return parts.size() == 1 ? parts[0] : b.b.emit(Concat{.axis = 3}, parts);
  };
  std::vector<Value> lines;
  for (int i = 0; i < kernel[0]; ++i) {
    const Value line = taken(x, 0, i);
    std::vector<Value> taps;
    for (int j = 0; j < kernel[1]; ++j) taps.push_back(taken(line, 1, j));
    lines.push_back(beside(taps));
  }
  std::vector<Value> product = {beside(lines), b.in(1)};
  if (bias) product.push_back(b.in(bias_at()));
  Value y = b.b.emit(Linear{.bias = bias}, std::move(product));
  if (residual) y = b.b(Add{}, y, b.in(residual_at()));
  b.ret({act == Act::none ? y : b.b(Activation{.act = act}, y)});
}

std::vector<Sample> PlaneConv::samples() {
  struct Case {
    std::string_view name;
    std::int64_t batch, height, width, in, out;
    PlaneConv op;
    DType type = DType::f32;
  };
  // Places and channels around the edges of tiles (14 places, two panels of 16 channels) and of chunks of 224 places.
  const Case cases[] = {
      {"one_value", 1, 1, 1, 1, 1, {.kernel = {1, 1}}},
      {"pointwise", 2, 7, 7, 19, 48, {.kernel = {1, 1}, .act = Act::relu, .bias = true}},
      {"pointwise_many", 1, 21, 43, 5, 17, {.kernel = {1, 1}, .bias = true, .residual = true}},
      {"pointwise_strided", 2, 9, 8, 33, 32, {.kernel = {1, 1}, .strides = {2, 2}, .bias = true}},
      {"same", 1, 14, 14, 16, 64, {{3, 3}, {}, {1, 1}, {1, 1}, Act::relu, true, true}},
      {"same_batch", 3, 5, 6, 7, 40, {{3, 3}, {}, {1, 1}, {1, 1}, Act::none, true, false}},
      {"strided", 2, 15, 12, 8, 31, {{3, 3}, {2, 2}, {1, 1}, {1, 1}, Act::silu, true, true}},
      {"stem", 1, 31, 34, 3, 64, {{7, 7}, {2, 2}, {3, 0}, {3, 0}, Act::relu, true, false}},
      {"asymmetric", 1, 6, 9, 4, 15, {{2, 3}, {1, 2}, {0, 3}, {2, 0}, Act::gelu, false, false}},
      {"kernel_above_input", 1, 2, 3, 2, 3, {{5, 7}, {1, 2}, {2, 4}, {3, 1}, Act::gelu_tanh, false, true}},
      {"padding_only", 1, 1, 1, 1, 2, {{1, 1}, {3, 3}, {3, 6}, {6, 3}, Act::none, true, false}},
      {"wide_row", 1, 1, 300, 2, 16, {{1, 24}, {}, {}, {}, Act::none, true, false}},
      {"deep", 1, 7, 7, 512, 33, {{3, 3}, {}, {1, 1}, {1, 1}, Act::relu, true, true}},
      {"bf16_deep", 1, 7, 7, 512, 33, {{3, 3}, {}, {1, 1}, {1, 1}, Act::relu, true, true}, DType::bf16},
      {"bf16_pointwise", 2, 7, 5, 18, 40, {{1, 1}, {2, 1}, {}, {}, Act::relu, true, true}, DType::bf16},
      {"bf16_same", 1, 14, 17, 32, 33, {{3, 3}, {}, {1, 1}, {1, 1}, Act::silu, true, false}, DType::bf16},
      {"bf16_joined", 1, 9, 20, 4, 64, {{3, 5}, {1, 2}, {1, 0}, {1, 0}, Act::none, false, true}, DType::bf16},
  };
  std::vector<Sample> list;
  for (const Case& s : cases) {
    const std::int64_t k = s.in * s.op.kernel[0] * s.op.kernel[1];
    const auto places = [&](int i, std::int64_t size) {
      const std::int64_t padded = size + s.op.pads_begin.get(i, 0) + s.op.pads_end.get(i, 0);
      return (padded - s.op.kernel[i]) / s.op.strides.get(i, 1) + 1;
    };
    const float scale = 1.0f / std::sqrt(static_cast<float>(k));
    std::vector<SampleOperand> in = {samples::normal({s.batch, s.height, s.width, s.in}, s.type),
                                     samples::normal({s.out, k}, s.type, scale)};
    if (s.op.bias) in.push_back(samples::normal({s.out}));
    if (s.op.residual) in.push_back(samples::normal({s.batch, places(0, s.height), places(1, s.width), s.out}));
    list.push_back(make_sample(std::string(s.name), s.op, std::move(in), k));
  }
  return list;
}

}  // namespace rlx
