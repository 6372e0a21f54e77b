// ExpertLinear and ExpertGatedLinear: the pairs (row, slot) are sorted by expert, then each expert
// with pairs is a product of its own over the panels of its weights, which are read once for every
// 64 of its rows. Experts without pairs are not touched: one row reads the weights of its k experts.
#include "backends/cpu/matmul_experts.h"

#include "backends/cpu/matmul_product.h"
#include "ops/moe.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// A panel's way from memory takes as long as its products with about so many tokens. Only the
// balance between workers depends on it.
constexpr std::int64_t kPanelLoad = 8;

/// The pairs of a call by expert: those of expert e are order[starts[e] .. starts[e + 1] - 1], rising.
struct Grouping {
  const std::int32_t* starts;
  const std::int32_t* order;
  std::int64_t experts;
  std::int64_t count(std::int64_t e) const { return starts[e + 1] - starts[e]; }
};

bool is_expert(std::int32_t id, std::int64_t experts) { return id >= 0 && id < experts; }

struct Ids {
  const std::byte* data;
  std::int64_t pairs, slots, stride;
  explicit Ids(const TensorView& v)
      : data(static_cast<const std::byte*>(v.data)),
        pairs(v.dims[0] * v.dims[1]),
        slots(v.dims[1]),
        stride(v.strides[0]) {}
  std::int32_t operator[](std::int64_t pair) const {
    return reinterpret_cast<const std::int32_t*>(data + pair / slots * stride)[pair % slots];
  }
};

/// Counting sort. Each worker does it for itself: a few operations a pair, and no barrier.
Grouping group(const Ids& ids, std::int64_t experts, std::int32_t* starts, std::int32_t* order) {
  for (std::int64_t e = 0; e <= experts; ++e) starts[e] = 0;
  for (std::int64_t p = 0; p < ids.pairs; ++p)
    if (is_expert(ids[p], experts)) ++starts[ids[p] + 1];
  for (std::int64_t e = 0; e < experts; ++e) starts[e + 1] += starts[e];
  // Filling moves each start to its end, which is the next one's start.
  for (std::int64_t p = 0; p < ids.pairs; ++p)
    if (is_expert(ids[p], experts)) order[starts[ids[p]]++] = static_cast<std::int32_t>(p);
  for (std::int64_t e = experts; e > 0; --e) starts[e] = starts[e - 1];
  starts[0] = 0;
  return {starts, order, experts};
}

/// The rows of x by pair.
struct PairRows {
  const TensorView& x;
  std::int64_t slots;
  const std::byte* operator()(std::int64_t pair) const {
    const std::byte* row = static_cast<const std::byte*>(x.data) + pair / slots * x.strides[0];
    return x.rank == 3 ? row + pair % slots * x.strides[1] : row;
  }
};

/// Rows of pairs whose id names no expert: this worker's share becomes zero.
void clear_others(const KernelArgs& a, const Ids& ids, std::int64_t experts, const Rows& y,
                  std::int64_t n) {
  for (std::int64_t p = ids.pairs * a.thread / a.threads;
       p < ids.pairs * (a.thread + 1) / a.threads; ++p) {
    if (is_expert(ids[p], experts)) continue;
    auto* row = reinterpret_cast<float*>(y.at(p));
    for (std::int64_t i = 0; i < n; ++i) row[i] = 0.0f;
  }
}

/// One expert's rows, gathered 64 at a time, times panels begin..end-1.
void run_expert(Product p, const PairRows& rows, const Grouping& pairs, std::int64_t e,
                const MatmulShare& share) {
  const std::int64_t bytes = token_bytes(p.x_type, p.k);
  std::byte* const gathered = p.x.data;
  const std::int32_t* order = pairs.order + pairs.starts[e];
  for (std::int64_t at = 0; at < pairs.count(e); at += kChunkTokens) {
    p.x.count = min64(kChunkTokens, pairs.count(e) - at);
    p.x.stride = bytes;
    p.y.index = order + at;
    if (p.x.count == 1) {
      p.x.data = const_cast<std::byte*>(rows(order[at]));  // read only
    } else {
      p.x.data = gathered;
      for (std::int64_t i = 0; i < p.x.count; ++i)
        __builtin_memcpy(gathered + i * bytes, rows(order[at + i]), static_cast<std::size_t>(bytes));
    }
    run_panels(p, share.panel_begin, share.panel_end);
  }
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

const float* bias_of(const TensorView& bias, std::int64_t expert) {
  return reinterpret_cast<const float*>(static_cast<const std::byte*>(bias.data) +
                                        expert * bias.strides[0]);
}

void run_experts(const KernelArgs& a, int weights, const TensorView* bias, Act act) {
  const TensorView &x = a.in[0], &w = a.in[2];
  const std::int64_t experts = w.dims[0], n = w.dims[1], panels = panel_count(n);
  const ExpertScratch sizes = expert_scratch(a.in, weights);
  const Ids ids(a.in[1]);
  std::byte* const starts = a.scratch + sizes.product + sizes.rows;
  const Grouping pairs = group(ids, experts, reinterpret_cast<std::int32_t*>(starts),
                               reinterpret_cast<std::int32_t*>(starts + sizes.starts));
  Product p{};
  p.x_type = x.dtype;
  p.w_type = w.dtype;
  p.k = w.dims[2];
  p.n = n;
  p.x.data = a.scratch + sizes.product;
  p.y = rows_of(a.out[0]);
  p.weights = weights;
  p.act = act;
  p.threads = 1;
  p.scratch = a.scratch;
  clear_others(a, ids, experts, p.y, n);

  std::int64_t total = 0;
  for (std::int64_t e = 0; e < experts; ++e)
    if (pairs.count(e) > 0) total += panels * (pairs.count(e) + kPanelLoad);
  const std::int64_t from = total * a.thread / a.threads, to = total * (a.thread + 1) / a.threads;
  const std::int64_t expert_bytes = panels * panel_bytes(w.dtype, p.k);
  std::int64_t at = 0;
  for (std::int64_t e = 0; e < experts && at < to; ++e) {
    if (pairs.count(e) == 0) continue;
    const std::int64_t cost = pairs.count(e) + kPanelLoad;
    const std::int64_t begin = from <= at ? 0 : min64(panels, ceil_of(from - at, cost)),
                       end = min64(panels, ceil_of(to - at, cost));
    at += panels * cost;
    if (begin >= end) continue;
    for (int i = 0; i < weights; ++i)
      p.w[i] = static_cast<const std::byte*>(a.in[2 + i].data) + e * expert_bytes;
    p.bias = bias ? bias_of(*bias, e) : nullptr;
    run_expert(p, {x, ids.slots}, pairs, e, {begin, end, 0, 0});
  }
}

}  // namespace

void expert_linear(const void* op, const KernelArgs& a) noexcept {
  const bool bias = static_cast<const ExpertLinear*>(op)->bias;
  run_experts(a, 1, bias ? &a.in[3] : nullptr, Act::none);
}

void expert_gated_linear(const void* op, const KernelArgs& a) noexcept {
  run_experts(a, 2, nullptr, static_cast<const ExpertGatedLinear*>(op)->act);
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
