#include "backends/reference/backend.h"

#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx::reference {
namespace {

class ReferenceBackend final : public Backend {
 public:
  Device device() const override { return Device::reference(); }
  std::string_view features() const override { return "plain"; }
  std::span<const Kernel> kernels() const override { return {}; }
  Isa isa() const override { return Isa::baseline; }
  bool reference_allowed() const override { return true; }

  bool packs() const override { return false; }
  bool has_bf16_units() const override { return false; }
  bool can_pack(DType, DType, std::int64_t) const override { return false; }
  std::int64_t packed_bytes(DType, std::int64_t, std::int64_t) const override {
    RLX_CHECK(false, "the reference backend packs nothing");
    return 0;
  }
  void pack(const PackJob&, std::int64_t, std::int64_t) const override {
    RLX_CHECK(false, "the reference backend packs nothing");
  }

  DType default_kv() const override { return DType::f32; }
  bool offers_kv(DType dtype, std::int64_t head_dim) const override {
    return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
           (dtype == DType::q8_0 && head_dim % 32 == 0);
  }
  Layout kv_layout() const override { return Layout::plain; }
  KvHeadBytes kv_head_bytes(DType dtype, std::int64_t head_dim) const override {
    const std::int64_t page = row_bytes(dtype, head_dim) * kPageTokens;
    return {page, page};
  }
  void kv_store(const KvRows& at, const float* k, const float* v) const override {
    const EncodeRow encode = encoder(at.dtype);
    for (std::int64_t t = 0; t < at.tokens; ++t) {
      encode(k + t * at.head_dim, row(at, at.pool->k, at.pool->k_page, at.pool->k_head, t),
             at.head_dim);
      encode(v + t * at.head_dim, row(at, at.pool->v, at.pool->v_page, at.pool->v_head, t),
             at.head_dim);
    }
  }
  void kv_load(const KvRows& at, float* k, float* v) const override {
    const DecodeRow decode = decoder(at.dtype);
    for (std::int64_t t = 0; t < at.tokens; ++t) {
      decode(row(at, at.pool->k, at.pool->k_page, at.pool->k_head, t), k + t * at.head_dim,
             at.head_dim);
      decode(row(at, at.pool->v, at.pool->v_page, at.pool->v_head, t), v + t * at.head_dim,
             at.head_dim);
    }
  }

 private:
  static std::byte* row(const KvRows& at, std::byte* pool, std::int64_t page_bytes,
                        std::int64_t head_bytes, std::int64_t token) {
    return pool + at.page * page_bytes + at.head * head_bytes +
           (at.first_token + token) * row_bytes(at.dtype, at.head_dim);
  }
};

}  // namespace

const Backend& backend() {
  static const ReferenceBackend instance;
  return instance;
}

}  // namespace rlx::reference
