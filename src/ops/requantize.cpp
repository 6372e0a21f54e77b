// Quantise, dequantise and fake-quantise as ops of a graph (ops/quant.h).
#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/quant.h"
#include "ops/samples.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

std::vector<DType> encodable_dtypes() {
  std::vector<DType> list;
  for (const DTypeInfo& d : all_dtypes())
    if (encodes_blocks(d.dtype)) list.push_back(d.dtype);
  return list;
}

std::string encodable_names() {
  std::string text;
  for (const DType d : encodable_dtypes()) text += fmt::format("{}{}", text.empty() ? "" : ", ", rlx::name(d));
  return text;
}

}  // namespace

void Quantize::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32});
  checks::array(c, 0);
  if (c.in(0).rank() < 1) c.fail("x: expected at least one axis, found {}", c.in(0).text());
  if (!encodes_blocks(dtype)) c.fail("dtype: expected one of {}, found {}", encodable_names(), rlx::name(dtype));
  checks::multiple(c, 0, info(dtype).block_elements, fmt::format("blocks of {}", rlx::name(dtype)));
  c.out(c.in(0).with(dtype));
}

void Quantize::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  std::vector<double> row(static_cast<std::size_t>(access::columns(x)));
  std::vector<float> values(row.size());
  const auto part = access::part_of(a, access::row_count(x));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(x, r, row.data());
    std::copy(row.begin(), row.end(), values.begin());
    encoder(dtype)(values.data(), access::row_pointer(y, r), access::columns(x));
  }
}

void Dequantize::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  const Shape& x = c.in(0);
  if (x.is_state() || !is_quantized(x.dtype)) c.fail("x: expected a block format, found {}", x.text());
  if (x.layout != Layout::plain) c.fail("x: expected the plain layout, found {}", x.text());
  c.out(x.with(DType::f32));
}

void Dequantize::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  std::vector<double> row(static_cast<std::size_t>(access::columns(x)));
  const auto part = access::part_of(a, access::row_count(x));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(x, r, row.data());
    access::store_row(y, r, row.data());
  }
}

void FakeQuantize::infer(InferContext& c) const {
  checks::operand_count(c, 2 + asymmetric, "x, scale, then zero_point by `asymmetric`");
  c.dtype(0, {DType::f32});
  checks::array(c, 0);
  const Shape& x = c.in(0);
  if (x.rank() < 1) c.fail("x: expected at least one axis, found {}", x.text());
  constexpr double kExact = 1 << 24;
  checks::attribute(c, "low", low, -kExact, kExact);
  checks::attribute(c, "high", high, low, kExact);
  const int channels = checks::axis(c, 0, axis);
  const Dim n = per_channel ? x.dim(channels) : Dim(1);
  const std::string_view of = per_channel ? "the size of axis" : "one value";
  checks::vector(c, 1, DType::f32, n, of);
  if (asymmetric) checks::vector(c, 2, DType::i32, n, of);
  c.out(x);
}

void FakeQuantize::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const access::Lines lines = access::lines_of(x, axis);
  const auto part = access::part_of(a, lines.outer * lines.length * lines.inner);
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    const std::int64_t channel = per_channel ? i / lines.inner % lines.length : 0;
    const float scale = static_cast<float>(access::load_at(a.in[1], channel));
    const float zero = asymmetric ? static_cast<float>(access::load_int(a.in[2], channel)) : 0.0f;
    float q = std::nearbyint(static_cast<float>(access::load_at(x, i)) / scale) + zero;
    if (q < static_cast<float>(low)) q = static_cast<float>(low);
    if (q > static_cast<float>(high)) q = static_cast<float>(high);
    const float result = (q - zero) * scale;
    access::store_at(y, i, double{result});
  }
}

std::vector<Sample> Quantize::samples() {
  std::vector<Sample> list;
  for (const DType d : encodable_dtypes())
    for (int i = 0; i < 2; ++i) {
      const std::int64_t rows = samples::deal(samples::kRows, list.size()),
                         n = samples::deal_row_length(d, list.size());
      list.push_back(make_sample(fmt::format("{}_{}x{}", rlx::name(d), rows, n), Quantize{d},
                                 {samples::normal({rows, n})}));
    }
  list.push_back(make_sample("experts", Quantize{DType::q4_0}, {samples::normal({2, 3, 64})}));
  list.push_back(make_sample("zeros", Quantize{DType::q4_0}, {samples::normal({3, 64}, DType::f32, 0.0f)}));
  return list;
}

std::vector<Sample> Dequantize::samples() {
  std::vector<Sample> list;
  for (const DTypeInfo& d : all_dtypes()) {
    if (!d.is_quantized) continue;
    for (int i = 0; i < 2; ++i) {
      const std::int64_t rows = samples::deal(samples::kRows, list.size()),
                         n = samples::deal_row_length(d.dtype, list.size());
      list.push_back(make_sample(fmt::format("{}_{}x{}", d.name, rows, n), Dequantize{},
                                 {samples::normal({rows, n}, d.dtype)}));
    }
  }
  list.push_back(make_sample("experts", Dequantize{}, {samples::normal({2, 3, 64}, DType::q4_0)}));
  return list;
}

std::vector<Sample> FakeQuantize::samples() {
  struct Case {
    std::string_view name;
    Shape x;
    FakeQuantize op;
  };
  const Case cases[] = {
      {"int8", Shape({5, 33}, DType::f32), {}},
      {"int4", Shape({3, 17}, DType::f32), {.low = -8, .high = 7}},
      {"uint8", Shape({2, 3, 16}, DType::f32), {.low = 0, .high = 255, .asymmetric = true}},
      {"rows", Shape({7, 48}, DType::f32), {.per_channel = true}},
      {"columns", Shape({4, 19}, DType::f32), {.axis = -1, .per_channel = true, .asymmetric = true}},
      {"channels", Shape({2, 5, 3, 6}, DType::f32), {.low = -7, .high = 7, .axis = 1, .per_channel = true}},
      {"narrow", Shape({3, 2, 40}, DType::f32), {3, 5, 1, true, true}},
      {"line", Shape({70}, DType::f32), {.low = -100000, .high = 1 << 24}},
  };
  std::vector<Sample> list;
  for (const Case& s : cases) {
    const Dim n = s.op.per_channel ? s.x.dim(s.op.axis) : Dim(1);
    std::vector<SampleOperand> in = {{s.x, Fill::normal, 30.0f, {}}, samples::frequencies(*n.constant(), 50.0f)};
    if (s.op.asymmetric) in.push_back(samples::integers({n}, 20.0f, DType::i32));
    list.push_back(make_sample(std::string(s.name), s.op, std::move(in)));
  }
  return list;
}

}  // namespace rlx
