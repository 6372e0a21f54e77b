// Choosing experts and tokens: a few comparisons for each value, the same on all levels. Both give
// what the bodies of their ops give, bit for bit: a choice has no tolerance.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/moe.h"
#include "ops/moe.h"
#include "ops/sample_op.h"

namespace rlx::cpu {
namespace {

// A NaN counts as largest, as in TopK, so that a choice is always one of the experts.
bool above(float a, float b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

/// The k best of n values, best first, of equal ones the lower index; `taken` holds n flags.
void best_of(const float* values, std::int64_t n, std::int64_t k, bool* taken, std::int32_t* out) {
  std::fill_n(taken, n, false);
  for (std::int64_t i = 0; i < k; ++i) {
    std::int64_t best = -1;
    for (std::int64_t j = 0; j < n; ++j)
      if (!taken[j] && (best < 0 || above(values[j], values[best]))) best = j;
    taken[best] = true;
    out[i] = static_cast<std::int32_t>(best);
  }
}

void softmax(const float* x, std::int64_t n, float* out) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    most = std::isnan(x[i]) ? std::numeric_limits<double>::quiet_NaN() : std::max(most, double{x[i]});
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(double{x[i]} - most);
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(std::exp(double{x[i]} - most) / sum);
}

/// A worker's memory for one row.
struct RouteSpace {
  float *scores, *choice, *sums;  ///< [experts], [experts], [groups]
  std::int32_t* picks;            ///< [experts]
  bool* taken;                    ///< [experts]
  static std::int64_t bytes(std::int64_t experts) { return experts * (4 * 4 + 1); }
  RouteSpace(std::byte* at, std::int64_t experts)
      : scores(reinterpret_cast<float*>(at)),
        choice(scores + experts),
        sums(choice + experts),
        picks(reinterpret_cast<std::int32_t*>(sums + experts)),
        taken(reinterpret_cast<bool*>(picks + experts)) {}
};

/// Experts of all but the best groups get -inf.
void limit_groups(const MoeRoute& op, std::int64_t experts, RouteSpace& s) {
  const std::int64_t size = experts / op.groups;
  for (std::int64_t g = 0; g < op.groups; ++g) {
    best_of(s.choice + g * size, size, op.group_top, s.taken, s.picks);
    double sum = 0;
    for (std::int32_t i = 0; i < op.group_top; ++i) sum += double{s.choice[g * size + s.picks[i]]};
    s.sums[g] = static_cast<float>(sum);
  }
  best_of(s.sums, op.groups, op.group_limit, s.taken, s.picks);
  for (std::int64_t g = 0; g < op.groups; ++g)
    if (!s.taken[g])
      std::fill_n(s.choice + g * size, size, -std::numeric_limits<float>::infinity());
}

void route_row(const MoeRoute& op, const float* logits, const float* bias, std::int64_t experts,
               RouteSpace& s) {
  if (op.scoring == Scoring::softmax) {
    softmax(logits, experts, s.scores);
  } else {
    for (std::int64_t e = 0; e < experts; ++e)
      s.scores[e] = op.scoring == Scoring::sigmoid
                        ? static_cast<float>(1.0 / (1.0 + std::exp(-double{logits[e]})))
                        : logits[e];
  }
  for (std::int64_t e = 0; e < experts; ++e)
    s.choice[e] = bias != nullptr ? s.scores[e] + bias[e] : s.scores[e];
  if (op.groups > 1) limit_groups(op, experts, s);
  best_of(s.choice, experts, op.k, s.taken, s.picks);
}

/// The weights of the picks, as the body computes them: each step rounded to f32.
void write_weights(const MoeRoute& op, RouteSpace& s, float* out) {
  for (std::int32_t i = 0; i < op.k; ++i) out[i] = s.scores[s.picks[i]];
  if (op.scoring == Scoring::softmax_selected) {
    std::copy_n(out, op.k, s.choice);
    softmax(s.choice, op.k, out);
  }
  if (op.normalize) {
    double sum = 0;
    for (std::int32_t i = 0; i < op.k; ++i) sum += double{out[i]};
    const float divisor = std::max(static_cast<float>(sum), 1e-20f);
    for (std::int32_t i = 0; i < op.k; ++i) out[i] /= divisor;
  }
  if (op.factor != 1.0f)
    for (std::int32_t i = 0; i < op.k; ++i) out[i] *= op.factor;
}

// logits: f32 [rows, experts]; bias: f32 [experts]; ids: i32 [rows, k]; weights: f32 [rows, k]
void moe_route(const MoeRoute& op, const KernelArgs& a) noexcept {
  const TensorView& logits = a.in[0];
  const std::int64_t rows = logits.dims[0], experts = logits.dims[1];
  const float* bias = op.bias ? a.in[1].as<const float>() : nullptr;
  RouteSpace space(a.scratch, experts);
  const std::int64_t end = rows * (a.thread + 1) / a.threads;
  for (std::int64_t r = rows * a.thread / a.threads; r < end; ++r) {
    route_row(op, logits.row<const float>(r), bias, experts, space);
    std::copy_n(space.picks, op.k, a.out[0].row<std::int32_t>(r));
    write_weights(op, space, a.out[1].row<float>(r));
  }
}

void sample_token(const SampleToken& op, const KernelArgs& a) noexcept {
  sample_rows(op, a, a.scratch);
}

bool accepts_logits(const KernelQuery& q) {
  return q.in[0].dtype == DType::f32 && q.in[0].layout == Layout::plain;
}
ScratchNeed scratch_route(const ScratchQuery& q) {
  ScratchNeed n;
  n.per_worker = RouteSpace::bytes(q.in[0].dims[1]);
  return n;
}
ScratchNeed scratch_sample(const ScratchQuery& q) {
  ScratchNeed n;
  n.per_worker = static_cast<std::int64_t>(sample_scratch_bytes(q.in[0].dims[1]));
  return n;
}

constexpr Kernel kRouteTable[] = {
    kernel<MoeRoute, moe_route>("moe_route_f32", Isa::baseline, accepts_logits, scratch_route),
    kernel<SampleToken, sample_token>("sample_f32", Isa::baseline, accepts_logits, scratch_sample),
};

}  // namespace

KernelTable route_kernels() { return {kRouteTable, static_cast<int>(std::size(kRouteTable))}; }

}  // namespace rlx::cpu
