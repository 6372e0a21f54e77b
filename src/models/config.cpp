#include "models/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace rlx {
namespace {

constexpr std::int64_t kMaxInt =
    std::numeric_limits<std::int32_t>::max();  // attributes and token ids are 32-bit

/// One row of the table: a field, its names in both formats, and what it must be.
struct Rule {
  std::string_view gguf_key, hub_key;
  bool (*holds)(const DecoderConfig&, const TensorLimits&);
  std::string (*expected)(const DecoderConfig&, const TensorLimits&);
  std::string (*found)(const DecoderConfig&);
};

#define RLX_INTEGER_RULE(gguf, hub, field, least, most)                                       \
  Rule {                                                                                      \
    gguf, hub,                                                                                \
        [](const DecoderConfig& c, [[maybe_unused]] const TensorLimits& t) {                  \
          return c.field >= (least) && c.field <= (most);                                     \
        },                                                                                    \
        []([[maybe_unused]] const DecoderConfig& c, [[maybe_unused]] const TensorLimits& t) { \
          return fmt::format("{} to {}", std::int64_t{least}, std::int64_t{most});            \
        },                                                                                    \
        [](const DecoderConfig& c) { return fmt::to_string(c.field); }                        \
  }
#define RLX_NUMBER_RULE(gguf, hub, field, text, condition)                           \
  Rule {                                                                             \
    gguf, hub,                                                                       \
        [](const DecoderConfig& c, const TensorLimits&) {                            \
          const double v = c.field;                                                  \
          return std::isfinite(v) && (condition);                                    \
        },                                                                           \
        [](const DecoderConfig&, const TensorLimits&) { return std::string(text); }, \
        [](const DecoderConfig& c) { return fmt::to_string(c.field); }               \
  }

// Layers are limited by the tensors there are, heads and their size by the largest tensor: a table
// or a loop never grows by a number alone. Other sizes are checked against the tensors' shapes, one
// by one.
const Rule kCountRules[] = {
    RLX_INTEGER_RULE("block_count", "num_hidden_layers", layers, 1, t.tensors),
    RLX_INTEGER_RULE("embedding_length", "hidden_size", hidden, 1, kMaxInt),
};

// Of families with attention, among the counts.
const Rule kHeadRules[] = {
    RLX_INTEGER_RULE("attention.head_count", "num_attention_heads", heads, 1, t.largest),
};

const Rule kRules[] = {
    RLX_INTEGER_RULE("vocab_size", "vocab_size", vocab, 1, kMaxInt),
    RLX_INTEGER_RULE("context_length", "max_position_embeddings", context, 1, kMaxInt),
    // A family that reads no mixture leaves moe.used at 0.
    RLX_INTEGER_RULE("expert_count", "num_local_experts", experts, 0,
                     c.moe.used > 0 ? t.largest : 0),
    RLX_INTEGER_RULE("expert_used_count", "num_experts_per_tok", moe.used, c.experts > 0 ? 1 : 0,
                     c.experts),
    RLX_INTEGER_RULE("expert_feed_forward_length", "moe_intermediate_size", moe.inner,
                     c.experts > 0 ? 1 : 0, kMaxInt),
    RLX_INTEGER_RULE("expert_shared_feed_forward_length", "shared_expert_intermediate_size",
                     moe.shared_inner, 0, kMaxInt),
    RLX_INTEGER_RULE("expert_group_count", "n_group", moe.groups, 1, kMaxInt),
    RLX_INTEGER_RULE("expert_group_used_count", "topk_group", moe.group_limit, 1, c.moe.groups),
    RLX_NUMBER_RULE("expert_weights_scale", "routed_scaling_factor", moe.factor, "a finite number",
                    true),
    RLX_NUMBER_RULE("attention.layer_norm_rms_epsilon", "rms_norm_eps", eps, "a number above 0",
                    v > 0.0 && v < 1.0),
    RLX_NUMBER_RULE("embedding_scale", "embedding_multiplier", embedding_scale, "a finite number",
                    true),
    RLX_NUMBER_RULE("final_logit_softcapping", "final_logit_softcapping", final_softcap,
                    "0 (none) or above", v >= 0.0),
};

const Rule kAttentionRules[] = {
    RLX_INTEGER_RULE("feed_forward_length", "intermediate_size", inner, 1, kMaxInt),
    {"attention.head_count_kv", "num_key_value_heads",
     [](const DecoderConfig& c, const TensorLimits&) {
       return c.kv_heads >= 1 && c.kv_heads <= c.heads && c.heads % c.kv_heads == 0;
     },
     [](const DecoderConfig& c, const TensorLimits&) {
       return fmt::format("a divisor of the {} heads", c.heads);
     },
     [](const DecoderConfig& c) { return fmt::to_string(c.kv_heads); }},
    {"attention.key_length", "head_dim",
     [](const DecoderConfig& c, const TensorLimits& t) {
       return c.head_dim >= 1 && c.head_dim <= t.largest / c.heads;
     },
     [](const DecoderConfig& c, const TensorLimits& t) {
       return fmt::format("1 to {} ({} heads; the largest tensor has {} rows or columns)",
                          t.largest / c.heads, c.heads, t.largest);
     },
     [](const DecoderConfig& c) { return fmt::to_string(c.head_dim); }},
    {"attention.value_length", "v_head_dim",
     [](const DecoderConfig& c, const TensorLimits&) { return c.value_dim == c.head_dim; },
     [](const DecoderConfig& c, const TensorLimits&) {
       return fmt::format("the size of the keys, {}", c.head_dim);
     },
     [](const DecoderConfig& c) { return fmt::to_string(c.value_dim); }},
    {"rope.dimension_count", "partial_rotary_factor",
     [](const DecoderConfig& c, const TensorLimits&) {
       return c.rotary_dim >= 2 && c.rotary_dim % 2 == 0 && c.rotary_dim <= c.head_dim;
     },
     [](const DecoderConfig& c, const TensorLimits&) {
       return fmt::format("an even number of lanes, 2 to the head size {}", c.head_dim);
     },
     [](const DecoderConfig& c) { return fmt::to_string(c.rotary_dim); }},
    RLX_NUMBER_RULE("attention.scale", "query_pre_attn_scalar", attention_scale,
                    "a scale of the scores above 0", v > 0.0),
    RLX_INTEGER_RULE("attention.sliding_window", "sliding_window", window, 0, kMaxInt),
    {"attention.sliding_window_pattern", "layer_types",
     [](const DecoderConfig& c, const TensorLimits&) {
       return static_cast<std::int64_t>(c.windowed.size()) == c.layers;
     },
     [](const DecoderConfig& c, const TensorLimits&) {
       return fmt::format("an entry for each of the {} layers", c.layers);
     },
     [](const DecoderConfig& c) { return fmt::format("{} entries", c.windowed.size()); }},
};

// Of families with recurrent layers. Each size is one of a tensor's, so none is above the largest.
const Rule kSsmRules[] = {
    RLX_INTEGER_RULE("ssm.inner_size", "intermediate_size", ssm.inner, 1, t.largest),
    RLX_INTEGER_RULE("ssm.state_size", "state_size", ssm.states, 1, t.largest),
    RLX_INTEGER_RULE("ssm.conv_kernel", "conv_kernel", ssm.taps, 2, t.largest),
    RLX_INTEGER_RULE("ssm.time_step_rank", "time_step_rank", ssm.rank, 0, t.largest),
    RLX_INTEGER_RULE("ssm.time_step_rank", "num_heads", ssm.heads, 0, t.largest),
    RLX_INTEGER_RULE("ssm.group_count", "n_groups", ssm.groups, 1, t.largest),
    RLX_NUMBER_RULE("ssm.time_step_limit", "time_step_limit", ssm.dt_min, "numbers, 0 <= low <= high",
                    v >= 0.0 && v <= c.ssm.dt_max),
    RLX_NUMBER_RULE("ssm.inner_norm_epsilon", "mixer_rms_eps", ssm.inner_eps, "a number above 0",
                    v > 0.0 && v < 1.0),
};

/// The same for one RopeConfig of the two.
struct RopeRule {
  std::string_view gguf_key, hub_key;
  bool (*holds)(const RopeConfig&, const DecoderConfig&);
  std::string_view expected;
  std::string (*found)(const RopeConfig&);
};

#define RLX_ROPE_RULE(gguf, hub, field, text, condition)                  \
  RopeRule {                                                              \
    gguf, hub,                                                            \
        [](const RopeConfig& r, const DecoderConfig&) {                   \
          const auto v = static_cast<double>(r.field);                    \
          return std::isfinite(v) && (condition);                         \
        },                                                                \
        text, [](const RopeConfig& r) { return fmt::to_string(r.field); } \
  }

bool factors_fit(const RopeConfig& r, const std::vector<float>& factors, const DecoderConfig& c) {
  if (r.scaling != RopeScaling::longrope) return true;
  return static_cast<std::int64_t>(factors.size()) == c.rotary_dim / 2 &&
         std::all_of(factors.begin(), factors.end(),
                     [](float f) { return std::isfinite(f) && f > 0.0f; });
}

const RopeRule kRopeRules[] = {
    RLX_ROPE_RULE("rope.freq_base", "rope_theta", base, "a number above 1", v > 1.0),
    RLX_ROPE_RULE("rope.scaling.factor", "rope_parameters.factor", factor, "a number above 0",
                  v > 0.0),
    RLX_ROPE_RULE("rope.scaling.original_context_length",
                  "rope_parameters.original_max_position_embeddings", original_context,
                  "a number of tokens", v >= 0.0 && v <= kMaxInt),
    RLX_ROPE_RULE("rope.scaling.yarn_beta_fast", "rope_parameters.beta_fast", beta_fast,
                  "a number above 0", v > 0.0),
    RLX_ROPE_RULE("rope.scaling.yarn_beta_slow", "rope_parameters.beta_slow", beta_slow,
                  "a number above 0", v > 0.0),
    RLX_ROPE_RULE("rope.scaling.yarn_log_multiplier", "rope_parameters.mscale", mscale,
                  "a number, 0 or above", v >= 0.0),
    RLX_ROPE_RULE("rope.scaling.yarn_log_multiplier", "rope_parameters.mscale_all_dim",
                  mscale_all_dim, "a number, 0 or above", v >= 0.0),
    RLX_ROPE_RULE("rope.scaling.low_freq_factor", "rope_parameters.low_freq_factor",
                  low_freq_factor, "a number above 0", v > 0.0),
    RLX_ROPE_RULE("rope.scaling.high_freq_factor", "rope_parameters.high_freq_factor",
                  high_freq_factor, "a number above low_freq_factor", v > r.low_freq_factor),
    {"rope.scaling.attn_factor", "rope_parameters.attention_factor",
     [](const RopeConfig& r, const DecoderConfig&) {
       return !r.attention_factor ||
              (std::isfinite(*r.attention_factor) && *r.attention_factor > 0.0);
     },
     "a number above 0",
     [](const RopeConfig& r) { return fmt::to_string(r.attention_factor.value_or(0.0)); }},
    {"rope_factors_short.weight", "rope_parameters.short_factor",
     [](const RopeConfig& r, const DecoderConfig& c) { return factors_fit(r, r.short_factor, c); },
     "a number above 0 for each pair of rotary lanes",
     [](const RopeConfig& r) { return fmt::format("{}", r.short_factor); }},
    {"rope_factors_long.weight", "rope_parameters.long_factor",
     [](const RopeConfig& r, const DecoderConfig& c) { return factors_fit(r, r.long_factor, c); },
     "a number above 0 for each pair of rotary lanes",
     [](const RopeConfig& r) { return fmt::format("{}", r.long_factor); }},
};

void check_rope(const DecoderConfig& c, const RopeConfig& rope) {
  for (const RopeRule& rule : kRopeRules)
    if (!rule.holds(rope, c))
      fail(ErrorCode::format, "{}: expected {}, found {}", key_text(c, rule.gguf_key, rule.hub_key),
           rule.expected, rule.found(rope));
}

template <std::size_t N>
void check_rules(const Rule (&rules)[N], const DecoderConfig& c, const TensorLimits& limits) {
  for (const Rule& rule : rules)
    if (!rule.holds(c, limits))
      fail(ErrorCode::format, "{}: expected {}, found {}", key_text(c, rule.gguf_key, rule.hub_key),
           rule.expected(c, limits), rule.found(c));
}

}  // namespace

