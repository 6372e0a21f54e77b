#include "tensor/quant/q2_k.h"

#include "tensor/quant/blocks.h"

namespace rlx {

void decode_q2_k(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 256; ++i, out += 256) {
    const auto b = load_block<BlockQ2K>(in, i);
    const float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
    for (int j = 0; j < 256; ++j) {
      const std::uint8_t s = b.scales[j / 16];
      const int q = b.q[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
      const float scale = d * static_cast<float>(s & 15),
                  offset = dmin * static_cast<float>(s >> 4);
      out[j] = scale * static_cast<float>(q) - offset;
    }
  }
}

}  // namespace rlx
