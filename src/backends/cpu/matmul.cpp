#include "backends/cpu/matmul.h"

#include <array>

#include "backends/cpu/matmul_plan.h"
#include "ops/matmul.h"

namespace rlx::cpu {
namespace {

bool is_panel(const Shape& s, DType d) {
  return s.kind == ShapeKind::tensor && s.dtype == d && s.layout == Layout::p16 && s.rank() == 2;
}

template <DType X, DType W>
bool accepts_linear(const KernelQuery& q) {
  return q.in.size() >= 2 && q.in[0].dtype == X && q.in[0].layout == Layout::plain &&
         is_panel(q.in[1], W) && q.out.size() == 1 && q.out[0].dtype == DType::f32;
}
template <DType X, DType W>
bool accepts_gated(const KernelQuery& q) {
  return q.in.size() == 3 && accepts_linear<X, W>(q) && is_panel(q.in[2], W);
}

ScratchNeed need(const ScratchQuery& q, int weights) {
  ScratchNeed n;
  n.per_worker = matmul_scratch(q.in[0].dtype, q.in[1].dtype, q.in[1].dims[1], weights).total();
  return n;
}
ScratchNeed scratch_linear(const ScratchQuery& q) { return need(q, 1); }
ScratchNeed scratch_gated(const ScratchQuery& q) { return need(q, 2); }

struct Level {
  Isa isa;
  KernelFn linear, gated;
};

template <DType X, DType W>
constexpr std::array<Kernel, 2> rows_of(const Level& l, std::string_view linear,
                                        std::string_view gated) {
  return {Kernel{linear, Linear::name, l.isa, accepts_linear<X, W>, l.linear, scratch_linear},
          Kernel{gated, GatedLinear::name, l.isa, accepts_gated<X, W>, l.gated, scratch_gated}};
}

#define RLX_ROWS(level, x, w)                                    \
  rows_of<DType::x, DType::w>(l, "linear_" #x "_" #w "_" #level, \
                              "gated_linear_" #x "_" #w "_" #level)
#define RLX_BLOCK_ROWS(level, x)                                                                                     \
      RLX_ROWS(level, x, q4_0), RLX_ROWS(level, x, q4_1), RLX_ROWS(level, x, q5_0), RLX_ROWS(level, x, q5_1),        \
      RLX_ROWS(level, x, q8_0), RLX_ROWS(level, x, iq4_nl), RLX_ROWS(level, x, q2_K), RLX_ROWS(level, x, q3_K),      \
      RLX_ROWS(level, x, q4_K), RLX_ROWS(level, x, q5_K), RLX_ROWS(level, x, q6_K), RLX_ROWS(level, x, tq1_0),       \
      RLX_ROWS(level, x, tq2_0), RLX_ROWS(level, x, iq1_s), RLX_ROWS(level, x, iq1_m), RLX_ROWS(level, x, iq2_xxs),  \
      RLX_ROWS(level, x, iq2_xs), RLX_ROWS(level, x, iq2_s), RLX_ROWS(level, x, iq3_xxs), RLX_ROWS(level, x, iq3_s), \
      RLX_ROWS(level, x, iq4_xs), RLX_ROWS(level, x, mxfp4)

template <typename Pairs>
constexpr auto flatten(const Pairs& pairs) {
  std::array<Kernel, std::tuple_size_v<Pairs> * 2> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = pairs[i / 2][i % 2];
  return rows;
}

#define RLX_MATMUL_TABLE(level)                                                               \
  KernelTable level::matmul_kernels() {                                                       \
    static constexpr Level l{Isa::level, level::linear, level::gated_linear};                 \
    static constexpr auto rows = flatten(std::array{                                          \
        RLX_BLOCK_ROWS(level, xq8), RLX_BLOCK_ROWS(level, f32), RLX_ROWS(level, f32, f32),    \
        RLX_ROWS(level, f32, f16), RLX_ROWS(level, f32, bf16), RLX_ROWS(level, bf16, bf16)}); \
    return {rows.data(), static_cast<int>(rows.size())};                                      \
  }

}  // namespace

RLX_MATMUL_TABLE(baseline)
#if defined(__x86_64__)
RLX_MATMUL_TABLE(avx2)
RLX_MATMUL_TABLE(avx512)

KernelTable avx512_bf16::matmul_kernels() {
  static constexpr Level l{Isa::avx512_bf16, avx512_bf16::linear, avx512_bf16::gated_linear};
  static constexpr auto rows = rows_of<DType::bf16, DType::bf16>(
      l, "linear_bf16_bf16_avx512_bf16", "gated_linear_bf16_bf16_avx512_bf16");
  return {rows.data(), static_cast<int>(rows.size())};
}
#endif

}  // namespace rlx::cpu
