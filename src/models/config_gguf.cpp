// Config of a decoder from the metadata of a GGUF file.
#include <cmath>
#include <string>

#include "base/error.h"
#include "models/architecture.h"

namespace rlx {
namespace {

/// Reads the keys of one architecture: "llama.block_count".
class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture) : file_(file), prefix_(architecture) {}
  std::string key(std::string_view name) const { return fmt::format("{}.{}", prefix_, name); }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const {
    return file_.get_int(key(name)).value_or(otherwise);
  }
  double number(std::string_view name, double otherwise) const {
    return file_.get_float(key(name)).value_or(otherwise);
  }
  std::optional<double> number(std::string_view name) const { return file_.get_float(key(name)); }
  std::string text(std::string_view name, std::string_view otherwise) const {
    return std::string(file_.get_string(key(name)).value_or(otherwise));
  }
  std::int64_t required(std::string_view name) const {
    const std::optional<std::int64_t> v = file_.get_int(key(name));
    if (!v)
      fail(ErrorCode::format, "{}: {}: expected an integer, found none", file_.path(), key(name));
    return *v;
  }

 private:
  const GgufFile& file_;
  std::string_view prefix_;
};

RopeScaling scaling_of(const GgufFile& file, const Keys& keys, const WeightSource& weights) {
  const std::string kind = keys.text("rope.scaling.type", "");
  if (kind == "linear") return RopeScaling::linear;
  if (kind == "yarn") return RopeScaling::yarn;
  if (kind == "longrope") return RopeScaling::longrope;
  if (kind == "none") return RopeScaling::none;
  if (!kind.empty())
    fail(ErrorCode::unsupported, "{}: {}: expected none, linear, yarn or longrope, found \"{}\"",
         file.path(), keys.key("rope.scaling.type"), kind);
  if (weights.find("rope_factors_long.weight")) return RopeScaling::longrope;
  return keys.number("rope.scale_linear", 1.0) > 1.0 ? RopeScaling::linear : RopeScaling::none;
}

std::vector<float> stored_floats(const WeightSource& weights, std::string_view key) {
  const WeightRef* w = weights.find(key);
  if (!w || w->dtype != DType::f32) return {};
  std::vector<float> values(w->data.size() / sizeof(float));
  __builtin_memcpy(values.data(), w->data.data(), values.size() * sizeof(float));
  return values;
}

RopeConfig read_rope(const GgufFile& file, const Keys& keys, const WeightSource& weights,
                     std::int64_t context) {
  RopeConfig r;
  r.scaling = scaling_of(file, keys, weights);
  r.base = keys.number("rope.freq_base", r.base);
  r.original_context = keys.integer("rope.scaling.original_context_length", 0);
  r.attention_factor = keys.number("rope.scaling.yarn_attn_factor");
  if (!r.attention_factor) r.attention_factor = keys.number("rope.scaling.attn_factor");
  r.mscale_all_dim = keys.number("rope.scaling.yarn_log_multiplier", 0.0);
  if (r.mscale_all_dim != 0.0)
    r.mscale = 1.0;  // the key's definition: the ratio of a plain term to this one
  r.beta_fast = keys.number("rope.scaling.yarn_beta_fast", r.beta_fast);
  r.beta_slow = keys.number("rope.scaling.yarn_beta_slow", r.beta_slow);
  r.short_factor = stored_floats(weights, "rope_factors_short.weight");
  r.long_factor = stored_floats(weights, "rope_factors_long.weight");
  const bool extended = r.original_context > 0 &&
                        (r.scaling == RopeScaling::longrope || r.scaling == RopeScaling::yarn);
  const double implied =
      extended ? static_cast<double>(context) / static_cast<double>(r.original_context) : 1.0;
  // Files older than rope.scaling.factor name the factor of linear scaling rope.scale_linear.
  r.factor = keys.number("rope.scaling.factor", r.scaling == RopeScaling::linear
                                                    ? keys.number("rope.scale_linear", 1.0)
                                                    : implied);
  return r;
}

void read_attention(const Keys& keys, DecoderConfig& c) {
  c.inner = keys.required("feed_forward_length");
  c.kv_heads = keys.integer("attention.head_count_kv", c.heads);
  c.head_dim = keys.integer("attention.key_length", c.hidden / c.heads);
  c.value_dim = keys.integer("attention.value_length", c.head_dim);
  c.rotary_dim = keys.integer("rope.dimension_count", c.head_dim);
}

std::int64_t vocab_of(const Keys& keys, const WeightSource& weights) {
  const WeightRef* table = weights.find("token_embd.weight");
  return keys.integer("vocab_size", table && table->shape.size() == 2 ? table->shape[0] : 0);
}

}  // namespace

DecoderConfig read_config(const Architecture& family, const GgufFile& file,
                          const WeightSource& weights) {
  DecoderConfig c;
  c.architecture = family.name;
  c.file = file.path();
  c.format = ConfigFormat::gguf;
  c.key_prefix = std::string(file.get_string("general.architecture").value_or(""));
  c.name = std::string(file.get_string("general.name").value_or(""));
  const Keys keys(file, c.key_prefix);
  if (const std::int64_t parts = file.get_int("split.count").value_or(1); parts > 1)
    fail(ErrorCode::unsupported,
         "{}: split.count: expected a whole model in one file, found one of {} parts", c.file,
         parts);
  const TensorLimits limits = TensorLimits::of(weights);

  c.attention_free = family.attention_free;
  c.layers = keys.required("block_count");
  c.hidden = keys.required("embedding_length");
  if (!c.attention_free) c.heads = keys.required("attention.head_count");
  validate_counts(c, limits);
  if (!c.attention_free) read_attention(keys, c);
  c.context = keys.required("context_length");
  c.vocab = vocab_of(keys, weights);
  c.experts = keys.integer("expert_count", 0);
  c.eps = keys.number("attention.layer_norm_rms_epsilon", c.eps);
  c.activation = keys.text("hidden_activation", "silu");
  c.qkv_bias = weights.find("blk.0.attn_q.bias") != nullptr;
  c.out_bias = weights.find("blk.0.attn_output.bias") != nullptr;
  c.mlp_bias = weights.find("blk.0.ffn_gate.bias") != nullptr;
  c.tied = weights.find("output.weight") == nullptr;
  c.attention_scale = keys.number("attention.scale", 0.0);
  c.final_softcap = keys.number("final_logit_softcapping", 0.0);
  c.windowed.assign(static_cast<std::size_t>(c.layers), false);
  if (!c.attention_free) c.rope = read_rope(file, keys, weights, c.context);
  family.read_gguf(file, weights, c);
  c.act = activation_of(c);
  if (c.attention_scale == 0.0 && c.head_dim > 0)
    c.attention_scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  validate(c, limits);
  return c;
}

}  // namespace rlx
