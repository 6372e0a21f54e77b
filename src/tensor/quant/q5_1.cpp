#include "tensor/quant/q5_1.h"

#include <algorithm>

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

BlockQ5_1 encode_block(const float* x) {
  BlockQ5_1 b{};
  if (!all_finite(x, 32)) {
    b.d = b.m = kF16NaN;
    return b;
  }
  const auto [smallest, largest] = std::minmax_element(x, x + 32);
  const float m = *smallest, d = (*largest - m) / 31.0f, inverse = inverse_or_zero(d);
  b.d = f32_to_f16(d);
  b.m = f32_to_f16(m);
  std::uint32_t high = 0;
  const auto quantize = [&](int at) {
    const auto q =
        static_cast<std::uint32_t>(std::min(31, static_cast<int>((x[at] - m) * inverse + 0.5f)));
    high |= q >> 4 << at;
    return q & 15u;
  };
  for (int j = 0; j < 16; ++j)
    b.q[j] = static_cast<std::uint8_t>(quantize(j) | quantize(j + 16) << 4);
  std::memcpy(b.high, &high, sizeof high);
  return b;
}

}  // namespace

void decode_q5_1(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i, out += 32) {
    const auto b = load_block<BlockQ5_1>(in, i);
    const float d = f16_to_f32(b.d), m = f16_to_f32(b.m);
    std::uint32_t high = 0;
    std::memcpy(&high, b.high, sizeof high);
    for (int j = 0; j < 16; ++j) {
      const auto low = static_cast<int>((b.q[j] & 15u) | (high >> j & 1u) << 4);
      const auto top = static_cast<int>((b.q[j] >> 4) | (high >> (j + 16) & 1u) << 4);
      out[j] = static_cast<float>(low) * d + m;
      out[j + 16] = static_cast<float>(top) * d + m;
    }
  }
}

void encode_q5_1(const float* in, std::byte* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i) store_block(encode_block(in + 32 * i), out, i);
}

}  // namespace rlx
