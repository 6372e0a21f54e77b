// Convolutions, pooling, Fourier transforms and changes of representation, by hand and by what must hold for any input.
#include <complex>
#include <numbers>
#include <numeric>

#include "ops/conv.h"
#include "ops/fft.h"
#include "ops/materialize.h"
#include "ops/pool.h"
#include "ops/quant.h"
#include "ops/samples.h"
#include "ops/support.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

using Dims = std::vector<std::int64_t>;

Tensor noise(const Dims& dims, unsigned seed) {
  const std::vector<Dim> symbols(dims.begin(), dims.end());
  const Sample s = make_sample("", Fft{}, {{Shape(symbols, DType::f32), Fill::normal, 1.0f, {}}});
  return materialize(s, seed)[0];
}

double inner_product(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_floats(), y = b.to_floats();
  EXPECT_EQ(x.size(), y.size());
  double sum = 0;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) sum += double{x[i]} * double{y[i]};
  return sum;
}

std::vector<double> wide(const Tensor& t) {
  const std::vector<float> v = t.to_floats();
  return {v.begin(), v.end()};
}

// The printed attributes of an op's samples.
std::string attributes_of_samples(std::string_view op) {
  const OpDef& def = *find_op(op);
  std::string text;
  for (const Sample& s : def.samples()) text += def.print(s.op) + " ";
  return text;
}

TEST(section12_Conv, SlidesTheKernelWithoutMirroringIt) {
  const Tensor x = f32({1, 1, 5}, {1, 2, 3, 4, 5}), w = f32({1, 1, 3}, {1, 10, 100});
  expect_near(run_op(Conv{}, {x, w}), {321, 432, 543});
  expect_near(run_op(Conv{.pads_begin = {1}, .pads_end = {2}}, {x, w}), {210, 321, 432, 543, 54, 5});
  expect_near(run_op(Conv{.strides = {2}}, {x, w}), {321, 543});
  expect_near(run_op(Conv{.dilations = {2}}, {x, w}), {531});
  expect_near(run_op(Conv{.bias = true}, {x, w, f32({1}, {0.5f})}), {321.5, 432.5, 543.5});
}

TEST(section12_Conv, SumsTheChannelsOfAGroup) {
  const Tensor x = f32({1, 4, 1}, {1, 2, 3, 4});
  expect_near(run_op(Conv{.groups = 2}, {x, f32({2, 2, 1}, {1, 10, 1, 10})}), {21, 43});
  expect_near(run_op(Conv{}, {x, f32({1, 4, 1}, {1, 10, 100, 1000})}), {4321});
  expect_near(run_op(Conv{.groups = 4}, {x, f32({8, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8})}), {1, 2, 6, 8, 15, 18, 28, 32});
}

