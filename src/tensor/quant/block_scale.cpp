#include "tensor/quant/block_scale.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

struct Places {
  DType dtype;
  int d, m;  ///< offsets of the f16 in a block; -1: none
};
constexpr Places kPlaces[] = {
    {DType::q4_0, 0, -1},    {DType::q4_1, 0, 2},    {DType::q5_0, 0, -1},    {DType::q5_1, 0, 2},
    {DType::q8_0, 0, -1},    {DType::q2_K, 80, 82},  {DType::q3_K, 108, -1},  {DType::q4_K, 0, 2},
    {DType::q5_K, 0, 2},     {DType::q6_K, 208, -1}, {DType::iq4_nl, 0, -1},  {DType::iq4_xs, 0, -1},
    {DType::iq3_xxs, 0, -1}, {DType::iq3_s, 0, -1},  {DType::iq2_xxs, 0, -1}, {DType::iq2_xs, 0, -1},
    {DType::iq2_s, 0, -1},   {DType::iq1_s, 0, -1},  {DType::tq1_0, 52, -1},  {DType::tq2_0, 64, -1},
};

void put_half(std::byte* at, float value) {
  const std::uint16_t bits = f32_to_f16(value);
  std::memcpy(at, &bits, sizeof bits);
}

// iq1_m: four bits of the f16 are the upper ones of each of the last four words.
void put_in_quarters(std::byte* block, float value) {
  const std::uint16_t bits = f32_to_f16(value);
  for (int i = 0; i < 4; ++i) {
    std::byte& upper = block[48 + 2 * i + 1];
    upper = (upper & std::byte{15}) | static_cast<std::byte>((bits >> (4 * i) & 15) << 4);
  }
}

}  // namespace

void set_block_scale(DType dtype, std::byte* block, float d, float m) {
  if (dtype == DType::iq1_m) return put_in_quarters(block, d);
  if (dtype == DType::mxfp4) {
    const float exponent = std::clamp(std::round(std::log2(std::abs(d))) + 128, 0.0f, 254.0f);
    block[0] = static_cast<std::byte>(static_cast<int>(exponent));
    return;
  }
  for (const Places& p : kPlaces) {
    if (p.dtype != dtype) continue;
    put_half(block + p.d, d);
    if (p.m >= 0) put_half(block + p.m, m);
    return;
  }
  RLX_CHECK(false, std::string(name(dtype)));
}

}  // namespace rlx
