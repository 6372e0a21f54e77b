// q4_0: 32 values in 18 bytes. value = (q - 8) * d, q in 0..15. Byte j holds value j in its low
// bits and value j + 16 in its high bits.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q4_0)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ4_0 {
  std::uint16_t d;  // f16
  std::uint8_t q[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

void decode_q4_0(const std::byte* in, float* out, std::int64_t n);
void encode_q4_0(const float* in, std::byte* out, std::int64_t n);

}  // namespace rlx
