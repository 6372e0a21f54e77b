// iq1_s: 256 values in 50 bytes, iq1_m: in 56. Eight values are an entry of a book of 2048, each -1, 0 or 1, and
// are shifted by 1/8 up or down: value = d * (2 s + 1) * (entry + shift), that is d / 8 * (2 s + 1) * (8 entry +- 1).
// The lower eight bits of an index are a byte, the upper three lie in qh. iq1_s: qh holds per 32 values 4 x 3 bits, s
// (3 bits) and whether the shift is down. iq1_m: qh holds per 8 values 3 bits and the shift; s per 16 values, 4 x 3
// bits in each of four words, whose upper four bits make d.
#include "tensor/quant/blocks.h"
#include "tensor/quant/code_book.h"

namespace rlx {
namespace {

constexpr std::uint16_t kCodes[2048] = {
#include "tensor/quant/codebook_iq1.inc"
};
constexpr SpreadCodes<2, std::uint64_t, 2048> kEntries{kCodes};
constexpr std::uint64_t kDown = 0x0404040404040404;  // bit 2 of each code: shifted down

struct BlockIq1S {
  std::uint16_t d;
  std::uint8_t q[32];
  std::uint16_t high[8];
};
static_assert(sizeof(BlockIq1S) == 50);

struct BlockIq1M {
  std::uint8_t q[32];
  std::uint8_t high[16];
  std::uint16_t scales[4];
};
static_assert(sizeof(BlockIq1M) == 56);

void put_entry(CodedBlock& to, int eighth, unsigned index, bool down) {
  put_codes(to, eighth, kEntries.entry[index] | (down ? kDown : 0));
}

void expand_iq1_s(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq1S>(block, 0);
  to.d = b.d;
  for (int group = 0; group < 8; ++group) {
    const unsigned high = b.high[group];
    to.scale[group] = odd_scale(high >> 12 & 7);
    for (int i = 0; i < 4; ++i)
      put_entry(to, group * 4 + i, b.q[group * 4 + i] | (high >> (3 * i) & 7) << 8, (high & 0x8000) != 0);
  }
  // One scale per 16 values, as iq1_m has.
  for (int i = 15; i >= 0; --i) to.scale[i] = to.scale[i / 2];
}

void expand_iq1_m(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq1M>(block, 0);
  unsigned d = 0;
  for (int i = 0; i < 4; ++i) d |= static_cast<unsigned>(b.scales[i] >> 12) << (4 * i);
  to.d = static_cast<std::uint16_t>(d);
  for (int i = 0; i < 16; ++i) to.scale[i] = odd_scale(b.scales[i / 4] >> (i % 4 * 3) & 7u);
  for (int i = 0; i < 32; ++i) {
    const unsigned high = b.high[i / 2] >> (i % 2 * 4);
    put_entry(to, i, b.q[i] | (high & 7) << 8, (high & 8) != 0);
  }
}

}  // namespace

#define RLX_STEPS {-7, 1, 9, 0, -9, -1, 7, 0}
const CodeBook kIq1S = {RLX_STEPS, 0.125f, 16, sizeof(BlockIq1S), expand_iq1_s};
const CodeBook kIq1M = {RLX_STEPS, 0.125f, 16, sizeof(BlockIq1M), expand_iq1_m};
#undef RLX_STEPS

}  // namespace rlx
