// q3_K: 256 values in 110 bytes. value = d * (s - 32) * (q - 4), q in 0..7, one 6-bit s per 16
// values. The low two bits of q lie as in q2_K; bit k of high[j] is the third bit of value 32 * k +
// j. Scales: the low four bits of s[i] are nibble i / 8 of byte i % 8, the top two are bits 2 * (i
// / 4) of byte 8 + i % 4. https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h
// (block_q3_K)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockQ3K {
  std::uint8_t high[32];
  std::uint8_t q[64];
  std::uint8_t scales[12];
  std::uint16_t d;  // f16
};
static_assert(sizeof(BlockQ3K) == 110);

void decode_q3_k(const std::byte* in, float* out, std::int64_t n);

}  // namespace rlx
