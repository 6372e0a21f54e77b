// iq3_xxs, iq3_s: 256 values in 98 and 110 bytes. Four values are an entry of a book of 256 or 512, with signs.
// iq3_xxs: entries of 4 to 62, value = d * (2 s + 1) / 4 * (+ or -) entry; after the 64 bytes of indices a word per 32
// values with 4 x 7 signs (the eighth makes the number of negative values even) and s. iq3_s: odd entries up to 15,
// value = d * (2 s + 1) * (+ or -) entry; 64 bytes of indices, their ninth bits, 32 bytes of signs, and s per 32 values
// in half a byte.
#include "tensor/quant/blocks.h"
#include "tensor/quant/code_book.h"

namespace rlx {
namespace {

constexpr std::uint16_t kXxsCodes[256] = {
#include "tensor/quant/codebook_iq3_xxs.inc"
};
constexpr std::uint16_t kSCodes[512] = {
#include "tensor/quant/codebook_iq3_s.inc"
};
constexpr SpreadCodes<3, std::uint32_t, 256> kXxs{kXxsCodes};
constexpr SpreadCodes<3, std::uint32_t, 512> kS{kSCodes};
constexpr SpreadSigns<3> kSigns;

struct BlockIq3Xxs {
  std::uint16_t d;
  std::uint8_t q[64];
  std::uint16_t rest[8][2];
};
static_assert(sizeof(BlockIq3Xxs) == 98);

struct BlockIq3S {
  std::uint16_t d;
  std::uint8_t q[64];
  std::uint8_t high[8];
  std::uint8_t signs[32];
  std::uint8_t scales[4];
};
static_assert(sizeof(BlockIq3S) == 110);

void put_entries(CodedBlock& to, int eighth, std::uint32_t low, std::uint32_t high, unsigned signs) {
  put_codes(to, eighth, (low | static_cast<std::uint64_t>(high) << 32) | kSigns.of[signs]);
}

void expand_iq3_xxs(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq3Xxs>(block, 0);
  to.d = b.d;
  for (int g = 0; g < 8; ++g) {
    const unsigned rest = b.rest[g][0] | static_cast<unsigned>(b.rest[g][1]) << 16;
    to.scale[g] = odd_scale(rest >> 28);
    const std::uint8_t* q = b.q + g * 8;
    for (int i = 0; i < 4; ++i)
      put_entries(to, g * 4 + i, kXxs.entry[q[2 * i]], kXxs.entry[q[2 * i + 1]], even_signs(rest >> (7 * i) & 127));
  }
}

void expand_iq3_s(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq3S>(block, 0);
  to.d = b.d;
  for (int g = 0; g < 8; ++g) to.scale[g] = odd_scale(static_cast<unsigned>(b.scales[g / 2]) >> (g % 2 * 4));
  const auto entry = [&](int i) { return kS.entry[b.q[i] | (b.high[i / 8] >> (i % 8) & 1) << 8]; };
  for (int i = 0; i < 32; ++i) put_entries(to, i, entry(2 * i), entry(2 * i + 1), b.signs[i]);
}

}  // namespace

const CodeBook kIq3Xxs = {{4, 12, 20, 28, 36, 44, 52, 62, -4, -12, -20, -28, -36, -44, -52, -62},
                          0.25f, 32, sizeof(BlockIq3Xxs), expand_iq3_xxs};
const CodeBook kIq3S = {{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15},
                        1.0f, 32, sizeof(BlockIq3S), expand_iq3_s};

}  // namespace rlx
