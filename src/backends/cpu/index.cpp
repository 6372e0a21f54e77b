#include "backends/cpu/index.h"

#include <cstring>

#include "ops/index.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

// table: [vocab, n] of any storage type; tokens: i32 [rows]; y: f32 [rows, n]
void embedding(const Embedding& op, const KernelArgs& a) noexcept {
  const TensorView &table = a.in[0], &tokens = a.in[1], &y = a.out[0];
  const std::int64_t n = table.dims[1], rows = tokens.dims[0];
  const DecodeRow decode = decoder(table.dtype);
  const std::int64_t end = rows * (a.thread + 1) / a.threads;
  for (std::int64_t r = rows * a.thread / a.threads; r < end; ++r) {
    const std::int64_t id = tokens.as<const std::int32_t>()[r];
    auto* out = y.row<float>(r);
    decode(table.row<const std::byte>(id), out, n);
    if (op.scale == 1.0f) continue;
    for (std::int64_t i = 0; i < n; ++i) out[i] *= op.scale;
  }
}

// x: [rows, n] f32 or xq8; index: i32 [out_rows]; y: [out_rows, n]
void select_rows(const SelectRows&, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &index = a.in[1], &y = a.out[0];
  const std::int64_t n = x.dims[1], rows = index.dims[0];
  const std::int64_t bytes = x.dtype == DType::xq8 ? n / 32 * 44 : n * 4;
  const std::int64_t end = rows * (a.thread + 1) / a.threads;
  for (std::int64_t r = rows * a.thread / a.threads; r < end; ++r)
    std::memcpy(y.row<std::byte>(r), x.row<const std::byte>(index.as<const std::int32_t>()[r]),
        static_cast<std::size_t>(bytes));
}

bool plain(const Shape& s) { return s.kind == ShapeKind::tensor && s.layout == Layout::plain; }
bool accepts_embedding(const KernelQuery& q) {
  return plain(q.in[0]) && decoder(q.in[0].dtype) != nullptr && q.in[1].dtype == DType::i32 &&
      q.out[0].dtype == DType::f32;
}
bool accepts_select_rows(const KernelQuery& q) {
  const DType d = q.in[0].dtype;
  return plain(q.in[0]) && (d == DType::f32 || d == DType::xq8) && q.in[1].dtype == DType::i32 && q.out[0].dtype == d;
}

constexpr Kernel kTable[] = {
    kernel<Embedding, embedding>("embedding_any_f32", Isa::baseline, accepts_embedding),
    kernel<SelectRows, select_rows>("select_rows_f32_xq8", Isa::baseline, accepts_select_rows),
};

}  // namespace

KernelTable index_kernels() { return {kTable, static_cast<int>(std::size(kTable))}; }

}  // namespace rlx::cpu
