// Reads packed panels back to the values of the reference decoders.
#include "backends/cpu/pack.h"

#include <array>
#include <cstring>
#include <string>

#include "backends/cpu/panels.h"
#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

std::uint16_t half_at(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return bits;
}
int byte_at(const std::byte* p) { return std::to_integer<int>(*p); }

/// The stored integer of k (0..31) of a block; `at` points at the row's place in the first line.
int integer_at(const PanelInfo& p, const std::byte* at, int k) {
  const int step = k / 4;
  at += k % 4;
  const auto line = [&](int i) { return byte_at(at + i * kLineBytes); };
  const int half = step / 4, s = step % 4;  // of a sub-block of 16
  switch (p.bits) {
    case 8:
      return line(step);
    case 4:
      return line(s) >> (half * 4) & 15;
    case 5:
      return (line(s) >> (half * 4) & 15) | (line(4) >> step & 1) << 4;
    case 6:
      return (line(half * 3 + s % 2) >> (s / 2 * 4) & 15) | (line(half * 3 + 2) >> (2 * s) & 3)
                                                                << 4;
    case 2:
      return line(half) >> (2 * s) & 3;
    case 3:
      return (line(half) >> (2 * s) & 3) | (line(2) >> step & 1) << 2;
    default:
      break;
  }
  RLX_CHECK(false);
}

/// value = integer * scale + add
struct Affine {
  float scale = 0, add = 0;
};

Affine affine_at(DType d, const std::byte* group, std::int64_t row, int k) {
  const PanelInfo p = panel_info(d);
  if (d == DType::mxfp4) return {bf16_to_f32(half_at(group + (k / kBlock * kPanelRows + row) * 2)), 0.0f};
  const auto half = [&](std::int64_t i) {
    return f16_to_f32(half_at(group + (i * kPanelRows + row) * 2));
  };
  if (!p.is_super()) return {half(k / kBlock), p.has_min ? half(2 + k / kBlock) : 0.0f};
  if (panel_form(d) == DType::tq2_0) return {half(0), 0.0f};
  const auto table = [&](int at) { return byte_at(group + at + k / p.sub * kPanelRows + row); };
  const int entry = table(kScaleTable);
  if (d == DType::q2_K)
    return {half(0) * static_cast<float>(entry & 15), -(half(1) * static_cast<float>(entry >> 4))};
  float d_of_row = half(0);
  if (p.coded) {
    float factor;
    std::memcpy(&factor, group + kFactor, sizeof factor);
    d_of_row *= factor;
  }
  if (!p.has_min) return {d_of_row * static_cast<float>(static_cast<signed char>(entry)), 0.0f};
  return {half(0) * static_cast<float>(entry), -(half(1) * static_cast<float>(table(kMinTable)))};
}

}  // namespace

void unpack_row(const std::byte* packed, DType panel, std::int64_t k, std::int64_t row,
                float* out) {
  const std::byte* base = packed + row / kPanelRows * panel_bytes(panel, k);
  row %= kPanelRows;
  if (panel == DType::f32) {
    for (std::int64_t i = 0; i < k; ++i) std::memcpy(out + i, base + i * kLineBytes + row * 4, 4);
    return;
  }
  if (panel == DType::f16) {
    for (std::int64_t i = 0; i < k; ++i)
      out[i] = f16_to_f32(half_at(base + (i * kPanelRows + row) * 2));
    return;
  }
  if (panel == DType::bf16) {
    for (std::int64_t i = 0; i < k; ++i)
      out[i] = bf16_to_f32(half_at(base + i / 2 * kLineBytes + row * 4 + i % 2 * 2));
    return;
  }
  const PanelInfo p = panel_info(panel);
  RLX_CHECK(p.group > 0, std::string(name(panel)));
  for (std::int64_t i = 0; i < k; ++i) {
    const std::byte* group = base + i / p.group * p.group_bytes();
    const int in_group = static_cast<int>(i % p.group);
    const std::byte* at = group + p.header + std::int64_t{in_group / kBlock} * p.block + row * 4;
    int q = integer_at(p, at, in_group % kBlock);
    if (panel == DType::iq4_nl) q = kIq4nlValues[q];
    if (panel == DType::mxfp4) q = kMxfp4Values[q];
    if (p.coded) q = static_cast<signed char>(byte_at(group + kStepTable + q));
    if (panel == DType::q8_0) q = static_cast<signed char>(q);
    const Affine a = affine_at(panel, group, row, in_group);
    const float scaled = static_cast<float>(q - p.offset) * a.scale;
    out[i] = p.has_min ? scaled + a.add : scaled;
  }
}

}  // namespace rlx::cpu
