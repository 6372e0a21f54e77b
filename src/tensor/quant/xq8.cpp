#include "tensor/quant/xq8.h"

#include <algorithm>

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

// Quantises a group of 32; returns its scale.
float encode_group(const float* x, std::int8_t* q) {
  std::fill(q, q + 32, std::int8_t{0});
  if (!all_finite(x, 32)) return std::numeric_limits<float>::quiet_NaN();
  float largest = 0.0f;
  for (int j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(x[j]));
  const float inverse = 127.0f / largest;
  if (!std::isfinite(inverse)) return 0.0f;
  for (int j = 0; j < 32; ++j)
    q[j] = static_cast<std::int8_t>(round_within(x[j] * inverse, -127, 127));
  return largest / 127.0f;
}

}  // namespace

void decode_xq8(const std::byte* in, float* out, std::int64_t n) {
  const std::byte* scales = in + n;
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(load_block<std::int8_t>(in, i)) * load_block<float>(scales, i / 32);
}

void encode_xq8(const float* in, std::byte* out, std::int64_t n) {
  std::byte* scales = out + n;
  std::byte* sums = scales + n / 32 * 4;
  for (std::int64_t g = 0; g < n / 32; ++g) {
    std::int8_t q[32];
    store_block(encode_group(in + 32 * g, q), scales, g);
    std::memcpy(out + 32 * g, q, sizeof q);
    for (int half = 0; half < 2; ++half) {
      std::int32_t sum = 0;
      for (int j = 0; j < 16; ++j) sum += q[16 * half + j];
      store_block(sum, sums, 2 * g + half);
    }
  }
}

}  // namespace rlx
