// What a kernel or a reference implementation gets at run time. Plain data: included by the
// instruction-set units.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/layout.h"

namespace rlx {

inline constexpr int kViewRank = 6;     ///< = kMaxRank of shape.h
inline constexpr int kPageTokens = 64;  ///< tokens per page of a KV cache

/// A KV cache of one layer: pages of 64 tokens. Page p of head h starts at k + p * k_page + h *
/// k_head (bytes); V alike. Inside a page of a head: the plain layout is [64 tokens][head_dim] rows
/// of the state's dtype (f32, f16, bf16 or q8_0), p16 is the backend's.
struct KvPool {
  std::byte* k;
  std::byte* v;
  std::int64_t k_page, k_head, v_page, v_head;
  std::int64_t pages;  ///< capacity
};

/// One operand. Strides are in bytes; stride of the last axis is the element size when contiguous
/// (always so for block formats, whose dims count elements). For a kv state `data` points at a
/// KvPool and dims are [kv_heads, head_dim]; the page table is i32 [slots, pages per slot] and a
/// recurrent state f32 [slots, dims of one slot].
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Layout layout = Layout::plain;
  std::int8_t rank = 0;
  std::int64_t dims[kViewRank] = {};
  std::int64_t strides[kViewRank] = {};

  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  const KvPool& pool() const { return *static_cast<const KvPool*>(data); }
  /// Row r of a matrix-like view [r, ...].
  template <typename T>
  T* row(std::int64_t r) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data) + r * strides[0]);
  }
};

/// All operands, in the order of the op, and the share of this call. The executor calls the kernel once for every share
/// with the same operands; the kernel does the part of `thread` of `threads`, and the executor puts a barrier after it.
/// A worker may do several shares, one after the other: a kernel must not wait for a share that nobody may have begun,
/// only for pieces of work that somebody took through `shared`.
struct KernelArgs {
  const TensorView* in = nullptr;
  const TensorView* out = nullptr;
  int inputs = 0, outputs = 0;
  int thread = 0, threads = 1;
  std::byte* scratch =
      nullptr;  ///< this worker's bytes, 64-byte aligned (Kernel::scratch, per_worker)
  std::byte* shared =
      nullptr;  ///< one area for the call, 64-byte aligned (Kernel::scratch, shared); the first
                ///< `shared_zeroed` bytes are zero when the call begins
};

}  // namespace rlx
