// iq2_xxs, iq2_xs, iq2_s: 256 values in 66, 74 and 82 bytes. Eight values are an entry of a book of 256, 512 or 1024,
// each 8, 25 or 43, with signs: value = d * (2 s + 1) / 8 * (+ or -) entry.
// iq2_xxs: per 32 values four bytes of indices and a word of 4 x 7 signs and s. iq2_xs: per 8 values 9 bits of index
// and 7 signs; s of 16 values is half a byte. iq2_s: a byte of the index and one of signs per 8 values, two bits more
// of the index in qh; s as in iq2_xs. Of seven signs the eighth makes the number of negative values even.
#include "tensor/quant/blocks.h"
#include "tensor/quant/code_book.h"

namespace rlx {
namespace {

constexpr std::uint16_t kXxsCodes[256] = {
#include "tensor/quant/codebook_iq2_xxs.inc"
};
constexpr std::uint16_t kXsCodes[512] = {
#include "tensor/quant/codebook_iq2_xs.inc"
};
constexpr std::uint16_t kSCodes[1024] = {
#include "tensor/quant/codebook_iq2_s.inc"
};
constexpr SpreadCodes<2, std::uint64_t, 256> kXxs{kXxsCodes};
constexpr SpreadCodes<2, std::uint64_t, 512> kXs{kXsCodes};
constexpr SpreadCodes<2, std::uint64_t, 1024> kS{kSCodes};
constexpr SpreadSigns<2> kSigns;

struct BlockIq2Xxs {
  std::uint16_t d;
  struct {
    std::uint8_t index[4];
    std::uint16_t rest[2];  // a word at an even address
  } group[8];
};
static_assert(sizeof(BlockIq2Xxs) == 66);

struct BlockIq2Xs {
  std::uint16_t d;
  std::uint16_t q[32];
  std::uint8_t scales[8];
};
static_assert(sizeof(BlockIq2Xs) == 74);

struct BlockIq2S {
  std::uint16_t d;
  std::uint8_t q[32];
  std::uint8_t signs[32];
  std::uint8_t high[8];
  std::uint8_t scales[8];
};
static_assert(sizeof(BlockIq2S) == 82);

void expand_iq2_xxs(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq2Xxs>(block, 0);
  to.d = b.d;
  for (int g = 0; g < 8; ++g) {
    const unsigned rest = b.group[g].rest[0] | static_cast<unsigned>(b.group[g].rest[1]) << 16;
    to.scale[2 * g] = to.scale[2 * g + 1] = odd_scale(rest >> 28);
    for (int i = 0; i < 4; ++i)
      put_codes(to, g * 4 + i, kXxs.entry[b.group[g].index[i]] | kSigns.of[even_signs(rest >> (7 * i) & 127)]);
  }
}

void put_scales(const std::uint8_t (&scales)[8], CodedBlock& to) {
  for (int i = 0; i < 16; ++i) to.scale[i] = odd_scale(static_cast<unsigned>(scales[i / 2]) >> (i % 2 * 4));
}

void expand_iq2_xs(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq2Xs>(block, 0);
  to.d = b.d;
  put_scales(b.scales, to);
  for (int i = 0; i < 32; ++i) put_codes(to, i, kXs.entry[b.q[i] & 511] | kSigns.of[even_signs(b.q[i] >> 9)]);
}

void expand_iq2_s(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq2S>(block, 0);
  to.d = b.d;
  put_scales(b.scales, to);
  for (int i = 0; i < 32; ++i)
    put_codes(to, i, kS.entry[b.q[i] | (b.high[i / 4] >> (i % 4 * 2) & 3) << 8] | kSigns.of[b.signs[i]]);
}

}  // namespace

#define RLX_STEPS {8, 25, 43, 0, -8, -25, -43, 0}
const CodeBook kIq2Xxs = {RLX_STEPS, 0.125f, 16, sizeof(BlockIq2Xxs), expand_iq2_xxs};
const CodeBook kIq2Xs = {RLX_STEPS, 0.125f, 16, sizeof(BlockIq2Xs), expand_iq2_xs};
const CodeBook kIq2S = {RLX_STEPS, 0.125f, 16, sizeof(BlockIq2S), expand_iq2_s};
#undef RLX_STEPS

}  // namespace rlx
