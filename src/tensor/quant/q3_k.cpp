#include "tensor/quant/q3_k.h"

#include "tensor/quant/blocks.h"

namespace rlx {

void decode_q3_k(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 256; ++i, out += 256) {
    const auto b = load_block<BlockQ3K>(in, i);
    const float d = f16_to_f32(b.d);
    float scales[16];
    for (int s = 0; s < 16; ++s) {
      const int low = b.scales[s % 8] >> (s / 8 * 4) & 15,
                top = b.scales[8 + s % 4] >> (s / 4 * 2) & 3;
      scales[s] = d * static_cast<float>((low | top << 4) - 32);
    }
    for (int j = 0; j < 256; ++j) {
      const int low = b.q[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3,
                top = b.high[j % 32] >> (j / 32) & 1;
      out[j] = scales[j / 16] * static_cast<float>((low | top << 2) - 4);
    }
  }
}

}  // namespace rlx
