#include "tensor/quant/mxfp4.h"

#include "tensor/quant/blocks.h"

namespace rlx {

void decode_mxfp4(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n / 32; ++i, out += 32) {
    const auto b = load_block<BlockMxfp4>(in, i);
    const float d = bf16_to_f32(mxfp4_scale(b.e));
    for (int j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>(kMxfp4Steps[b.q[j] & 15]);
      out[j + 16] = d * static_cast<float>(kMxfp4Steps[b.q[j] >> 4]);
    }
  }
}

}  // namespace rlx
