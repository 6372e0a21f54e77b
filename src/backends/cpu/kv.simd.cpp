// Keys and values of new rows into the paged cache.
#include "backends/cpu/kv.h"

#include "backends/cpu/kv_write.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/attention.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// k, v: f32 [rows, kv_heads * head_dim]
void kv_append(const KvAppend&, const KernelArgs& a) noexcept {
  const TensorView &cache = a.in[0], &k = a.in[1], &v = a.in[2];
  const std::int64_t kv_heads = cache.dims[0], head_dim = cache.dims[1];
  RowPlaces places(a.in[3], a.in[4], a.in[5], a.in[6]);
  const Range mine = part(a, k.dims[0] * kv_heads);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t row = i / kv_heads, head = i % kv_heads;
    if (!places.seek(row)) return;
    append_token(cache, head, places.token(row), places.page_row(places.seq),
                 at<const float>(k, row * k.strides[0]) + head * head_dim,
                 at<const float>(v, row * v.strides[0]) + head * head_dim);
  }
}

constexpr Kernel kTable[] = {
    kernel<KvAppend, kv_append>(RLX_ROW_NAME("kv_append"), Isa::RLX_ISA_LEVEL, accepts_kv_append),
};

}  // namespace

KernelTable kv_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
