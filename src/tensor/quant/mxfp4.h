// mxfp4: 32 values in 17 bytes. value = 2^(e - 128) * step[q], the steps being twice the values of a float of four bits
// (E2M1). Nibbles lie as in q4_0. OCP Microscaling Formats (MX) Specification 1.0, 5.3 and 6.3;
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_mxfp4)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockMxfp4 {
  std::uint8_t e;
  std::uint8_t q[16];
};
static_assert(sizeof(BlockMxfp4) == 17);

/// The steps; part of the format.
inline constexpr std::int8_t kMxfp4Steps[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// 2^(e - 128) as bf16, which holds all of them: the two least are subnormal.
inline std::uint16_t mxfp4_scale(std::uint8_t e) {
  return static_cast<std::uint16_t>(e < 2 ? 0x20 << e : (e - 1) << 7);
}

void decode_mxfp4(const std::byte* in, float* out, std::int64_t n);

}  // namespace rlx
