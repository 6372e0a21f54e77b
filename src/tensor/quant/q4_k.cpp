#include "tensor/quant/q4_k.h"

#include <algorithm>

#include "tensor/quant/blocks.h"
#include "tensor/quant/k_scales.h"

namespace rlx {
namespace {

constexpr int kGroup = 32, kGroups = 8, kTop = 15;

// x is near scale * q - min, q in 0..15.
struct Fit {
  float scale = 0.0f, min = 0.0f;
};

// Weighted least squares of x against scale * q - min for given q, with scale and min not negative.
// Returns the error that is left.
double refine(const float* x, const float* weight, const int* q, Fit& fit) {
  double w = 0, wx = 0, wq = 0, wqq = 0, wqx = 0;
  for (int i = 0; i < kGroup; ++i) {
    const double wi = weight[i], qi = q[i], xi = x[i];
    w += wi, wx += wi * xi, wq += wi * qi, wqq += wi * qi * qi, wqx += wi * qi * xi;
  }
  const double det = w * wqq - wq * wq;
  // All q equal (but for rounding) leave one free number: the minimum.
  const bool solvable = det > 1e-9 * w * wqq;
  double scale = solvable ? (w * wqx - wx * wq) / det : 0;
  double min = solvable ? (wq * wqx - wqq * wx) / det : w > 0 ? -wx / w : 0;
  if (!(min > 0)) min = 0, scale = wqq > 0 ? wqx / wqq : 0;
  if (!(scale > 0)) scale = 0;
  fit = {static_cast<float>(scale), static_cast<float>(min)};
  double error = 0;
  for (int i = 0; i < kGroup; ++i) {
    const double e = scale * q[i] - min - x[i];
    error += weight[i] * e * e;
  }
  return error;
}

// Tries step sizes around the one that spans the group and keeps the best: the extremes are rarely
// the values that matter.
Fit fit_group(const float* x) {
  double squares = 0;
  for (int i = 0; i < kGroup; ++i) squares += static_cast<double>(x[i]) * x[i];
  // Large weights count more, since they do in products; the root mean square keeps small ones from
  // counting nothing.
  const auto rms = static_cast<float>(std::sqrt(squares / kGroup));
  float weight[kGroup];
  for (int i = 0; i < kGroup; ++i) weight[i] = rms + std::fabs(x[i]);
  const float low = std::min(0.0f, *std::min_element(x, x + kGroup)),
              high = *std::max_element(x, x + kGroup);
  Fit best;
  double best_error = std::numeric_limits<double>::infinity();
  for (int step = -10; step <= 10; ++step) {
    const float inverse = inverse_or_zero(
        (high - low) / (static_cast<float>(kTop) + 0.1f * static_cast<float>(step)));
    int q[kGroup];
    for (int i = 0; i < kGroup; ++i) q[i] = round_within((x[i] - low) * inverse, 0, kTop);
    Fit fit;
    if (const double error = refine(x, weight, q, fit); error < best_error)
      best = fit, best_error = error;
  }
  return best;
}

BlockQ4K encode_block(const float* x) {
  BlockQ4K b{};
  if (!all_finite(x, 256)) {
    b.d = b.dmin = kF16NaN;
    return b;
  }
  Fit fits[kGroups];
  float top_scale = 0, top_min = 0;
  for (int g = 0; g < kGroups; ++g) {
    fits[g] = fit_group(x + g * kGroup);
    top_scale = std::max(top_scale, fits[g].scale);
    top_min = std::max(top_min, fits[g].min);
  }
  b.d = f32_to_f16(top_scale / 63.0f);
  b.dmin = f32_to_f16(top_min / 63.0f);
  const float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
  KScales scales{};
  for (int g = 0; g < kGroups; ++g) {
    scales.scale[g] =
        static_cast<std::uint8_t>(round_within(fits[g].scale * inverse_or_zero(d), 0, 63));
    scales.min[g] =
        static_cast<std::uint8_t>(round_within(fits[g].min * inverse_or_zero(dmin), 0, 63));
    // The quantised scale and minimum decide what is decoded, so the values are rounded against
    // those.
    const float inverse = inverse_or_zero(d * static_cast<float>(scales.scale[g])),
                min = dmin * static_cast<float>(scales.min[g]);
    for (int i = 0; i < kGroup; ++i) {
      const int q = round_within((x[g * kGroup + i] + min) * inverse, 0, kTop);
      b.q[g / 2 * 32 + i] |= static_cast<std::uint8_t>(q << (g % 2 * 4));
    }
  }
  pack_k_scales(scales, b.scales);
  return b;
}

}  // namespace

void decode_q4_k(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 256; ++i, out += 256) {
    const auto b = load_block<BlockQ4K>(in, i);
    const KScales s = unpack_k_scales(b.scales);
    const float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
    for (int g = 0; g < kGroups; ++g) {
      const float scale = d * static_cast<float>(s.scale[g]),
                  min = dmin * static_cast<float>(s.min[g]);
      for (int j = 0; j < kGroup; ++j)
        out[g * kGroup + j] =
            scale * static_cast<float>(b.q[g / 2 * 32 + j] >> (g % 2 * 4) & 15) - min;
    }
  }
}

void encode_q4_k(const float* in, std::byte* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 256; ++i) store_block(encode_block(in + 256 * i), out, i);
}

}  // namespace rlx
