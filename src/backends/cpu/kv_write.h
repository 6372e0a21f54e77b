// Writes the key and the value of one token into a page of the cache (kv_layout.h).
#pragma once

#include "backends/cpu/kv_layout.h"
#include "backends/cpu/quantize_group.h"
#include "backends/cpu/simd.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// Sixteen values from lane i of a row of n (a multiple of 8); zeros beyond the end.
RLX_SIMD f32x16 row_lanes(const float* row, std::int64_t i, std::int64_t n) {
  return i + 16 <= n ? load(row + i) : load_partial(row + i, static_cast<int>(n - i));
}

inline void store_half_bits(DType d, std::uint16_t* to, f32x16 v) noexcept {
  if (d == DType::f16)
    store_f16(to, v);
  else
    store_bf16(to, v);
}

inline void write_scale(std::byte* to, float d) noexcept {
  alignas(32) std::uint16_t bits[16];
  store_f16(bits, set1(d));
  __builtin_memcpy(to, bits, 2);
}

/// key: [head_dim]; page: k_head bytes; token: 0 .. 63.
inline void write_key(DType d, std::byte* page, std::int64_t head_dim, std::int64_t token, const float* key) noexcept {
  std::byte* const lane0 = page + k_offset(d, head_dim, token, 0);
  if (d == DType::f32) {
    auto* to = reinterpret_cast<float*>(lane0);
    for (std::int64_t i = 0; i < head_dim; ++i) to[i * kPanelTokens] = key[i];
  } else if (d == DType::q8_0) {
    for (std::int64_t i = 0; i < head_dim; i += kKvGroup) {
      const Group32 g = quantize_group(load(key + i), load(key + i + 16));
      alignas(32) signed char q[kKvGroup];
      store_s8(q, g.a);
      store_s8(q + 16, g.b);
      write_scale(page + k_scale_offset(head_dim, token, i / kKvGroup), g.d);
      for (int j = 0; j < kKvGroup; j += 4) __builtin_memcpy(lane0 + (i + j) / 4 * kPanelTokens * 4, q + j, 4);
    }
  } else {
    for (std::int64_t i = 0; i < head_dim; i += 16) {
      alignas(32) std::uint16_t bits[16];
      store_half_bits(d, bits, row_lanes(key, i, head_dim));
      const int n = head_dim - i < 16 ? 8 : 16;
      if (d == DType::f16)
        for (int j = 0; j < n; ++j) __builtin_memcpy(lane0 + (i + j) * kPanelTokens * 2, bits + j, 2);
      else
        for (int j = 0; j < n; j += 2) __builtin_memcpy(lane0 + (i + j) / 2 * kPanelTokens * 4, bits + j, 4);
    }
  }
}

/// value: [head_dim]; page: v_head bytes. The lanes between head_dim and the width of a row become 0.
inline void write_value(DType d, std::byte* page, std::int64_t head_dim, std::int64_t token,
    const float* value) noexcept {
  std::byte* const lane0 = page + v_offset(d, head_dim, token, 0);
  if (d == DType::q8_0) {
    for (std::int64_t i = 0; i < head_dim; i += kKvGroup) {
      const Group32 g = quantize_group(load(value + i), load(value + i + 16));
      store_s8(reinterpret_cast<signed char*>(lane0) + i, g.a);
      store_s8(reinterpret_cast<signed char*>(lane0) + i + 16, g.b);
      write_scale(page + v_scale_offset(head_dim, token, i / kKvGroup), g.d);
    }
    return;
  }
  for (std::int64_t i = 0; i < head_dim; i += 16) {
    const f32x16 v = row_lanes(value, i, head_dim);
    if (d == DType::f32) {
      store(reinterpret_cast<float*>(lane0) + i, v);
    } else if (d == DType::f16) {
      store_f16(reinterpret_cast<std::uint16_t*>(lane0) + i, v);
    } else {
      alignas(32) std::uint16_t bits[16];
      store_bf16(bits, v);
      for (int j = 0; j < 16; ++j) __builtin_memcpy(lane0 + (i + j) * 4, bits + j, 2);
    }
  }
}

/// Key and value of a token of a head into the pool; pages: this sequence's row of the page table.
inline void append_token(const TensorView& cache, std::int64_t head, std::int64_t token, const std::int32_t* pages,
                         const float* key, const float* value) noexcept {
  const auto* pool = static_cast<const KvPool*>(cache.data);
  const std::int64_t page = pages[token / kPageTokens], head_dim = cache.dims[1];
  if (key != nullptr)
    write_key(cache.dtype, pool->k + page * pool->k_page + head * pool->k_head, head_dim, token % kPageTokens, key);
  if (value != nullptr)
    write_value(cache.dtype, pool->v + page * pool->v_page + head * pool->v_head, head_dim, token % kPageTokens, value);
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
