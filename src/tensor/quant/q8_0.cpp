#include "tensor/quant/q8_0.h"

#include <algorithm>

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

BlockQ8_0 encode_block(const float* x) {
  BlockQ8_0 b{};
  if (!all_finite(x, 32)) {
    b.d = kF16NaN;
    return b;
  }
  float largest = 0.0f;
  for (int j = 0; j < 32; ++j) largest = std::max(largest, std::fabs(x[j]));
  const float d = largest / 127.0f, inverse = inverse_or_zero(d);
  b.d = f32_to_f16(d);
  // The reference rounds halves away from zero here.
  for (int j = 0; j < 32; ++j) b.q[j] = static_cast<std::int8_t>(std::round(x[j] * inverse));
  return b;
}

}  // namespace

void decode_q8_0(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i, out += 32) {
    const auto b = load_block<BlockQ8_0>(in, i);
    const float d = f16_to_f32(b.d);
    for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(b.q[j]) * d;
  }
}

void encode_q8_0(const float* in, std::byte* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i) store_block(encode_block(in + 32 * i), out, i);
}

}  // namespace rlx
