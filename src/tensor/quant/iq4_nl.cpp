#include "tensor/quant/iq4_nl.h"

#include "tensor/quant/blocks.h"

namespace rlx {

void decode_iq4_nl(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i, out += 32) {
    const auto b = load_block<BlockIq4Nl>(in, i);
    const float d = f16_to_f32(b.d);
    for (int j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>(kIq4NlSteps[b.q[j] & 15]);
      out[j + 16] = d * static_cast<float>(kIq4NlSteps[b.q[j] >> 4]);
    }
  }
}

}  // namespace rlx
