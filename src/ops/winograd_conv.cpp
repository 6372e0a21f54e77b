#include "ops/winograd_conv.h"

#include <cmath>

#include "base/error.h"
#include "ir/graph.h"
#include "ops/arithmetic.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/plane_conv.h"
#include "ops/product.h"
#include "ops/samples.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

constexpr int kMatrices = 16, kOutputs = 16;

// G: places of a line of weights in the transformed domain.
constexpr double kG[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
// B^T of a line of x, A^T of a line of sums.
constexpr float kB[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
constexpr float kA[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};

// [4 places of a result * 16 places of a tile, 16 matrices]: how often each matrix of u counts.
Tensor places_of_matrices() {
  std::vector<float> counts;
  for (int place = 0; place < 4; ++place)
    for (int tap = 0; tap < kMatrices; ++tap)
      for (int m = 0; m < kMatrices; ++m)
        counts.push_back(kA[place / 2][m / 4] * kA[place % 2][m % 4] * kB[m / 4][tap / 4] * kB[m % 4][tap % 4]);
  return Tensor::from({4 * kMatrices, kMatrices}, std::span<const float>(counts));
}

}  // namespace

std::vector<float> winograd_weights(std::span<const float> w, std::int64_t outputs) {
  const auto rows = static_cast<std::size_t>(outputs), channels = w.size() / (rows * 9);
  RLX_CHECK(rows * channels * 9 == w.size());
  std::vector<float> u(kMatrices * rows * channels);
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b)
      for (std::size_t o = 0; o < rows; ++o)
        for (std::size_t c = 0; c < channels; ++c) {
          double sum = 0;
          for (std::size_t i = 0; i < 3; ++i)
            for (std::size_t j = 0; j < 3; ++j)
              sum += kG[a][i] * kG[b][j] * double{w[(o * 9 + i * 3 + j) * channels + c]};
          u[((4 * a + b) * rows + o) * channels + c] = static_cast<float>(sum);
        }
  return u;
}

void WinogradConv::infer(InferContext& c) const {
  checks::operand_count(c, 2 + bias + residual, "x, u, then bias and residual by their flags");
  checks::plain(c, 0, DType::f32, 4);
  c.dtype(1, {DType::f32});
  checks::weight(c, 1);
  check_extents(c, "pads_begin", pads_begin, 2, 0);
  check_extents(c, "pads_end", pads_end, 2, 0);
  const Shape &x = c.in(0), &u = c.in(1);
  checks::has_columns(c, 1, x.dim(3), "the channels of x");
  const Dim outputs = ceil_div(u.dim(0), kMatrices);
  checks::same(c, ceil_div(outputs, kOutputs) * Dim(kMatrices * kOutputs), u.dim(0), [&] {
    return fmt::format("u: expected rows that are a multiple of {}, 16 for each output, found {}",
                       kMatrices * kOutputs, checks::dims_text(u));
  });
  if (bias) checks::vector(c, bias_at(), DType::f32, outputs, "the outputs of u");
  std::vector<Dim> dims = {x.dim(0)};
  for (int i = 0; i < 2; ++i)
    dims.push_back(window_count(c, {i, x.dim(1 + i)}, 3, {{}, {}, pads_begin, pads_end}));
  dims.push_back(outputs);
  const Shape y(dims, DType::f32);
  if (residual) checks::residual(c, residual_at(), y);
  c.out(y);
}

