#include "backends/cpu/backend.h"

#include <string>

#include "backends/cpu/kernels.h"
#include "backends/cpu/kv.h"
#include "backends/cpu/pack.h"

namespace rlx::cpu {
namespace {

constexpr std::string_view kIsaNames[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};

class CpuBackend final : public Backend {
 public:
  CpuBackend() : isa_(selected_isa()) {
    for (const Kernel& k : cpu_kernels())
      if (k.isa <= isa_) kernels_.push_back(k);
  }

  Device device() const override { return Device::cpu(); }
  std::string_view features() const override { return kIsaNames[static_cast<std::size_t>(isa_)]; }
  std::span<const Kernel> kernels() const override { return kernels_; }
  Isa isa() const override { return isa_; }
  bool reference_allowed() const override { return true; }

  bool packs() const override { return true; }
  bool has_bf16_units() const override { return isa_ >= Isa::avx512_bf16; }
  bool can_pack(DType source, DType panel, std::int64_t k) const override {
    return cpu::can_pack(source, panel, k);
  }
  std::int64_t packed_bytes(DType panel, std::int64_t n, std::int64_t k) const override {
    return cpu::packed_bytes(panel, n, k);
  }
  void pack(const PackJob& job, std::int64_t first_panel, std::int64_t last_panel) const override {
    pack_panels({job.source, job.source_dtype, job.n, job.k}, job.panel_dtype, first_panel,
                last_panel, job.out);
  }

  // kernels.md, 2.8: one constant per level. Where there are no bf16 units, f16 widens in one
  // instruction and keeps three more bits.
  DType default_kv() const override { return has_bf16_units() ? DType::bf16 : DType::f16; }
  bool offers_kv(DType dtype, std::int64_t head_dim) const override {
    return kv_supported(dtype, head_dim);
  }
  Layout kv_layout() const override { return Layout::p16; }
  KvHeadBytes kv_head_bytes(DType dtype, std::int64_t head_dim) const override {
    const KvPageBytes b = kv_page_bytes(dtype, head_dim);
    return {b.k_head, b.v_head};
  }
  void kv_store(const KvRows& at, const float* k, const float* v) const override {
    kv_store_rows(page(at), at.first_token, at.tokens, k, v);
  }
  void kv_load(const KvRows& at, float* k, float* v) const override {
    kv_load_rows(page(at), at.first_token, at.tokens, k, v);
  }

 private:
  static KvPage page(const KvRows& at) {
    return {at.dtype, at.head_dim,
            at.pool->k + at.page * at.pool->k_page + at.head * at.pool->k_head,
            at.pool->v + at.page * at.pool->v_page + at.head * at.pool->v_head};
  }

  Isa isa_;
  std::vector<Kernel> kernels_;
};

}  // namespace

const Backend& backend() {
  static const CpuBackend instance;
  return instance;
}

}  // namespace rlx::cpu