TEST(section12_Conv, PlaneByHand) {
  const Tensor x = f32({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), w = f32({1, 1, 2, 2}, {1, 0, 0, 10});
  expect_near(run_op(Conv{}, {x, w}), {51, 62, 84, 95});
}

TEST(section12_Conv, ADeltaKernelGivesItsInput) {
  for (const Dims& size : {Dims{9}, Dims{4, 5}, Dims{3, 4, 2}}) {
    Dims dims = {2, 1}, kernel = {1, 1};
    std::int64_t taps = 1;
    for (const std::int64_t s : size) {
      dims.push_back(s);
      kernel.push_back(3);
      taps *= 3;
    }
    std::vector<float> delta(static_cast<std::size_t>(taps));
    delta[delta.size() / 2] = 1.0f;
    const Extents ones(std::span<const std::int64_t>(Dims(size.size(), 1)));
    const Tensor x = noise(dims, 3);
    expect_near(run_op(Conv{.pads_begin = ones, .pads_end = ones}, {x, f32(kernel, delta)}), wide(x));
  }
}

TEST(section12_ConvTransposed, SpreadsTheKernel) {
  const Tensor x = f32({1, 1, 2}, {1, 2}), w = f32({1, 1, 3}, {1, 10, 100});
  expect_near(run_op(ConvTransposed{}, {x, w}), {1, 12, 120, 200});
  expect_near(run_op(ConvTransposed{.strides = {4}, .output_padding = {1}}, {x, w}), {1, 10, 100, 0, 2, 20, 200, 0});
  expect_near(run_op(ConvTransposed{.dilations = {2}}, {x, w}), {1, 2, 10, 20, 100, 200});
  expect_near(run_op(ConvTransposed{.pads_begin = {1}, .pads_end = {1}}, {x, w}), {12, 120});
}

// <conv(x, w), y> = <x, conv_transposed(y, w)>, for every sample of the transposed op.
TEST(section12_ConvTransposed, IsTheAdjointOfConv) {
  for (const Sample& s : ConvTransposed::samples()) {
    const auto op = from_blob<ConvTransposed>(s.op);
    if (op.bias || s.operands[1].shape.dtype != DType::f32) continue;
    bool fits = true;  // more output_padding than a stride would give conv another place
    for (int i = 0; i < op.output_padding.size(); ++i) fits = fits && op.output_padding[i] < op.strides.get(i, 1);
    if (!fits) continue;
    SCOPED_TRACE(s.name);
    const std::vector<Tensor> v = materialize(s, 5);
    const Tensor spread = run_op(op, v);
    const Tensor x = noise(spread.dims(), 8);
    const Conv conv{op.strides, op.dilations, op.pads_begin, op.pads_end, op.groups, false};
    const Tensor y = run_op(conv, {x, v[1]});
    ASSERT_EQ(y.dims(), v[0].dims());
    EXPECT_NEAR(inner_product(y, v[0]), inner_product(x, spread), 1e-3);
  }
}

TEST(section12_Conv, SizesAreFormulasOfSymbols) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape::parse("f32[batch, 3, seq, 7]"));
  const Value w = b.input("w", Shape::parse("f32[8, 3, 3, 3]"));
  const Value y = b(Conv{.strides = {2, 1}, .pads_begin = {1, 0}, .pads_end = {1, 0}}, x, w);
  EXPECT_EQ(graph.shape(y), Shape::parse("f32[batch, 8, ceil_div(seq, 2), 5]"));
  const Value t = b(ConvTransposed{.strides = {2, 1}}, x, b.input("v", Shape::parse("f32[3, 8, 3, 3]")));
  EXPECT_EQ(graph.shape(t), Shape::parse("f32[batch, 8, 2*seq + 1, 9]"));
  const Value p = b(Pool{.ceil_mode = true, .kernel = {3, 3}, .strides = {2, 2}}, x);
  EXPECT_EQ(graph.shape(p), Shape::parse("f32[batch, 3, ceil_div(seq - 1, 2), 3]"));
}

TEST(section12_Conv, MessagesSayWhatDisagrees) {
  EXPECT_EQ(shape_error(Conv{}, {"f32[1, 3, 8, 8]", "f32[4, 2, 3, 3]"}),
            "conv: x [1, 3, 8, 8] has 3 channels but w [4, 2, 3, 3] takes 2");
  EXPECT_EQ(shape_error(Conv{.groups = 3}, {"f32[1, 3, 8]", "f32[4, 1, 3]"}),
            "conv: w [4, 1, 3]: its first dim is no multiple of 3 groups");
  EXPECT_EQ(shape_error(Conv{}, {"f32[1, 3, 2]", "f32[4, 3, 5]"}),
            "conv: spatial axis 0: the window spans 5 but x with its padding has 2");
  EXPECT_EQ(shape_error(Conv{.strides = {0}}, {"f32[1, 3, 9]", "f32[4, 3, 5]"}),
            "conv: strides [0]: expected numbers of at least 1");
  EXPECT_EQ(shape_error(Conv{.strides = {1, 1}}, {"f32[1, 3, 9]", "f32[4, 3, 5]"}),
            "conv: strides [1,1]: expected 1 numbers, one for each spatial axis, found 2");
  EXPECT_EQ(shape_error(ConvTransposed{.strides = {2}, .output_padding = {2}}, {"f32[1, 3, 9]", "f32[3, 3, 5]"}),
            "conv_transposed: output_padding [2]: expected less than the stride 2 or the dilation 1");
}