std::string key_text(const DecoderConfig& c, std::string_view gguf_key, std::string_view hub_key) {
  if (c.format == ConfigFormat::hub) return fmt::format("{}: {}", c.file, hub_key);
  return fmt::format("{}: {}.{}", c.file, c.key_prefix, gguf_key);
}

TensorLimits TensorLimits::of(const WeightSource& weights) {
  TensorLimits limits;
  for (const std::string& name : weights.names()) {
    ++limits.tensors;
    for (const std::int64_t d : weights.find(name)->shape)
      limits.largest = std::max(limits.largest, d);
  }
  limits.largest = std::min(limits.largest, kMaxInt);
  return limits;
}

void validate_counts(const DecoderConfig& config, const TensorLimits& limits) {
  check_rules(kCountRules, config, limits);
  if (!config.attention_free) check_rules(kHeadRules, config, limits);
}

void validate(const DecoderConfig& config, const TensorLimits& limits) {
  validate_counts(config, limits);
  check_rules(kRules, config, limits);
  if (config.attention_free) return check_rules(kSsmRules, config, limits);
  check_rules(kAttentionRules, config, limits);
  check_rope(config, config.rope);
  check_rope(config, config.local_rope);
}

Act activation_named(std::string_view name, const std::string& place) {
  struct Name {
    std::string_view name;
    Act act;
  };
  static constexpr Name kNames[] = {
      {"silu", Act::silu},          {"swish", Act::silu}, {"gelu_pytorch_tanh", Act::gelu_tanh},
      {"gelu_new", Act::gelu_tanh}, {"gelu", Act::gelu},  {"relu", Act::relu}};
  std::string known;
  for (const Name& n : kNames) {
    if (n.name == name) return n.act;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", n.name);
  }
  fail(ErrorCode::unsupported, "{}: expected one of {}, found \"{}\"", place, known, name);
}

Act activation_of(const DecoderConfig& config) {
  return activation_named(config.activation, key_text(config, "hidden_activation", "hidden_act"));
}

}  // namespace rlx
