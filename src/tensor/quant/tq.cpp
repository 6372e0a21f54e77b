#include "tensor/quant/tq.h"

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

/// q of `digits` x `bytes` values: digit after digit of all bytes.
void expand_digits(const std::uint8_t* from, int bytes, int digits, std::uint8_t* q) {
  unsigned power = 1;
  for (int n = 0; n < digits; ++n, power *= 3, q += bytes)
    for (int j = 0; j < bytes; ++j) q[j] = static_cast<std::uint8_t>((from[j] * power & 255) * 3 >> 8);
}

template <typename Block, void (*expand)(const Block&, std::uint8_t*)>
void decode(const std::byte* in, float* out, std::int64_t n) {
  std::uint8_t q[256];
  for (std::int64_t i = 0; i < n / 256; ++i, out += 256) {
    const auto b = load_block<Block>(in, i);
    const float d = f16_to_f32(b.d);
    expand(b, q);
    for (int j = 0; j < 256; ++j) out[j] = d * static_cast<float>(q[j] - 1);
  }
}

}  // namespace

void expand_tq1_0(const BlockTq1_0& block, std::uint8_t* q) {
  expand_digits(block.q, 32, 5, q);
  expand_digits(block.q + 32, 16, 5, q + 160);
  expand_digits(block.high, 4, 4, q + 240);
}

void expand_tq2_0(const BlockTq2_0& block, std::uint8_t* q) {
  for (int j = 0; j < 256; ++j) q[j] = block.q[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
}

void decode_tq1_0(const std::byte* in, float* out, std::int64_t n) {
  decode<BlockTq1_0, expand_tq1_0>(in, out, n);
}
void decode_tq2_0(const std::byte* in, float* out, std::int64_t n) {
  decode<BlockTq2_0, expand_tq2_0>(in, out, n);
}

}  // namespace rlx
