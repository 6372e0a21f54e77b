#include "tensor/quant/q5_k.h"

#include "tensor/quant/blocks.h"
#include "tensor/quant/k_scales.h"

namespace rlx {

void decode_q5_k(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 256; ++i, out += 256) {
    const auto b = load_block<BlockQ5K>(in, i);
    const KScales s = unpack_k_scales(b.scales);
    const float d = f16_to_f32(b.d), dmin = f16_to_f32(b.dmin);
    for (int g = 0; g < 8; ++g) {
      const float scale = d * static_cast<float>(s.scale[g]),
                  min = dmin * static_cast<float>(s.min[g]);
      for (int j = 0; j < 32; ++j) {
        const int low = b.q[g / 2 * 32 + j] >> (g % 2 * 4) & 15, top = b.high[j] >> g & 1;
        out[g * 32 + j] = scale * static_cast<float>(low | top << 4) - min;
      }
    }
  }
}

}  // namespace rlx
