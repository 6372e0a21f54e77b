// Packs weights into panels (panels.h) and reads them back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace rlx::cpu {

/// Bytes of the panels of a matrix [n, k], a multiple of 64; InternalError when the type has no
/// panels or the size overflows.
std::int64_t packed_bytes(DType panel, std::int64_t n, std::int64_t k);

/// Whether rows of `source` can become panels of `panel`: the same type; f32, f16, bf16 to any of
/// f32, f16, bf16, q8_0; quantised weights to bf16. k: columns (block types need whole blocks).
bool can_pack(DType source, DType panel, std::int64_t k);

/// What pack_panels reads: rows of a weight [n, k], one after the other.
struct PackSource {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t n = 0, k = 0;
};

/// Writes panels first..last-1 of the matrix to `out`, the place of the whole matrix (64-byte
/// aligned). Integers and scales stay as stored; other floats are rounded to nearest even. Threads
/// may pack disjoint ranges at the same time.
void pack_panels(const PackSource& source, DType panel, std::int64_t first, std::int64_t last,
                 std::byte* out);

/// The values of one row of a packed matrix of k columns, as the reference decoder gives them. out:
/// float[k].
void unpack_row(const std::byte* packed, DType panel, std::int64_t k, std::int64_t row, float* out);

}  // namespace rlx::cpu
