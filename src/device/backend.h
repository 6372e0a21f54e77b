// What a backend is: kernels as table rows, its layouts of weights and caches. A leaf folder below
// backends/ gives one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "device/kernel.h"

namespace rlx {

/// Bytes of one head of a page of 64 tokens.
struct KvHeadBytes {
  std::int64_t k = 0, v = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  /// What the digest of an executable must know of the machine: instruction-set level, features.
  virtual std::string_view features() const = 0;
  /// The rows that run here, best first.
  virtual std::span<const Kernel> kernels() const = 0;
  virtual Isa isa() const = 0;
  /// Whether ops without a row may run as the interpreter's reference on the host.
  virtual bool reference_allowed() const = 0;

  /// Weights. `packs`: products want their weights in p16 panels. Packing is by ranges of panels of
  /// 16 rows, so that threads can share it.
  virtual bool packs() const = 0;
  virtual bool has_bf16_units() const = 0;
  virtual bool can_pack(DType source, DType panel, std::int64_t k) const = 0;
  virtual std::int64_t packed_bytes(DType panel, std::int64_t n, std::int64_t k) const = 0;
  struct PackJob {
    const std::byte* source = nullptr;  ///< plain rows [n, k]
    DType source_dtype, panel_dtype;
    std::int64_t n = 0, k = 0;
    std::byte* out = nullptr;  ///< packed_bytes, 64-byte aligned
  };
  virtual void pack(const PackJob& job, std::int64_t first_panel,
                    std::int64_t last_panel) const = 0;

  /// KV caches: dtypes offered for a head_dim (f32 first), the default, the layout inside pages,
  /// and the converters between pages and float32 rows [tokens][head_dim] of one head.
  virtual DType default_kv() const = 0;
  virtual bool offers_kv(DType dtype, std::int64_t head_dim) const = 0;
  virtual Layout kv_layout() const = 0;
  virtual KvHeadBytes kv_head_bytes(DType dtype, std::int64_t head_dim) const = 0;
  struct KvRows {
    const KvPool* pool = nullptr;
    DType dtype;
    std::int64_t head = 0, head_dim = 0, page = 0, first_token = 0,
                 tokens = 0;  ///< inside one page
  };
  virtual void kv_store(const KvRows& at, const float* k, const float* v) const = 0;
  virtual void kv_load(const KvRows& at, float* k, float* v) const = 0;
};

}  // namespace rlx
