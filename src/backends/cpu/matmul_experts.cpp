#include "backends/cpu/matmul_experts.h"

#include <array>

#include "ops/moe.h"

namespace rlx::cpu {
namespace {

bool is_expert_panel(const Shape& s, DType d) {
  return s.kind == ShapeKind::tensor && s.dtype == d && s.layout == Layout::p16 && s.rank() == 3;
}

template <DType X, DType W, int Weights>
bool accepts_experts(const KernelQuery& q) {
  if (q.in.size() < 2 + Weights || q.in[0].dtype != X || q.in[0].layout != Layout::plain) return false;
  if (q.out.size() != 1 || q.out[0].dtype != DType::f32) return false;
  for (std::size_t i = 2; i < 2 + Weights; ++i)
    if (!is_expert_panel(q.in[i], W)) return false;
  return true;
}

template <int Weights>
ScratchNeed scratch_experts(const ScratchQuery& q) {
  ScratchNeed n;
  n.per_worker = expert_scratch(q.in, Weights).total();
  return n;
}

struct ExpertLevel {
  Isa isa;
  KernelFn linear, gated;
};

template <DType X, DType W>
constexpr std::array<Kernel, 2> expert_rows(const ExpertLevel& l, std::string_view linear,
                                            std::string_view gated) {
  return {Kernel{linear, ExpertLinear::name, l.isa, accepts_experts<X, W, 1>, l.linear,
                 scratch_experts<1>},
          Kernel{gated, ExpertGatedLinear::name, l.isa, accepts_experts<X, W, 2>, l.gated,
                 scratch_experts<2>}};
}

#define RLX_EXPERT_ROWS(level, x, w)                                       \
  expert_rows<DType::x, DType::w>(l, "expert_linear_" #x "_" #w "_" #level, \
                                  "expert_gated_linear_" #x "_" #w "_" #level)
#define RLX_EXPERT_BLOCKS(level, x)                                                                            \
      RLX_EXPERT_ROWS(level, x, q4_0), RLX_EXPERT_ROWS(level, x, q4_1), RLX_EXPERT_ROWS(level, x, q5_0),       \
      RLX_EXPERT_ROWS(level, x, q5_1), RLX_EXPERT_ROWS(level, x, q8_0), RLX_EXPERT_ROWS(level, x, iq4_nl),     \
      RLX_EXPERT_ROWS(level, x, q2_K), RLX_EXPERT_ROWS(level, x, q3_K), RLX_EXPERT_ROWS(level, x, q4_K),       \
      RLX_EXPERT_ROWS(level, x, q5_K), RLX_EXPERT_ROWS(level, x, q6_K), RLX_EXPERT_ROWS(level, x, tq1_0),      \
      RLX_EXPERT_ROWS(level, x, tq2_0), RLX_EXPERT_ROWS(level, x, iq1_s), RLX_EXPERT_ROWS(level, x, iq1_m),    \
      RLX_EXPERT_ROWS(level, x, iq2_xxs), RLX_EXPERT_ROWS(level, x, iq2_xs), RLX_EXPERT_ROWS(level, x, iq2_s), \
      RLX_EXPERT_ROWS(level, x, iq3_xxs), RLX_EXPERT_ROWS(level, x, iq3_s), RLX_EXPERT_ROWS(level, x, iq4_xs), \
      RLX_EXPERT_ROWS(level, x, mxfp4)

template <typename Pairs>
constexpr auto flat_rows(const Pairs& pairs) {
  std::array<Kernel, std::tuple_size_v<Pairs> * 2> rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = pairs[i / 2][i % 2];
  return rows;
}

#define RLX_EXPERT_TABLE(level)                                                               \
  KernelTable level::expert_kernels() {                                                       \
    static constexpr ExpertLevel l{Isa::level, level::expert_linear, level::expert_gated_linear}; \
    static constexpr auto rows = flat_rows(std::array{                                        \
        RLX_EXPERT_BLOCKS(level, xq8), RLX_EXPERT_BLOCKS(level, f32),                         \
        RLX_EXPERT_ROWS(level, f32, f32), RLX_EXPERT_ROWS(level, f32, f16),                   \
        RLX_EXPERT_ROWS(level, f32, bf16), RLX_EXPERT_ROWS(level, bf16, bf16)});              \
    return {rows.data(), static_cast<int>(rows.size())};                                      \
  }

}  // namespace

RLX_EXPERT_TABLE(baseline)
#if defined(__x86_64__)
RLX_EXPERT_TABLE(avx2)
RLX_EXPERT_TABLE(avx512)

KernelTable avx512_bf16::expert_kernels() {
  static constexpr ExpertLevel l{Isa::avx512_bf16, avx512_bf16::expert_linear,
                                 avx512_bf16::expert_gated_linear};
  static constexpr auto rows = expert_rows<DType::bf16, DType::bf16>(
      l, "expert_linear_bf16_bf16_avx512_bf16", "expert_gated_linear_bf16_bf16_avx512_bf16");
  return {rows.data(), static_cast<int>(rows.size())};
}
#endif

}  // namespace rlx::cpu
