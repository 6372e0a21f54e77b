// iq4_xs: 256 values in 136 bytes. value = d * (s - 32) * step[q] with the steps of iq4_nl, one 6-bit s per 32 values
// (four bits in scales_low, two in scales_high); the nibbles of each 32 lie as in q4_0.
#include <algorithm>

#include "tensor/quant/blocks.h"
#include "tensor/quant/code_book.h"
#include "tensor/quant/iq4_nl.h"

namespace rlx {
namespace {

struct BlockIq4Xs {
  std::uint16_t d;
  std::uint16_t scales_high;
  std::uint8_t scales_low[4];
  std::uint8_t q[128];
};
static_assert(sizeof(BlockIq4Xs) == 136);

void expand_iq4_xs(const std::byte* block, CodedBlock& to) {
  const auto b = load_block<BlockIq4Xs>(block, 0);
  to.d = b.d;
  for (int g = 0; g < 8; ++g) {
    const int low = b.scales_low[g / 2] >> (g % 2 * 4) & 15, high = b.scales_high >> (2 * g) & 3;
    to.scale[g] = static_cast<std::int8_t>((low | high << 4) - 32);
    for (int i = 0; i < 16; ++i) {
      to.code[g * 32 + i] = b.q[g * 16 + i] & 15;
      to.code[g * 32 + 16 + i] = static_cast<std::uint8_t>(b.q[g * 16 + i] >> 4);
    }
  }
}

constexpr CodeBook make_book() {
  CodeBook book = {{}, 1.0f, 32, sizeof(BlockIq4Xs), expand_iq4_xs};
  std::copy(std::begin(kIq4NlSteps), std::end(kIq4NlSteps), book.steps);
  return book;
}

}  // namespace

constinit const CodeBook kIq4Xs = make_book();

}  // namespace rlx
