// A scalar model of the products: the sums that the kernels' contract names (kernels.md, 2.8), one
// operation at a time, from the blocks of files as they are. Nothing of it is shared with the
// kernels.
#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "tensor/quant/blocks.h"
#include "tensor/quant/code_book.h"
#include "tensor/quant/iq4_nl.h"
#include "tensor/quant/k_scales.h"
#include "tensor/quant/mxfp4.h"
#include "tensor/quant/q2_k.h"
#include "tensor/quant/q3_k.h"
#include "tensor/quant/q4_0.h"
#include "tensor/quant/q4_1.h"
#include "tensor/quant/q4_k.h"
#include "tensor/quant/q5_0.h"
#include "tensor/quant/q5_1.h"
#include "tensor/quant/q5_k.h"
#include "tensor/quant/q6_k.h"
#include "tensor/quant/q8_0.h"
#include "tensor/quant/tq.h"

namespace rlx::model {

/// A scale's part of a block: signed integers (offset taken off) and what they are multiplied with.
struct Part {
  std::vector<int> q;
  float scale = 0, min = 0;
};
/// A block of a file. Groups of 32: one part, scale and min as they are. Groups of 256: value = d *
/// scale * q - dmin * min.
struct Block {
  std::vector<Part> parts;
  float d = 0, dmin = 0;
  bool super = false, has_min = false;
};

inline int nibble(const std::uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }
inline int high_bit(const std::uint8_t* bits, int i) { return bits[i / 8] >> (i % 8) & 1; }

template <typename B, typename F>
Block simple(const B& b, F integer) {
  Block r;
  r.parts.resize(1);
  r.parts[0].scale = f16_to_f32(b.d);
  if constexpr (requires { b.m; }) r.parts[0].min = f16_to_f32(b.m), r.has_min = true;
  for (int i = 0; i < 32; ++i) r.parts[0].q.push_back(integer(i));
  return r;
}
/// Parts of `size` integers; scale(part), min(part), integer(i).
template <typename S, typename M, typename F>
Block super(float d, float dmin, int size, S scale, M min, F integer) {
  Block r;
  r.super = true, r.d = d, r.dmin = dmin;
  for (int p = 0; p < 256 / size; ++p) {
    Part part;
    part.scale = static_cast<float>(scale(p)), part.min = static_cast<float>(min(p));
    for (int i = p * size; i < (p + 1) * size; ++i) part.q.push_back(integer(i));
    r.parts.push_back(part);
  }
  return r;
}

inline Block read_simple(DType type, const std::byte* row, std::int64_t i) {
  switch (type) {
    case DType::q4_0: {
      const auto b = load_block<BlockQ4_0>(row, i);
      return simple(b, [&](int j) { return nibble(b.q, j) - 8; });
    }
    case DType::q4_1: {
      const auto b = load_block<BlockQ4_1>(row, i);
      return simple(b, [&](int j) { return nibble(b.q, j); });
    }
    case DType::q5_0: {
      const auto b = load_block<BlockQ5_0>(row, i);
      return simple(b, [&](int j) { return nibble(b.q, j) + 16 * high_bit(b.high, j) - 16; });
    }
    case DType::q5_1: {
      const auto b = load_block<BlockQ5_1>(row, i);
      return simple(b, [&](int j) { return nibble(b.q, j) + 16 * high_bit(b.high, j); });
    }
    case DType::iq4_nl: {
      const auto b = load_block<BlockIq4Nl>(row, i);
      return simple(b, [&](int j) { return static_cast<int>(kIq4NlSteps[nibble(b.q, j)]); });
    }
    case DType::mxfp4: {
      const auto b = load_block<BlockMxfp4>(row, i);
      Block r;
      r.parts.resize(1);
      r.parts[0].scale = std::ldexp(1.0f, b.e - 128);
      for (int j = 0; j < 32; ++j) r.parts[0].q.push_back(kMxfp4Steps[nibble(b.q, j)]);
      return r;
    }
    default: {
      const auto b = load_block<BlockQ8_0>(row, i);
      return simple(b, [&](int j) { return static_cast<int>(b.q[j]); });
    }
  }
}

template <typename B>
Block read_k45(const B& b) {
  const KScales s = unpack_k_scales(b.scales);
  Block r = super(
      f16_to_f32(b.d), f16_to_f32(b.dmin), 32, [&](int p) { return int{s.scale[p]}; },
      [&](int p) { return int{s.min[p]}; },
      [&](int j) {
        int q = b.q[j / 64 * 32 + j % 32] >> (j / 32 % 2 * 4) & 15;
        if constexpr (requires { b.high; }) q += 16 * (b.high[j % 32] >> (j / 32) & 1);
        return q;
      });
  r.has_min = true;
  return r;
}

/// Types with a code book, taken apart as their decoder does (bit-exact against the reference: tensor/quant_test.cpp).
inline Block read_coded(const CodeBook& book, const std::byte* row, std::int64_t i) {
  CodedBlock b;
  book.expand(row + i * book.block_bytes, b);
  return super(
      f16_to_f32(b.d) * book.factor, 0, book.per_scale, [&](int p) { return int{b.scale[p]}; }, [](int) { return 0; },
      [&](int j) { return int{book.steps[b.code[j]]}; });
}

template <typename B>
Block read_ternary(const B& b, void (*expand)(const B&, std::uint8_t*)) {
  std::uint8_t q[256];
  expand(b, q);
  const auto one = [](int) { return 1; };
  const auto none = [](int) { return 0; };
  return super(f16_to_f32(b.d), 0, 32, one, none, [&](int j) { return q[j] - 1; });
}

inline Block read_super(DType type, const std::byte* row, std::int64_t i) {
  const auto none = [](int) { return 0; };
  if (const CodeBook* book = code_book(type)) return read_coded(*book, row, i);
  switch (type) {
    case DType::q4_K:
      return read_k45(load_block<BlockQ4K>(row, i));
    case DType::q5_K:
      return read_k45(load_block<BlockQ5K>(row, i));
    case DType::q2_K: {
      const auto b = load_block<BlockQ2K>(row, i);
      Block r = super(
          f16_to_f32(b.d), f16_to_f32(b.dmin), 16, [&](int p) { return b.scales[p] & 15; },
          [&](int p) { return b.scales[p] >> 4; },
          [&](int j) { return b.q[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3; });
      r.has_min = true;
      return r;
    }
    case DType::q3_K: {
      const auto b = load_block<BlockQ3K>(row, i);
      return super(
          f16_to_f32(b.d), 0, 16,
          [&](int p) {
            return ((b.scales[p % 8] >> (p / 8 * 4) & 15) | (b.scales[8 + p % 4] >> (p / 4 * 2) & 3)
                                                                << 4) -
                   32;
          },
          none,
          [&](int j) {
            return (b.q[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3) +
                   4 * (b.high[j % 32] >> (j / 32) & 1) - 4;
          });
    }
    case DType::tq1_0:
      return read_ternary(load_block<BlockTq1_0>(row, i), expand_tq1_0);
    case DType::tq2_0:
      return read_ternary(load_block<BlockTq2_0>(row, i), expand_tq2_0);
    default: {
      const auto b = load_block<BlockQ6K>(row, i);
      return super(
          f16_to_f32(b.d), 0, 16, [&](int p) { return int{b.scales[p]}; }, none,
          [&](int j) {
            const int half = j / 128, within = j % 128;
            return ((b.low[half * 64 + within % 64] >> (within / 64 * 4) & 15) |
                    (b.high[half * 32 + within % 32] >> (within / 32 * 2) & 3) << 4) -
                   32;
          });
    }
  }
}

/// baseline has no fused multiply-add and rounds twice.
inline float madd(float a, float b, float c, bool fused) {
  if (fused) return std::fma(a, b, c);
  const float product = a * b;
  return product + c;
}

/// The product of a row of xq8 and a row of quantised weights, k columns.
inline float dot(DType type, const std::byte* x, const std::byte* w, std::int64_t k, bool fused) {
  const auto* q = reinterpret_cast<const std::int8_t*>(x);
  const auto* d = reinterpret_cast<const float*>(x + k);
  const std::int64_t size = info(type).block_elements;
  float f = 0;
  for (std::int64_t i = 0; i < k / size; ++i) {
    const Block b = size == 32 ? read_simple(type, w, i) : read_super(type, w, i);
    std::int64_t at = i * size;
    for (const Part& part : b.parts) {
      int sum = 0, total = 0;
      const float dx = d[at / 32];
      for (int v : part.q) sum += v * q[at], total += q[at], ++at;
      const float scale = b.super ? b.d * part.scale : part.scale;
      f = madd(static_cast<float>(sum), scale * dx, f, fused);
      const float low = b.super ? -(b.dmin * part.min) : part.min;
      if (b.has_min) f = madd(low, dx * static_cast<float>(total), f, fused);
    }
  }
  return f;
}

}  // namespace rlx::model