TEST(section12_Conv, SamplesChangeTheListsToo) {
  for (const std::string key : {"strides", "dilations", "pads_begin", "pads_end"})
    for (const std::string_view op : {"conv", "conv_transposed", "pool"})
      EXPECT_NE(attributes_of_samples(op).find(" " + key + "="), std::string::npos) << op << " " << key;
  EXPECT_NE(attributes_of_samples("conv_transposed").find(" output_padding="), std::string::npos);
  for (const std::string key : {"kernel", "count_pads", "ceil_mode"})
    EXPECT_NE(attributes_of_samples("pool").find(" " + key + "="), std::string::npos) << key;
}

TEST(section12_Conv, ListsOutsideTheirRangeAreRefused) {
  EXPECT_THROW(Extents({1, 1, 1, 1}), Error);
  EXPECT_THROW(Extents({-1}), Error);
  EXPECT_THROW(Extents({40000}), Error);
  AttrBlob blob = op_def<Conv>().defaults();
  for (const char* bad : {"", "1,", "-1", "1,1,1,1", "32768", "x"})
    EXPECT_FALSE(op_def<Conv>().set(blob, "strides", bad)) << bad;
}

TEST(section12_Pool, TakesTheLargestOfAWindow) {
  const Tensor x = f32({1, 1, 6}, {3, -1, 4, -1, -5, -9});
  expect_near(run_op(Pool{.kernel = {2}, .strides = {2}}, {x}), {3, 4, -5});
  expect_near(run_op(Pool{.kernel = {3}, .strides = {2}, .dilations = {2}}, {x}), {4});
  // Padding is no zero: the last window holds -5 and -9 alone.
  expect_near(run_op(Pool{.kernel = {3}, .strides = {4}, .pads_end = {1}}, {x}), {4, -5});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = run_op(Pool{.kernel = {2}}, {f32({1, 1, 4}, {1, nan, 2, 3})}).to_floats();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && y[2] == 3.0f);
}

TEST(section12_Pool, AveragesWithAndWithoutThePadding) {
  const Tensor x = f32({1, 1, 5}, {1, 2, 3, 4, 5});
  Pool op{.kind = PoolKind::average, .kernel = {3}, .strides = {2}, .pads_begin = {1}, .pads_end = {1}};
  expect_near(run_op(op, {x}), {1.5, 3, 4.5});
  op.count_pads = true;
  expect_near(run_op(op, {x}), {1, 3, 3});
  // ceil_mode reads beyond the padding; that never counts.
  Pool over{.kind = PoolKind::average, .count_pads = true, .ceil_mode = true, .kernel = {2}, .strides = {2}};
  expect_near(run_op(over, {x}), {1.5, 3.5, 5});
  over.ceil_mode = false;
  expect_near(run_op(over, {x}), {1.5, 3.5});
}

TEST(section12_Pool, GlobalPoolingLeavesOneValueOfAChannel) {
  const Tensor x = f32({1, 2, 2, 2}, {1, 2, 3, 6, -1, -2, -3, -4});
  expect_near(run_op(GlobalPool{}, {x}), {6, -1});
  const Tensor mean = run_op(GlobalPool{PoolKind::average}, {x});
  expect_near(mean, {3, -2.5});
  EXPECT_EQ(mean.dims(), (Dims{1, 2, 1, 1}));
}

TEST(section12_Fft, FourValuesByHand) {
  expect_near(run_op(Fft{}, {f32({4, 2}, {1, 0, 2, 0, 3, 0, 4, 0})}), {10, 0, -2, 2, -2, 0, -2, -2});
  expect_near(run_op(RealFft{}, {f32({4}, {1, 2, 3, 4})}), {10, 0, -2, 2, -2, 0});
  expect_near(run_op(InverseRealFft{}, {f32({3, 2}, {10, 9, -2, 2, -2, 7})}), {1, 2, 3, 4});
}

