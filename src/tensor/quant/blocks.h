// Small helpers that the block formats share.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "tensor/quant/codec.h"

namespace rlx {

/// Block i of a row; rows may lie at any address, so blocks are copied out.
template <typename Block>
Block load_block(const std::byte* row, std::int64_t i) {
  Block b;
  std::memcpy(&b, row + i * static_cast<std::int64_t>(sizeof(Block)), sizeof(Block));
  return b;
}

template <typename Block>
void store_block(const Block& b, std::byte* row, std::int64_t i) {
  std::memcpy(row + i * static_cast<std::int64_t>(sizeof(Block)), &b, sizeof(Block));
}

/// 1 / x for use as a factor; 0 when that is not finite, so that a block of (nearly) zeros encodes
/// to zeros.
inline float inverse_or_zero(float x) {
  const float inverse = 1.0f / x;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

inline bool all_finite(const float* x, int n) {
  for (int i = 0; i < n; ++i)
    if (!std::isfinite(x[i])) return false;
  return true;
}

/// x rounded to the nearest integer (ties to even) within [low, high]. x is finite or out of range
/// by far, not NaN.
inline int round_within(float x, int low, int high) {
  if (x <= static_cast<float>(low)) return low;
  if (x >= static_cast<float>(high)) return high;
  return static_cast<int>(std::nearbyintf(x));
}

/// The f16 that a block carries as scale when one of its values is not finite: decoding then gives
/// NaN everywhere.
inline constexpr std::uint16_t kF16NaN = 0x7e00;

}  // namespace rlx
