// The layout of packed weights, "p16" (kernels.md, 2.2): panels of 16 rows, one after the other,
// each running along k. Included by the instruction-set units, so everything here has internal
// linkage.
//
// Block types: a block is 32 k of a panel, held as lines of 64 bytes; the byte [row][i] of k-step s
// (0..7) of a block is the stored integer of k = 4 s + i. A group is a header with the scales and
// two blocks (group 64) or eight (group 256):
//   header, group 64:   f16 d[2][16], bf16 of mxfp4; for types with a minimum also f16 m[2][16]. The last group of
//                       an odd number of blocks has a whole header and one block.
//   header, group 256:  f16 d[16], f16 dmin[16]; then 256 bytes: u8 scale[8][16], u8 min[8][16]
//                       (q4_K, q5_K), s8 scale[16][16] (q6_K, q3_K), or u8 [16][16] with the scale
//                       in the low and the minimum in the high four bits (q2_K); nothing (tq2_0)
//   header, coded:      f16 d[16], s8 steps[16], f32 factor, 12 bytes of zeros; then s8 scale[16][16]
//                       (3 bits) or [8][16] (4 bits). A stored integer is the index of a step
//   block, 4 bits:      4 lines: k-step s in the low and s + 4 in the high four bits of line s
//   block, 5 bits:      the same, then a line whose bit s is the fifth bit of k-step s
//   block, 8 bits:      8 lines of s8
//   block, 6 bits:      per 16 k: 2 lines with k-step s (0, 1) in the low and s + 2 in the high
//                       four bits; a line with the upper two bits of k-step s at bit 2 s
//   block, 2 bits:      per 16 k a line: k-step s at bit 2 s
//   block, 3 bits:      the same two lines, then a line whose bit s is the third bit of k-step s
// Float types: f32 [k][16]; f16 [k][16]; bf16 [k / 2][16][2], the pairs of vdpbf16ps; both with
// zeros after an odd k. Rows beyond n are zero in all types.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace rlx::cpu {
namespace {

constexpr int kPanelRows = 16;
constexpr int kLineBytes = 64;
constexpr int kBlock = 32;       // k per block
constexpr int kScaleTable = 64;  // place of the scales of sub-blocks in the header of 256
constexpr int kMinTable = 192;   // place of their minima (q4_K, q5_K)
constexpr int kStepTable = 32;   // place of the steps of coded types, and of the factor of their scales
constexpr int kFactor = 48;

struct PanelInfo {
  int group = 0;   // k per group; 0: a float type
  int bits = 0;    // of a stored integer
  int sub = 32;    // k per scale
  int offset = 0;  // value = scale * (integer - offset) + minimum
  bool has_min = false;
  bool is_signed = false;  // s8 lines, also after a table of steps
  int header = 0;          // bytes
  int block = 0;           // bytes
  bool coded = false;      // the steps stand in the header
  constexpr int blocks() const { return group / kBlock; }
  constexpr int subs() const { return kBlock / sub; }
  constexpr bool is_super() const { return group == 256; }
  constexpr std::int64_t group_bytes() const { return header + std::int64_t{block} * blocks(); }
};

// The type whose panels look the same but for what the header says: kernels know that one.
constexpr DType panel_form(DType d) {
  switch (d) {
    case DType::iq3_xxs:
    case DType::iq3_s:
      return DType::iq4_xs;
    case DType::iq1_s:
    case DType::iq1_m:
    case DType::iq2_xxs:
    case DType::iq2_s:
      return DType::iq2_xs;
    case DType::tq1_0:
      return DType::tq2_0;
    default:
      return d;
  }
}

constexpr PanelInfo panel_info(DType d) {
  switch (panel_form(d)) {
    case DType::q4_0:
      return {64, 4, 32, 8, false, false, 64, 256};
    case DType::q4_1:
      return {64, 4, 32, 0, true, false, 128, 256};
    case DType::q5_0:
      return {64, 5, 32, 16, false, false, 64, 320};
    case DType::q5_1:
      return {64, 5, 32, 0, true, false, 128, 320};
    case DType::q8_0:
      return {64, 8, 32, 0, false, true, 64, 512};
    case DType::iq4_nl:
    case DType::mxfp4:
      return {64, 4, 32, 0, false, true, 64, 256};
    case DType::q2_K:
      return {256, 2, 16, 0, true, false, 320, 128};
    case DType::q3_K:
      return {256, 3, 16, 4, false, false, 320, 192};
    case DType::q4_K:
      return {256, 4, 32, 0, true, false, 320, 256};
    case DType::q5_K:
      return {256, 5, 32, 0, true, false, 320, 320};
    case DType::q6_K:
      return {256, 6, 16, 32, false, false, 320, 384};
    case DType::tq2_0:
      return {256, 2, 32, 1, false, false, 64, 128};
    case DType::iq2_xs:
      return {256, 3, 16, 0, false, true, 320, 192, true};
    case DType::iq4_xs:
      return {256, 4, 32, 0, false, true, 192, 256, true};
    default:
      return {};
  }
}

// Values of the 16 codes of iq4_nl (https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h,
// kvalues_iq4nl).
alignas(16) constexpr signed char kIq4nlValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

// Values of the 16 codes of mxfp4, twice those of E2M1.
alignas(16) constexpr signed char kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Bytes of one panel of k columns; 0 for types that have no panels.
constexpr std::int64_t panel_bytes(DType d, std::int64_t k) {
  if (d == DType::f32) return k * kLineBytes;
  if (d == DType::f16 || d == DType::bf16) return (k + 1) / 2 * kLineBytes;
  const PanelInfo p = panel_info(d);
  if (p.group == 0) return 0;
  const std::int64_t rest = k % p.group;
  return k / p.group * p.group_bytes() + (rest ? p.header + rest / kBlock * p.block : 0);
}

constexpr std::int64_t panel_count(std::int64_t n) { return (n + kPanelRows - 1) / kPanelRows; }

}  // namespace
}  // namespace rlx::cpu
