// Ops that carry a state from row to row: short convolutions and recurrent scans. All work on float32.
//
// The form of a call is that of its operand `state`:
// - A recurrent state: x is [rows, n], the rows of several sequences. seq_start i32[batch + 1] says
//   where each sequence starts, past i32[batch] how many tokens it had before this step (0: it starts
//   from a state of zeros), slot i32[batch] which row of the state is its own. A sequence without rows
//   leaves its state as it is.
// - A tensor: functional. x is [batch, seq, n] and the state before the first row f32[batch, ...]; the
//   state after the last one is the result.
// - Absent: functional, from zeros.
// "rows" below stands for the leading dims of x in either form. Results: y, and the state.
//
// States are rounded to f32 after each row, so a sequence gives the same bits however it is cut into
// steps (kernels.md, 2.8).
//
// The functional forms have gradients; the form with a recurrent state has none.
#pragma once

#include <limits>

#include "ir/op.h"
#include "ops/activation.h"

namespace rlx {

inline constexpr float kNoStepLimit = std::numeric_limits<float>::infinity();

/// Depthwise causal convolution: y[t, c] = act(bias[c] + sum_j w[j, c] * x[t - (k - 1) + j, c]), with
/// rows before the first one from the state (https://arxiv.org/abs/2312.00752, section 3.4).
/// x, y: [rows, n]; w: [k, n], k of 2 or more; bias: [n], present when `bias`. State: [k - 1, n], the
/// last k - 1 rows of x, oldest first.
struct CausalConv1d {
  Act act = Act::none;
  bool bias = false;

  static constexpr std::string_view name = "causal_conv1d";
  static constexpr Trait traits = Trait::state | Trait::compute;
  static constexpr std::array<std::string_view, 7> operands = {"x",         "w",    "bias", "state",
                                                               "seq_start", "past", "slot"};
  static constexpr int optional_operands = 5;
  static constexpr auto fields(auto...) {
    return std::tuple{field("act", &CausalConv1d::act), field("bias", &CausalConv1d::bias)};
  }
  bool operator==(const CausalConv1d&) const = default;
  int state_at() const { return bias ? 3 : 2; }
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The selective scan of Mamba (https://arxiv.org/abs/2312.00752, algorithm 2): with dt' = dt, or
/// softplus(dt) when `softplus`,
///   h[s, c] = exp(dt'[t, c] * a[s, c]) * h[s, c] + dt'[t, c] * b[t, s] * x[t, c]
///   y[t, c] = sum_s c[t, s] * h[s, c] + d[c] * x[t, c].
/// x, dt, y: [rows, n]; a: [states, n]; b, c: [rows, states]; d: [n]. State h: [states, n].
struct SelectiveScan {
  bool softplus = true;

  static constexpr std::string_view name = "selective_scan";
  static constexpr Trait traits = Trait::state | Trait::compute;
  static constexpr std::array<std::string_view, 10> operands = {
      "x", "dt", "a", "b", "c", "d", "state", "seq_start", "past", "slot"};
  static constexpr int optional_operands = 4;
  static constexpr int kState = 6;
  static constexpr auto fields(auto...) {
    return std::tuple{field("softplus", &SelectiveScan::softplus)};
  }
  bool operator==(const SelectiveScan&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The scan of Mamba-2 (https://arxiv.org/abs/2405.21060): one decay for each head, b and c shared
/// by the heads of a group (head h reads group h / (heads / groups)). With dt' = dt + dt_bias, its
/// softplus when `softplus`, limited to [dt_min, dt_max]:
///   s[h, n, p] = exp(dt'[t, h] * a[h]) * s[h, n, p] + b[t, g, n] * (dt'[t, h] * x[t, h, p])
///   y[t, h, p] = sum_n c[t, g, n] * s[h, n, p] + d[h] * x[t, h, p].
/// x, y: [rows, heads * head_dim]; dt: [rows, heads]; a, d, dt_bias: [heads]; b, c: [rows, groups *
/// states]. State: [heads, states, head_dim].
struct SsdScan {
  std::int32_t heads = 1;
  std::int32_t groups = 1;
  bool softplus = true;
  float dt_min = 0.0f;
  float dt_max = kNoStepLimit;

  static constexpr std::string_view name = "ssd_scan";
  static constexpr Trait traits = Trait::state | Trait::compute;
  static constexpr std::array<std::string_view, 11> operands = {
      "x", "dt", "a", "b", "c", "d", "dt_bias", "state", "seq_start", "past", "slot"};
  static constexpr int optional_operands = 4;
  static constexpr int kState = 7;
  static constexpr auto fields(auto...) {
    return std::tuple{field("heads", &SsdScan::heads), field("groups", &SsdScan::groups),
                      field("softplus", &SsdScan::softplus), field("dt_min", &SsdScan::dt_min),
                      field("dt_max", &SsdScan::dt_max)};
  }
  bool operator==(const SsdScan&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The gated delta rule (https://arxiv.org/abs/2412.06464). Value head h reads key head
/// h / (heads / key_heads); with q' = scale * q and k' = k, both divided by their length
/// sqrt(sum of squares + eps) before when `l2_norm`:
///   s = exp(g[t, h]) * s;  u = beta[t, h] * (v[t, h] - k' s);  s = s + k' (x) u;  y[t, h] = q' s.
/// q, k: [rows, key_heads * key_dim]; v, y: [rows, heads * value_dim]; g, beta: [rows, heads], g the
/// logarithm of the decay. State s: [heads, key_dim, value_dim].
struct GatedDelta {
  std::int32_t heads = 1;
  std::int32_t key_heads = 1;
  float scale = 1.0f;
  bool l2_norm = false;
  float eps = 1e-6f;

  static constexpr std::string_view name = "gated_delta";
  static constexpr Trait traits = Trait::state | Trait::compute;
  static constexpr std::array<std::string_view, 9> operands = {
      "q", "k", "v", "g", "beta", "state", "seq_start", "past", "slot"};
  static constexpr int optional_operands = 4;
  static constexpr int kState = 5;
  static constexpr auto fields(auto...) {
    return std::tuple{field("heads", &GatedDelta::heads), field("key_heads", &GatedDelta::key_heads),
                      field("scale", &GatedDelta::scale), field("l2_norm", &GatedDelta::l2_norm),
                      field("eps", &GatedDelta::eps)};
  }
  bool operator==(const GatedDelta&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using RecurrentOps = OpList<CausalConv1d, SelectiveScan, SsdScan, GatedDelta>;

}  // namespace rlx
