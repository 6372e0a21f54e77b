#include "ops/quant.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

constexpr std::int64_t kGroup = 32;

// One group of 32 values: int8 values and their scale (QuantizeRows in quant.h).
float quantize_group(const double* x, std::int8_t* q) {
  double largest = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < kGroup; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::fmax(largest, std::fabs(x[i]));
  }
  for (std::int64_t i = 0; i < kGroup; ++i)
    q[i] = finite && largest > 0 ? static_cast<std::int8_t>(std::nearbyint(x[i] * 127.0 / largest))
                                 : std::int8_t{0};
  return finite ? static_cast<float>(largest / 127.0) : std::numeric_limits<float>::quiet_NaN();
}

bool plain_float(DType d) { return d == DType::f32 || d == DType::f16 || d == DType::bf16; }

}  // namespace

using samples::normal;

void QuantizeRows::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::plain(c, 0, DType::f32, c.in(0).rank() == 3 ? 3 : 2);
  checks::multiple(c, 0, kGroup, "int8 groups");
  c.out(c.in(0).with(DType::xq8));
}

void QuantizeRows::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t n = access::columns(x);
  std::vector<double> row(static_cast<std::size_t>(n));
  std::vector<std::int8_t> q(row.size());
  std::vector<float> d(static_cast<std::size_t>(n / 32));
  std::vector<std::int32_t> sums(static_cast<std::size_t>(n / 16));
  const auto part = access::part_of(a, access::row_count(x));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    access::load_row(x, r, row.data());
    for (std::int64_t g = 0; g < n / kGroup; ++g)
      d[static_cast<std::size_t>(g)] =
          quantize_group(row.data() + g * kGroup, q.data() + g * kGroup);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = 0;
      for (std::size_t j = 0; j < 16; ++j) sums[i] += q[16 * i + j];
    }
    std::byte* to = access::row_pointer(y, r);
    std::memcpy(to, q.data(), q.size());
    std::memcpy(to + n, d.data(), d.size() * sizeof(float));
    std::memcpy(to + n + n / 8, sums.data(), sums.size() * sizeof(std::int32_t));
  }
}

void TransposeWeight::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  c.rank(0, 2);
  c.dtype(0, {DType::f32, DType::f16, DType::bf16});
  const Shape& w = c.in(0);
  if (w.layout != Layout::plain) c.fail("w: expected the plain layout, found {}", w.text());
  c.out(Shape({w.dim(1), w.dim(0)}, w.dtype));
}

void TransposeWeight::reference(const KernelArgs& a) const {
  const TensorView &w = a.in[0], &y = a.out[0];
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r)
    for (std::int64_t c = 0; c < access::columns(y); ++c) access::store(y, r, c, access::load(w, c, r));
}

std::vector<Sample> TransposeWeight::samples() {
  std::vector<Sample> list;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const auto& [k, n] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {4, 2}, {33, 17}, {1, 64}})
      list.push_back(make_sample(fmt::format("{}_{}x{}", rlx::name(dtype), k, n), TransposeWeight{},
                                 {normal({k, n}, dtype)}));
  return list;
}

void Pack::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  checks::weight(c, 0, c.in(0).rank() == 3 ? 3 : 2);
  const Shape& w = c.in(0);
  if (w.layout != Layout::plain) c.fail("w: expected the plain layout, found {}", w.text());
  const bool kept = w.dtype == dtype;
  const bool from_float = plain_float(w.dtype) && (plain_float(dtype) || encodes_blocks(dtype));
  const bool from_blocks = is_quantized(w.dtype) && dtype == DType::bf16;
  if (!kept && !from_float && !from_blocks)
    c.fail("dtype: {} can become {}, not {}", w.text(),
           plain_float(w.dtype) ? std::string("f32, f16, bf16 or a block format that has an encoder")
                                : fmt::format("{} or bf16", rlx::name(w.dtype)),
           rlx::name(dtype));
  if (is_quantized(dtype) && !kept)
    checks::multiple(c, 0, info(dtype).block_elements, fmt::format("blocks of {}", rlx::name(dtype)));
  c.out(w.with(dtype).with(layout));
}

void Pack::reference(const KernelArgs& a) const {
  const TensorView &w = a.in[0], &y = a.out[0];
  const std::int64_t k = access::columns(w);
  std::vector<float> row(static_cast<std::size_t>(k));
  const auto part = access::part_of(a, access::row_count(w));
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    const std::byte* from = access::row_pointer(w, r);
    std::byte* to = access::row_pointer(y, r);
    if (w.dtype == y.dtype) {
      std::memcpy(to, from, static_cast<std::size_t>(row_bytes(w.dtype, k)));
      continue;
    }
    decoder(w.dtype)(from, row.data(), k);
    encoder(y.dtype)(row.data(), to, k);
  }
}

std::vector<Sample> QuantizeRows::samples() {
  std::vector<Sample> list;
  constexpr std::int64_t kColumns[] = {32, 96, 512, 256};
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i], n = samples::deal(kColumns, i);
    list.push_back(
        make_sample(fmt::format("{}x{}", rows, n), QuantizeRows{}, {normal({rows, n})}, kGroup));
  }
  list.push_back(make_sample("slots", QuantizeRows{}, {normal({3, 2, 64})}, kGroup));
  for (const float scale : {0.0f, 1e-6f, 1e6f})
    list.push_back(make_sample(fmt::format("scale_{}", scale), QuantizeRows{},
                               {normal({3, 64}, DType::f32, scale)}, kGroup));
  return list;
}

std::vector<Sample> Pack::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  const auto add = [&](DType from, DType to, std::int64_t k) {
    const std::int64_t n = samples::deal(samples::kWidths, turn);
    list.push_back(make_sample(fmt::format("{}_to_{}_{}x{}", rlx::name(from), rlx::name(to), n, k),
                               Pack{.dtype = to}, {normal({n, k}, from)}));
    ++turn;
  };
  for (const DType from : samples::weight_dtypes()) {
    for (int i = 0; i < 2; ++i) add(from, from, samples::deal_row_length(from, turn));
    if (is_quantized(from)) {
      add(from, DType::bf16, samples::deal_row_length(from, turn));
      continue;
    }
    for (const DType to : {DType::f32, DType::f16, DType::bf16})
      if (to != from) add(from, to, samples::deal_row_length(from, turn));
    add(from, DType::q8_0, samples::deal_row_length(DType::q8_0, turn));
  }
  list.push_back(make_sample("experts", Pack{}, {normal({3, 17, 5})}));
  return list;
}

}  // namespace rlx
