// The block formats of 256 values whose values come from a small table of steps: the "i-quants" of GGUF. Files keep
// an index into a code book of 4 or 8 values at once; taken apart, each value has a code of 3 or 4 bits of its own:
//   value = d * factor * scale * steps[code]
// with exact products in float32, so that taking apart loses nothing.
// https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h (block_iq1_s to block_iq4_xs, the grids)
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/quant/codec.h"

namespace rlx {

struct CodedBlock {
  alignas(16) std::uint8_t code[256];
  std::int8_t scale[16];  ///< one of each CodeBook::per_scale values
  std::uint16_t d;        ///< f16
};

struct CodeBook {
  std::int8_t steps[16];  ///< of the codes; codes of three bits use the first eight
  float factor;           ///< a power of two
  int per_scale;          ///< values with one scale: 16 or 32
  int block_bytes;        ///< of the file
  void (*expand)(const std::byte* block, CodedBlock& to);
};

extern const CodeBook kIq1S, kIq1M, kIq2Xxs, kIq2Xs, kIq2S, kIq3Xxs, kIq3S, kIq4Xs;

/// Null for types that have none.
const CodeBook* code_book(DType dtype);

/// Decodes a row of such a type (DecodeRow of codec.h with the book before it).
void decode_coded(const CodeBook& book, const std::byte* in, float* out, std::int64_t n);

/// The codes of the entries of a book: `Values` of them, one a byte, the first one lowest. Word: 8 bytes or 4.
template <int Bits, typename Word, int Entries>
struct SpreadCodes {
  Word entry[Entries] = {};
  explicit constexpr SpreadCodes(const std::uint16_t (&packed)[Entries]) {
    for (int i = 0; i < Entries; ++i)
      for (std::size_t j = 0; j < sizeof(Word); ++j)
        entry[i] |= static_cast<Word>(packed[i] >> (Bits * j) & ((1 << Bits) - 1)) << (8 * j);
  }
};

/// Of each sign byte the eight codes with the bit `At` set where a value is negative.
template <int At>
struct SpreadSigns {
  std::uint64_t of[256] = {};
  constexpr SpreadSigns() {
    for (std::uint64_t i = 0; i < 256; ++i)
      for (std::uint64_t j = 0; j < 8; ++j) of[i] |= (i >> j & 1) << (8 * j + At);
  }
};

/// Eight codes, the first one lowest, at values 8 * eighth and on.
inline void put_codes(CodedBlock& to, int eighth, std::uint64_t codes) {
  std::memcpy(to.code + eighth * 8, &codes, sizeof codes);
}

/// The scale that four bits s of a file stand for, 2 s + 1; the factor takes the rest.
inline std::int8_t odd_scale(unsigned s) { return static_cast<std::int8_t>(2 * (s & 15) + 1); }

/// Seven signs as eight: the last one makes their number even.
inline unsigned even_signs(unsigned seven) {
  return seven | static_cast<unsigned>(__builtin_parity(seven)) << 7;
}

}  // namespace rlx
