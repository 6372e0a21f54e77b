// q5_0: 32 values in 22 bytes. value = (q - 16) * d, q in 0..31. The low four bits lie as in q4_0,
// bit j of `high` is the fifth bit of value j.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q5_0)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ5_0 {
  std::uint16_t d;       // f16
  std::uint8_t high[4];  // 32 bits, little-endian
  std::uint8_t q[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

void decode_q5_0(const std::byte* in, float* out, std::int64_t n);
void encode_q5_0(const float* in, std::byte* out, std::int64_t n);

}  // namespace rlx
