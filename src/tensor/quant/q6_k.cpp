#include "tensor/quant/q6_k.h"

#include <algorithm>

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

constexpr int kGroup = 16, kGroups = 16;

// The scale (of either sign) for which x is nearest to scale * q, q in -32..31, errors weighted by
// x^2. Tries step sizes around the one that puts the value of largest magnitude at -32.
float fit_group(const float* x) {
  const float largest = *std::max_element(
      x, x + kGroup, [](float p, float q) { return std::fabs(p) < std::fabs(q); });
  float best = 0.0f;
  double best_gain = 0.0;
  for (int step = -9; step <= 9; ++step) {
    const float inverse = inverse_or_zero(largest / -(32.0f + 0.1f * static_cast<float>(step)));
    double wqx = 0, wqq = 0;
    for (int i = 0; i < kGroup; ++i) {
      const double q = round_within(x[i] * inverse, -32, 31), xi = x[i], w = xi * xi;
      wqx += w * q * xi, wqq += w * q * q;
    }
    // With the best scale wqx / wqq the squared error falls by wqx^2 / wqq.
    if (wqq > 0 && wqx * wqx / wqq > best_gain)
      best_gain = wqx * wqx / wqq, best = static_cast<float>(wqx / wqq);
  }
  return best;
}

void put(BlockQ6K& b, int at, int q) {
  const int half = at / 128, within = at % 128;
  b.low[half * 64 + within % 64] |= static_cast<std::uint8_t>((q & 15) << (within / 64 * 4));
  b.high[half * 32 + within % 32] |= static_cast<std::uint8_t>(q >> 4 << (within / 32 * 2));
}

int get(const BlockQ6K& b, int at) {
  const int half = at / 128, within = at % 128;
  return (b.low[half * 64 + within % 64] >> (within / 64 * 4) & 15) |
         (b.high[half * 32 + within % 32] >> (within / 32 * 2) & 3) << 4;
}

BlockQ6K encode_block(const float* x) {
  BlockQ6K b{};
  if (!all_finite(x, 256)) {
    b.d = kF16NaN;
    return b;
  }
  float scales[kGroups];
  for (int g = 0; g < kGroups; ++g) scales[g] = fit_group(x + g * kGroup);
  const float largest = *std::max_element(
      scales, scales + kGroups, [](float p, float q) { return std::fabs(p) < std::fabs(q); });
  b.d = f32_to_f16(largest / -128.0f);
  const float d = f16_to_f32(b.d);
  for (int g = 0; g < kGroups; ++g) {
    b.scales[g] = static_cast<std::int8_t>(round_within(scales[g] * inverse_or_zero(d), -128, 127));
    const float inverse = inverse_or_zero(d * static_cast<float>(b.scales[g]));
    for (int i = 0; i < kGroup; ++i)
      put(b, g * kGroup + i, round_within(x[g * kGroup + i] * inverse, -32, 31) + 32);
  }
  return b;
}

}  // namespace

void decode_q6_k(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 256; ++i, out += 256) {
    const auto b = load_block<BlockQ6K>(in, i);
    const float d = f16_to_f32(b.d);
    for (int j = 0; j < 256; ++j)
      out[j] = d * static_cast<float>(b.scales[j / 16]) * static_cast<float>(get(b, j) - 32);
  }
}

void encode_q6_k(const float* in, std::byte* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 256; ++i) store_block(encode_block(in + 256 * i), out, i);
}

}  // namespace rlx
