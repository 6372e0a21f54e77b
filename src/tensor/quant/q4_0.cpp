#include "tensor/quant/q4_0.h"

#include <algorithm>

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

BlockQ4_0 encode_block(const float* x) {
  BlockQ4_0 b{};
  if (!all_finite(x, 32)) {
    b.d = kF16NaN;
    return b;
  }
  // The value of largest magnitude, with its sign, becomes -8: the end of the range that has one
  // step more.
  const float largest =
      *std::max_element(x, x + 32, [](float p, float q) { return std::fabs(p) < std::fabs(q); });
  const float d = largest / -8.0f, inverse = inverse_or_zero(d);
  b.d = f32_to_f16(d);
  const auto quantize = [&](float v) { return std::min(15, static_cast<int>(v * inverse + 8.5f)); };
  for (int j = 0; j < 16; ++j)
    b.q[j] = static_cast<std::uint8_t>(quantize(x[j]) | quantize(x[j + 16]) << 4);
  return b;
}

}  // namespace

void decode_q4_0(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i, out += 32) {
    const auto b = load_block<BlockQ4_0>(in, i);
    const float d = f16_to_f32(b.d);
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>((b.q[j] & 15) - 8) * d;
      out[j + 16] = static_cast<float>((b.q[j] >> 4) - 8) * d;
    }
  }
}

void encode_q4_0(const float* in, std::byte* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i) store_block(encode_block(in + 32 * i), out, i);
}

}  // namespace rlx
