// iq4_nl: 32 values in 18 bytes. value = d * table[q], a fixed table of 16 uneven steps; nibbles
// lie as in q4_0. https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_iq4_nl,
// kvalues_iq4nl)
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

struct BlockIq4Nl {
  std::uint16_t d;  // f16
  std::uint8_t q[16];
};
static_assert(sizeof(BlockIq4Nl) == 18);

/// The steps; part of the format.
inline constexpr std::int8_t kIq4NlSteps[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};

void decode_iq4_nl(const std::byte* in, float* out, std::int64_t n);

}  // namespace rlx
