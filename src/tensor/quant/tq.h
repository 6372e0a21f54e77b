// tq1_0 and tq2_0: 256 values of -1, 0 and 1 in 54 and 66 bytes, value = d * (q - 1).
// tq2_0 holds q in two bits, as q2_K does. tq1_0 holds five to a byte: q number n of a byte b is the upper part of
// 3 * (b * 3^n mod 256), in 256ths. Of its first 32 bytes byte j holds values j, 32 + j, ..., 128 + j; of the next 16
// byte j holds 160 + j, 176 + j, ..., 224 + j; of the last four 240 + j, 244 + j, 248 + j, 252 + j.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_tq1_0, block_tq2_0)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockTq1_0 {
  std::uint8_t q[48];
  std::uint8_t high[4];
  std::uint16_t d;  // f16
};
static_assert(sizeof(BlockTq1_0) == 54);

struct BlockTq2_0 {
  std::uint8_t q[64];
  std::uint16_t d;  // f16
};
static_assert(sizeof(BlockTq2_0) == 66);

/// The 256 q of a block.
void expand_tq1_0(const BlockTq1_0& block, std::uint8_t* q);
void expand_tq2_0(const BlockTq2_0& block, std::uint8_t* q);

void decode_tq1_0(const std::byte* in, float* out, std::int64_t n);
void decode_tq2_0(const std::byte* in, float* out, std::int64_t n);

}  // namespace rlx
