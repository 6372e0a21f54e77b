#include "tensor/quant/q4_1.h"

#include <algorithm>

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

BlockQ4_1 encode_block(const float* x) {
  BlockQ4_1 b{};
  if (!all_finite(x, 32)) {
    b.d = b.m = kF16NaN;
    return b;
  }
  const auto [low, high] = std::minmax_element(x, x + 32);
  const float m = *low, d = (*high - m) / 15.0f, inverse = inverse_or_zero(d);
  b.d = f32_to_f16(d);
  b.m = f32_to_f16(m);
  const auto quantize = [&](float v) {
    return std::min(15, static_cast<int>((v - m) * inverse + 0.5f));
  };
  for (int j = 0; j < 16; ++j)
    b.q[j] = static_cast<std::uint8_t>(quantize(x[j]) | quantize(x[j + 16]) << 4);
  return b;
}

}  // namespace

void decode_q4_1(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i, out += 32) {
    const auto b = load_block<BlockQ4_1>(in, i);
    const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>(b.q[j] & 15) * d + m;
      out[j + 16] = static_cast<float>(b.q[j] >> 4) * d + m;
    }
  }
}

void encode_q4_1(const float* in, std::byte* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i) store_block(encode_block(in + 32 * i), out, i);
}

}  // namespace rlx
