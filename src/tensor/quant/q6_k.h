// q6_K: 256 values in 210 bytes. value = d * scale * (q - 32), q in 0..63, one int8 scale per 16
// values. For each half (128 values): byte j of its 64 low bytes holds the low four bits of value
// j, in its top bits those of value j + 64; bits 2k..2k+1 of byte j of its 32 high bytes are the
// top two of value 32 * k + j. https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
// (block_q6_K)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ6K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  std::uint16_t d;  // f16
};
static_assert(sizeof(BlockQ6K) == 210);

void decode_q6_k(const std::byte* in, float* out, std::int64_t n);
void encode_q6_k(const float* in, std::byte* out, std::int64_t n);

}  // namespace rlx