// The 2 x 2 places of a tile are four sums over its 4 x 4 places: a convolution by steps of 2 with four times the
// outputs, whose weights are sums of the matrices of u.
void WinogradConv::decompose(Body& body) const {
  Builder& b = body.b;
  const Dim outputs = ceil_div(body.shape(1).dim(0), kMatrices), channels = body.shape(1).dim(1);
  const Value matrices = b(Reshape{{kMatrices, outputs * channels}}, body.in(1));
  Value w = b(BatchedMatmul{}, b.constant(places_of_matrices()), matrices);
  w = b(Transpose{{0, 2, 1, 3}}, b(Reshape{{4, kMatrices, outputs, channels}}, w));
  std::vector<Value> inputs = {body.in(0), b(Reshape{{outputs * 4, channels * kMatrices}}, w)};
  if (bias) inputs.push_back(b.emit(Concat{.axis = 0}, std::vector<Value>(4, body.in(bias_at()))));
  // One more line at the end, which an odd size needs for its last tile.
  const Extents ends = {pads_end.get(0, 0) + 1, pads_end.get(1, 0) + 1};
  const PlaneConv conv{
      .kernel = {4, 4}, .strides = {2, 2}, .pads_begin = pads_begin, .pads_end = ends, .bias = bias};
  Value y = b.emit(conv, inputs);
  const Dim batch = b.shape(y).dim(0), down = b.shape(y).dim(1), across = b.shape(y).dim(2);
  y = b(Transpose{{0, 1, 3, 2, 4, 5}}, b(Reshape{{batch, down, across, 2, 2, outputs}}, y));
  y = b(Reshape{{batch, down * 2, across * 2, outputs}}, y);
  const Shape& x = body.shape(0);
  for (int i = 0; i < 2; ++i)
    y = b(Slice{.axis = 1 + i, .stop = x.dim(1 + i) + pads_begin.get(i, 0) + pads_end.get(i, 0) - 2}, y);
  if (residual) y = b(Add{}, y, body.in(residual_at()));
  body.ret({act == Act::none ? y : b(Activation{.act = act}, y)});
}

std::vector<Sample> WinogradConv::samples() {
  struct Case {
    std::string_view name;
    std::int64_t batch, height, width, in, out;
    WinogradConv op;
  };
  // Tiles of 2 x 2 places around the edges of groups of 14 and of chunks of 56, and half tiles at the borders.
  const Case cases[] = {
      {"one_place", 1, 1, 1, 1, 16, {{1, 1}, {1, 1}}},
      {"same", 1, 14, 14, 16, 64, {{1, 1}, {1, 1}, Act::relu, true, true}},
      {"odd", 3, 5, 7, 7, 48, {{1, 1}, {1, 1}, Act::none, true, false}},
      {"valid", 2, 6, 9, 20, 32, {{}, {}, Act::silu, false, false}},
      {"asymmetric", 1, 4, 11, 33, 16, {{0, 2}, {3, 1}, Act::gelu, true, true}},
      {"many_tiles", 1, 17, 29, 5, 32, {{1, 1}, {1, 1}, Act::relu, true, false}},
      {"deep", 2, 7, 7, 200, 16, {{1, 1}, {1, 1}, Act::none, false, true}},
      {"no_images", 0, 4, 4, 8, 16, {{1, 1}, {1, 1}}},
      {"no_channels", 1, 3, 5, 0, 16, {{1, 1}, {1, 1}, Act::relu, true, false}},
      {"no_outputs", 1, 4, 3, 8, 0, {{1, 1}, {1, 1}, Act::none, true, false}},
  };
  std::vector<Sample> list;
  for (const Case& s : cases) {
    const auto places = [&](int i, std::int64_t size) {
      return size + s.op.pads_begin.get(i, 0) + s.op.pads_end.get(i, 0) - 2;
    };
    std::vector<SampleOperand> in = {
        samples::normal({s.batch, s.height, s.width, s.in}),
        samples::normal({kMatrices * s.out, s.in}, DType::f32, 1 / std::sqrt(static_cast<float>(s.in * 9 + 1)))};
    if (s.op.bias) in.push_back(samples::normal({s.out}));
    if (s.op.residual) in.push_back(samples::normal({s.batch, places(0, s.height), places(1, s.width), s.out}));
    list.push_back(make_sample(std::string(s.name), s.op, std::move(in), s.in * 9));
  }
  return list;
}

}  // namespace rlx
