// Blocks of HIR: composite ops that models are written in. Each is its body; lowering expands it
// into MIR ops.
#pragma once

#include "ir/op.h"
#include "ops/activation.h"
#include "ops/attention.h"

namespace rlx {

/// Attention of a decoder layer with its products: q, k, v from x, per-head norm, RoPE, append,
/// attention, output product.
/// x, y: f32[rows, hidden]. wq: [heads * head_dim, hidden]. wk, wv: [kv_heads * head_dim, hidden].
/// wo: [hidden, heads * head_dim].
/// Optional operands in this order: bq, bk, bv (when `qkv_bias`), bo (when `out_bias`), q_norm,
/// k_norm (when `qk_norm`). Without `rope` positions are not encoded (NoPE layers); inv_freq is
/// still an operand. Results: y and the cache.
struct SelfAttention {
  std::int32_t heads = 1;
  std::int32_t head_dim = 64;
  std::int32_t rotary_dim = 64;
  float scale = 1.0f;
  float softcap = 0.0f;
  std::int32_t window = 0;
  float magnitude = 1.0f;
  float eps = 1e-6f;
  float weight_offset = 0.0f;
  RopeStyle style = RopeStyle::half;
  bool rope = true;
  bool qkv_bias = false;
  bool out_bias = false;
  bool qk_norm = false;

  static constexpr std::string_view name = "self_attention";
  static constexpr Trait traits = Trait::composite | Trait::state;
  static constexpr std::array<std::string_view, 18> operands = {
      "x",  "cache", "seq_start", "past", "slot", "pages", "positions", "inv_freq", "wq",
      "wk", "wv",    "wo",        "bq",   "bk",   "bv",    "bo",        "q_norm",   "k_norm"};
  static constexpr int optional_operands = 6;
  static constexpr auto fields(auto...) {
    using S = SelfAttention;
    return std::tuple{field("heads", &S::heads),
                      field("head_dim", &S::head_dim),
                      field("rotary_dim", &S::rotary_dim),
                      field("scale", &S::scale),
                      field("softcap", &S::softcap),
                      field("window", &S::window),
                      field("magnitude", &S::magnitude),
                      field("eps", &S::eps),
                      field("weight_offset", &S::weight_offset),
                      field("style", &S::style),
                      field("rope", &S::rope),
                      field("qkv_bias", &S::qkv_bias),
                      field("out_bias", &S::out_bias),
                      field("qk_norm", &S::qk_norm)};
  }
  bool operator==(const SelfAttention&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// y = (act(x gate^T) * (x up^T)) down^T.
/// x, y: f32[rows, hidden]. gate, up: [inner, hidden]. down: [hidden, inner].
struct GatedMlp {
  Act act = Act::silu;
  static constexpr std::string_view name = "gated_mlp";
  static constexpr Trait traits = Trait::composite | Trait::row_wise;
  static constexpr std::array<std::string_view, 4> operands = {"x", "gate", "up", "down"};
  static constexpr auto fields(auto...) { return std::tuple{field("act", &GatedMlp::act)}; }
  bool operator==(const GatedMlp&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// Logits of the wanted rows: select_rows, RMS norm, product, optional soft-cap (softcap > 0).
/// x: f32[rows, hidden]; norm: f32[hidden]; w: [vocab, hidden]; out_rows: i32[out_rows]; y:
/// f32[out_rows, vocab].
struct LmHead {
  float eps = 1e-6f;
  float weight_offset = 0.0f;
  float softcap = 0.0f;
  static constexpr std::string_view name = "lm_head";
  static constexpr Trait traits = Trait::composite;
  static constexpr std::array<std::string_view, 4> operands = {"x", "norm", "w", "out_rows"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("eps", &LmHead::eps), field("weight_offset", &LmHead::weight_offset),
                      field("softcap", &LmHead::softcap)};
  }
  bool operator==(const LmHead&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

using BlockOps = OpList<SelfAttention, GatedMlp, LmHead>;

}  // namespace rlx
