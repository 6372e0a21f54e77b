// The eight pairs of 6-bit scale and minimum that q4_K and q5_K pack into 12 bytes: pairs 0 to 3
// are the low six bits of bytes 0..3 and 4..7; pairs 4 to 7 have their low four bits in the nibbles
// of bytes 8..11 and their top two in the top of bytes 0..3 and 4..7.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_q4_K)
#pragma once

#include <cstdint>

namespace rlx {

struct KScales {
  std::uint8_t scale[8], min[8];  // 0..63
};

inline KScales unpack_k_scales(const std::uint8_t* packed) {
  KScales s{};
  for (int i = 0; i < 4; ++i) {
    s.scale[i] = packed[i] & 63;
    s.min[i] = packed[i + 4] & 63;
    s.scale[i + 4] = static_cast<std::uint8_t>((packed[i + 8] & 15) | packed[i] >> 6 << 4);
    s.min[i + 4] = static_cast<std::uint8_t>(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
  }
  return s;
}

inline void pack_k_scales(const KScales& s, std::uint8_t* packed) {
  for (int i = 0; i < 4; ++i) {
    packed[i] = static_cast<std::uint8_t>(s.scale[i] | s.scale[i + 4] >> 4 << 6);
    packed[i + 4] = static_cast<std::uint8_t>(s.min[i] | s.min[i + 4] >> 4 << 6);
    packed[i + 8] = static_cast<std::uint8_t>((s.scale[i + 4] & 15) | (s.min[i + 4] & 15) << 4);
  }
}

}  // namespace rlx
