// What the tests of products and panels share: random weights of every storage type, levels of this
// machine, and runs.
#pragma once

#include "backends/cpu/matmul.h"
#include "backends/cpu/pack.h"
#include "backends/kernel_run.h"
#include "base/cpu_features.h"
#include "ops/matmul.h"
#include "tensor/quant/block_scale.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {

inline constexpr DType kBlockTypes[] = {
    DType::q4_0,    DType::q4_1,   DType::q5_0,  DType::q5_1,  DType::q8_0,  DType::iq4_nl,
    DType::q2_K,    DType::q3_K,   DType::q4_K,  DType::q5_K,  DType::q6_K,  DType::iq4_xs,
    DType::iq3_xxs, DType::iq3_s,  DType::iq2_xxs, DType::iq2_xs, DType::iq2_s, DType::iq1_s,
    DType::iq1_m,   DType::tq1_0,  DType::tq2_0, DType::mxfp4};
inline constexpr DType kFloatTypes[] = {DType::f32, DType::f16, DType::bf16};

struct Level {
  const char* name;
  KernelTable table;
  bool fused;  ///< has fused multiply-add
};
inline std::vector<Level> levels() {
  std::vector<Level> l = {{"baseline", baseline::matmul_kernels(), false}};
#if defined(__x86_64__)
  if (cpu_features().avx2) l.push_back({"avx2", avx2::matmul_kernels(), true});
  if (cpu_features().avx512) l.push_back({"avx512", avx512::matmul_kernels(), true});
  if (cpu_features().avx512_bf16) l.push_back({"avx512_bf16", avx512_bf16::matmul_kernels(), true});
#endif
  return l;
}

/// The row of a level for an op and two types; nullptr when the level has none.
inline const Kernel* find_row(const Level& level, std::string_view op, DType x, DType w) {
  Shape weight({32, 256}, w);
  weight.layout = Layout::p16;
  const Shape in[] = {Shape({4, 256}, x), weight, weight}, out[] = {Shape({4, 32}, DType::f32)};
  const std::size_t operands = op == "linear" ? 2 : 3;
  for (int i = 0; i < level.table.count; ++i) {
    const Kernel& k = level.table.rows[i];
    if (k.op == op && k.accepts({nullptr, {in, operands}, out})) return &k;
  }
  return nullptr;
}

using Data = std::vector<std::byte>;

/// Rows of a weight [n, k]: random integers, random scales near 0.1 of both signs (floats: normal
/// values).
inline Data random_weights(DType d, std::int64_t n, std::int64_t k, unsigned seed) {
  if (is_float(d)) {
    Data rows(static_cast<std::size_t>(n * row_bytes(d, k)));
    const Floats values = normal(static_cast<std::size_t>(n * k), seed);
    for (std::int64_t r = 0; r < n; ++r)
      encoder(d)(values.data() + r * k, rows.data() + r * row_bytes(d, k), k);
    return rows;
  }
  std::mt19937 random(seed);
  Data rows(static_cast<std::size_t>(n * row_bytes(d, k)));
  for (std::byte& b : rows) b = static_cast<std::byte>(random() & 255);
  std::normal_distribution<float> value(0.0f, 0.1f);
  for (std::size_t at = 0; at < rows.size(); at += static_cast<std::size_t>(info(d).block_bytes)) {
    const float scale = value(random);
    set_block_scale(d, rows.data() + at, scale, value(random));
  }
  return rows;
}

inline Data encode_rows(DType d, const Floats& values, std::int64_t k) {
  const std::int64_t n = static_cast<std::int64_t>(values.size()) / k;
  Data rows(static_cast<std::size_t>(n * row_bytes(d, k)));
  for (std::int64_t r = 0; r < n; ++r)
    encoder(d)(values.data() + r * k, rows.data() + r * row_bytes(d, k), k);
  return rows;
}
inline Floats decode_rows(DType d, const Data& rows, std::int64_t k) {
  const auto n = static_cast<std::int64_t>(rows.size()) / row_bytes(d, k);
  Floats values(static_cast<std::size_t>(n * k));
  for (std::int64_t r = 0; r < n; ++r)
    decoder(d)(rows.data() + r * row_bytes(d, k), values.data() + r * k, k);
  return values;
}

/// A weight in panels. The memory ends at a canary that nothing may touch.
struct Panels {
  Panels(DType d, const Data& rows, std::int64_t rows_n, std::int64_t columns)
      : type(d), n(rows_n), k(columns), bytes(packed_bytes(d, n, k) + 64) {
    std::memset(bytes.data(), 0xcc, static_cast<std::size_t>(packed_bytes(d, n, k) + 64));
    pack_panels({rows.data(), d, n, k}, d, 0, (n + 15) / 16, bytes.data());
  }
  TensorView view() {
    TensorView v;
    v.data = bytes.data(), v.dtype = type, v.layout = Layout::p16, v.rank = 2;
    v.dims[0] = n, v.dims[1] = k;
    return v;
  }
  DType type;
  std::int64_t n, k;
  Bytes bytes;
};

struct Tokens {
  Tokens(DType d, const Floats& values, std::int64_t columns)
      : type(d),
        rows(static_cast<std::int64_t>(values.size()) / columns),
        k(columns),
        data(encode_rows(d, values, columns)) {}
  std::int64_t stride() const { return row_bytes(type, k); }
  TensorView view(std::int64_t first, std::int64_t count) {
    return rlx::cpu::view(data.data() + first * stride(), {count, k}, type);
  }
  DType type;
  std::int64_t rows, k;
  Data data;
};

/// y = x w^T of rows first .. first + count - 1.
inline Floats run_linear(const Kernel& row, Tokens& x, Panels& w, std::int64_t first,
                         std::int64_t count, Workers workers = {}) {
  Floats y(static_cast<std::size_t>(count * w.n), -7.0f);
  const Linear op{};
  run(row, &op, {x.view(first, count), w.view()}, {view(y, {count, w.n})}, workers);
  return y;
}

}  // namespace rlx::cpu
