// q5_1: 32 values in 24 bytes. value = q * d + m, q in 0..31, whose bits lie as in q5_0.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q5_1)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ5_1 {
  std::uint16_t d, m;    // f16
  std::uint8_t high[4];  // 32 bits, little-endian
  std::uint8_t q[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

void decode_q5_1(const std::byte* in, float* out, std::int64_t n);
void encode_q5_1(const float* in, std::byte* out, std::int64_t n);

}  // namespace rlx
