// Where a token's values lie inside a page of one KV head (kernels.md, 1.7 and 2.7). Included by
// the instruction-set units, so everything here has internal linkage.
//   K, f32 and f16:  4 panels of 16 tokens, each [head_dim][16]
//   K, bf16:         4 panels, each [head_dim / 2][16][2]: pairs of lanes side by side, as vdpbf16ps wants them
//   K, q8_0:         4 panels, each f16 scale[head_dim / 32][16] (rounded up to 64 bytes), then
//                    i8 [head_dim / 4][16][4]
//   V, f32 and f16:  [64][width], width = head_dim rounded up to 16, so that vectors of 16 need no tail
//   V, bf16:         [32][width][2]: pairs of tokens side by side
//   V, q8_0:         i8 [64][head_dim], then f16 scale[64][head_dim / 32]
#pragma once

#include <cstdint>

#include "ir/kernel_args.h"

namespace rlx::cpu {
namespace {

constexpr int kPanelTokens = 16;
constexpr int kPanels = kPageTokens / kPanelTokens;
constexpr int kKvGroup = 32;  // values per scale of q8_0

constexpr std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
constexpr std::int64_t kv_width(std::int64_t head_dim) { return round_up(head_dim, 16); }
constexpr std::int64_t kv_element(DType d) { return d == DType::f32 ? 4 : d == DType::q8_0 ? 1 : 2; }

// Bytes of the scales of a q8_0 K panel.
constexpr std::int64_t k_scale_bytes(std::int64_t head_dim) {
  return round_up(head_dim / kKvGroup * kPanelTokens * 2, 64);
}

constexpr std::int64_t k_panel_bytes(DType d, std::int64_t head_dim) {
  return head_dim * kPanelTokens * kv_element(d) + (d == DType::q8_0 ? k_scale_bytes(head_dim) : 0);
}
constexpr std::int64_t k_head_bytes(DType d, std::int64_t head_dim) { return kPanels * k_panel_bytes(d, head_dim); }
constexpr std::int64_t v_head_bytes(DType d, std::int64_t head_dim) {
  if (d == DType::q8_0) return round_up(kPageTokens * (head_dim + head_dim / kKvGroup * 2), 64);
  return kPageTokens * kv_width(head_dim) * kv_element(d);
}

// Byte offset of lane i of a token's key, and of its value.
constexpr std::int64_t k_offset(DType d, std::int64_t head_dim, std::int64_t token, std::int64_t i) {
  const std::int64_t panel = token / kPanelTokens * k_panel_bytes(d, head_dim), t = token % kPanelTokens;
  if (d == DType::q8_0) return panel + k_scale_bytes(head_dim) + (i / 4 * kPanelTokens + t) * 4 + i % 4;
  if (d == DType::bf16) return panel + ((i / 2 * kPanelTokens + t) * 2 + i % 2) * 2;
  return panel + (i * kPanelTokens + t) * kv_element(d);
}
constexpr std::int64_t v_offset(DType d, std::int64_t head_dim, std::int64_t token, std::int64_t i) {
  if (d == DType::q8_0) return token * head_dim + i;
  if (d == DType::bf16) return ((token / 2 * kv_width(head_dim) + i) * 2 + token % 2) * 2;
  return (token * kv_width(head_dim) + i) * kv_element(d);
}
// Byte offset of the f16 scale of group g of a token, q8_0 only.
constexpr std::int64_t k_scale_offset(std::int64_t head_dim, std::int64_t token, std::int64_t g) {
  return token / kPanelTokens * k_panel_bytes(DType::q8_0, head_dim) + (g * kPanelTokens + token % kPanelTokens) * 2;
}
constexpr std::int64_t v_scale_offset(std::int64_t head_dim, std::int64_t token, std::int64_t g) {
  return kPageTokens * head_dim + (token * (head_dim / kKvGroup) + g) * 2;
}

}  // namespace
}  // namespace rlx::cpu
