// The KV cache in this backend's layout: pages of 64 tokens, one per head (kv_layout.h has the byte
// layout).
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/kernel.h"
#include "ir/kernel_args.h"

namespace rlx::cpu {

/// Bytes of one page of one head.
struct KvPageBytes {
  std::int64_t k_head, v_head;  ///< multiples of 64
};

/// Whether the cache can hold heads of this size in this dtype: f32, f16, bf16 (head_dim a multiple
/// of 8, at most 512) and q8_0 (a multiple of 32, at most 512).
bool kv_supported(DType dtype, std::int64_t head_dim);

/// Error(unsupported) where kv_supported says no.
KvPageBytes kv_page_bytes(DType dtype, std::int64_t head_dim);

/// One page of one head. `k` and `v` point at k_head and v_head bytes, 64-byte aligned.
struct KvPage {
  DType dtype;
  std::int64_t head_dim;
  std::byte* k;
  std::byte* v;
};

/// Writes tokens first .. first + count - 1 of the page from f32 rows k, v: [count, head_dim],
/// where first + count <= 64. Rounds to nearest even. q8_0 has groups of 32 with d = max|x| / 127
/// as f16, and a group with a non-finite value gets d = NaN.
void kv_store_rows(const KvPage& page, std::int64_t first, std::int64_t count, const float* k,
                   const float* v);

/// The inverse: storing what was loaded gives the same bytes again.
void kv_load_rows(const KvPage& page, std::int64_t first, std::int64_t count, float* k, float* v);

bool accepts_kv_append(const KernelQuery&);  ///< of the rows of kv.simd.cpp

}  // namespace rlx::cpu
