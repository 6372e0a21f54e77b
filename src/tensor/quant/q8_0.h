// q8_0: 32 values in 34 bytes. value = q * d.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q8_0)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ8_0 {
  std::uint16_t d;  // f16
  std::int8_t q[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

void decode_q8_0(const std::byte* in, float* out, std::int64_t n);
void encode_q8_0(const float* in, std::byte* out, std::int64_t n);

}  // namespace rlx