TEST(section12_Fft, IsTheSumOfItsDefinition) {
  const std::int64_t n = 21;
  const std::vector<double> x = wide(noise({n, 2}, 4));
  std::vector<double> want;
  for (std::int64_t k = 0; k < n; ++k) {
    std::complex<double> sum = 0;
    for (std::int64_t j = 0; j < n; ++j)
      sum += std::complex(x[static_cast<std::size_t>(2 * j)], x[static_cast<std::size_t>(2 * j + 1)]) *
             std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j * k) / static_cast<double>(n));
    want.push_back(sum.real());
    want.push_back(sum.imag());
  }
  expect_near(run_op(Fft{}, {noise({n, 2}, 4)}), want, 1e-5);
}

TEST(section12_Fft, TheInverseGivesTheInputBackAndKeepsItsEnergy) {
  for (const std::int64_t n : {1, 2, 7, 12, 37}) {
    const Tensor x = noise({2, n, 2}, 6), y = run_op(Fft{}, {x}), r = noise({3, n}, 7);
    expect_near(run_op(Fft{true}, {y}), wide(x), 1e-5);
    EXPECT_NEAR(inner_product(y, y), static_cast<double>(n) * inner_product(x, x), 1e-3 * static_cast<double>(n));
    expect_near(run_op(InverseRealFft{n}, {run_op(RealFft{}, {r})}), wide(r), 1e-5);
  }
  EXPECT_EQ(shape_error(InverseRealFft{8}, {"f32[4, 2]"}),
            "inverse_real_fft: x [4, 2]: 8 real values have 5 values of the transform, found 4");
}

TEST(section12_Quantize, FakeQuantizeByHand) {
  const Tensor x = f32({1, 6}, {0.24f, 0.25f, 0.75f, -0.75f, 100, -100});  // 0.25 / 0.5: a tie goes to the even 0
  const Tensor scale = f32({1}, {0.5f});
  expect_near(run_op(FakeQuantize{.low = -8, .high = 7}, {x, scale}), {0, 0, 1, -1, 3.5, -4});
  expect_near(run_op(FakeQuantize{.low = 0, .high = 15, .asymmetric = true}, {x, scale, i32({10})}),
              {0, 0, 1, -1, 2.5, -5});
  const Tensor y = run_op(FakeQuantize{.axis = 0, .per_channel = true}, {f32({2, 2}, {1, 3, 1, 3}), f32({2}, {2, 3})});
  expect_near(y, {0, 4, 0, 3});
  EXPECT_EQ(shape_error(FakeQuantize{.low = 3, .high = 1}, {"f32[4]", "f32[1]"}).substr(0, 14), "fake_quantize:");
}

TEST(section12_Quantize, BlocksComeBackAsTheCodecHasThem) {
  const Tensor x = noise({3, 256}, 9);
  for (const DTypeInfo& d : all_dtypes()) {
    if (!d.is_quantized || d.dtype == DType::xq8 || encoder(d.dtype) == nullptr) continue;
    const Tensor blocks = run_op(Quantize{d.dtype}, {x});
    EXPECT_EQ(blocks.dtype(), d.dtype);
    const Tensor back = run_op(Dequantize{}, {blocks});
    EXPECT_EQ(back.to_floats(), blocks.to_floats()) << d.name;
    const double lengths = std::sqrt(inner_product(x, x) * inner_product(back, back));
    const double error = std::sqrt(2 - 2 * inner_product(x, back) / lengths);
    EXPECT_LT(error, 0.15) << d.name;
  }
  EXPECT_EQ(shape_error(Quantize{DType::q4_0}, {"f32[2, 33]"}).substr(0, 9), "quantize:");
  EXPECT_EQ(shape_error(Quantize{DType::f16}, {"f32[2, 32]"}).substr(0, 16), "quantize: dtype:");
}

}  // namespace
}  // namespace rlx
