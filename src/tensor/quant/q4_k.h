// q4_K: 256 values in 144 bytes. value = d * scale * q - dmin * min, q in 0..15, scale and min (6
// bits) per 32 values. For each 64 values, byte j of their 32 holds value j in its low bits and
// value j + 32 in its high bits. https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
// (block_q4_K)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ4K {
  std::uint16_t d, dmin;    // f16
  std::uint8_t scales[12];  // k_scales.h
  std::uint8_t q[128];
};
static_assert(sizeof(BlockQ4K) == 144);

void decode_q4_k(const std::byte* in, float* out, std::int64_t n);
void encode_q4_k(const float* in, std::byte* out, std::int64_t n);

}  // namespace rlx
