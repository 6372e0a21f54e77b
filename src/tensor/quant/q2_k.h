// q2_K: 256 values in 84 bytes. value = d * (s & 15) * q - dmin * (s >> 4), q in 0..3, one byte s
// per 16 values. For each half (128 values), byte j of its 32 holds in bits 2k..2k+1 value 32 * k +
// j. https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q2_K)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ2K {
  std::uint8_t scales[16];
  std::uint8_t q[64];
  std::uint16_t d, dmin;  // f16
};
static_assert(sizeof(BlockQ2K) == 84);

void decode_q2_k(const std::byte* in, float* out, std::int64_t n);

}  // namespace rlx
