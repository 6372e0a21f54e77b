// q5_K: 256 values in 176 bytes. value = d * scale * q - dmin * min, q in 0..31, scale and min (6
// bits) per 32 values. The low four bits of q lie as in q4_K; bit g of high[j] is the fifth bit of
// value 32 * g + j. https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q5_K)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ5K {
  std::uint16_t d, dmin;    // f16
  std::uint8_t scales[12];  // k_scales.h
  std::uint8_t high[32];
  std::uint8_t q[128];
};
static_assert(sizeof(BlockQ5K) == 176);

void decode_q5_k(const std::byte* in, float* out, std::int64_t n);

}  // namespace rlx
