// Config of a decoder from config.json: the newest style (`rope_parameters`, `dtype`) and the older
// one (`rope_theta`, `rope_scaling`).
#include <cmath>
#include <string>

#include "base/error.h"
#include "models/architecture.h"
#include "models/hub_rope.h"

namespace rlx {
namespace {

RopeScaling scaling_of(const HubConfig& rope) {
  const std::string kind = rope.text("rope_type").value_or(rope.text("type").value_or("default"));
  if (kind == "default") return RopeScaling::none;
  if (kind == "su") return RopeScaling::longrope;
  for (std::size_t i = 1; i < kRopeScalingNames.size(); ++i)
    if (kRopeScalingNames[i] == kind) return static_cast<RopeScaling>(i);
  fail(ErrorCode::unsupported,
       "{}: rope_type: expected default, linear, dynamic, yarn, llama3 or longrope, found \"{}\"",
       rope.file(), kind);
}

double required_number(const HubConfig& rope, std::string_view key) {
  const std::optional<double> v = rope.number(key);
  if (!v)
    fail(ErrorCode::format, "{}: {} of the RoPE parameters: expected a number, found none",
         rope.file(), key);
  return *v;
}

/// What the RoPE types with a scaling have in common; `context` is max_position_embeddings.
void read_scaling(const HubConfig& hub, const HubConfig& rope, std::int64_t context,
                  RopeConfig& r) {
  // HF transformers gives a value beside the RoPE parameters (Phi 3) priority over one inside.
  r.original_context = hub.integer("original_max_position_embeddings")
                           .value_or(rope.integer("original_max_position_embeddings").value_or(0));
  const bool implied = (r.scaling == RopeScaling::yarn || r.scaling == RopeScaling::longrope) &&
                       r.original_context > 0;
  if (implied && !rope.has("factor")) {
    r.factor = static_cast<double>(context) / static_cast<double>(r.original_context);
  } else {
    r.factor = required_number(rope, "factor");
  }
  r.attention_factor = rope.number("attention_factor");
  r.mscale = rope.number("mscale").value_or(0.0);
  r.mscale_all_dim = rope.number("mscale_all_dim").value_or(0.0);
  r.beta_fast = rope.number("beta_fast").value_or(r.beta_fast);
  r.beta_slow = rope.number("beta_slow").value_or(r.beta_slow);
  r.truncate = rope.flag("truncate").value_or(true);
  if (r.scaling == RopeScaling::llama3) {
    r.low_freq_factor = required_number(rope, "low_freq_factor");
    r.high_freq_factor = required_number(rope, "high_freq_factor");
  }
  if (r.scaling == RopeScaling::longrope) {
    r.short_factor = rope.numbers("short_factor").value_or(std::vector<float>{});
    r.long_factor = rope.numbers("long_factor").value_or(std::vector<float>{});
  }
}

void read_attention(const HubConfig& hub, DecoderConfig& c) {
  c.kv_heads = hub.integer("num_key_value_heads").value_or(c.heads);
  c.head_dim = hub.integer("head_dim").value_or(c.hidden / c.heads);
  c.value_dim = c.head_dim;
  const std::optional<HubConfig> rope = hub.object("rope_parameters");
  const std::optional<double> inside = rope ? rope->number("partial_rotary_factor") : std::nullopt;
  const double part = inside.value_or(hub.number("partial_rotary_factor").value_or(1.0));
  c.rotary_dim = part > 0.0 && part <= 1.0
                     ? static_cast<std::int64_t>(static_cast<double>(c.head_dim) * part)
                     : 0;
  const bool bias = hub.flag("attention_bias").value_or(false);
  c.qkv_bias = bias;
  c.out_bias = bias;
  c.mlp_bias = hub.flag("mlp_bias").value_or(false);
}

}  // namespace

RopeConfig read_hub_rope(const HubConfig& hub, std::string_view layer_type, std::int64_t context) {
  RopeConfig r;
  r.base = hub.number("rope_theta").value_or(r.base);
  std::optional<HubConfig> rope = hub.object("rope_parameters");
  if (rope && !layer_type.empty() && rope->has(layer_type)) rope = rope->object(layer_type);
  if (!rope) rope = hub.object("rope_scaling");
  if (!rope) return r;
  r.base = rope->number("rope_theta").value_or(r.base);
  r.scaling = scaling_of(*rope);
  if (r.scaling != RopeScaling::none) read_scaling(hub, *rope, context, r);
  return r;
}

std::vector<bool> read_layer_types(const HubConfig& hub, std::int64_t layers,
                                   bool (*by_rule)(const HubConfig&, std::int64_t)) {
  std::vector<bool> windowed;
  if (const std::optional<std::vector<std::string>> types = hub.texts("layer_types")) {
    for (const std::string& type : *types) {
      if (type != "sliding_attention" && type != "full_attention")
        fail(ErrorCode::unsupported,
             "{}: layer_types: expected sliding_attention or full_attention, found \"{}\"",
             hub.file(), type);
      windowed.push_back(type == "sliding_attention");
    }
    return windowed;
  }
  for (std::int64_t i = 0; i < layers; ++i) windowed.push_back(by_rule(hub, i));
  return windowed;
}

void read_upper_window(const HubConfig& hub, DecoderConfig& config) {
  if (!hub.flag("use_sliding_window").value_or(false)) return;
  config.window = hub.integer("sliding_window").value_or(0);
  if (config.window == 0) return;
  config.windowed =
      read_layer_types(hub, config.layers, [](const HubConfig& h, std::int64_t layer) {
        return layer >= h.integer("max_window_layers").value_or(0);
      });
}

DecoderConfig read_config(const Architecture& family, const HubConfig& top,
                          const WeightSource& weights) {
  DecoderConfig c;
  c.architecture = family.name;
  c.file = top.file();
  if (top.has("quantization_config"))
    fail(ErrorCode::unsupported,
         "{}: quantization_config: expected weights in f32, f16 or bf16, found a quantised "
         "checkpoint",
         c.file);
  c.name = top.text("_name_or_path").value_or("");
  // A model with images nests its decoder; what the decoder leaves out has the family's defaults.
  const HubConfig hub = top.object("text_config").value_or(top).over(family.hub_defaults);
  const TensorLimits limits = TensorLimits::of(weights);

  c.attention_free = family.attention_free;
  c.layers = hub.required_integer("num_hidden_layers");
  c.hidden = hub.required_integer("hidden_size");
  if (!c.attention_free) c.heads = hub.required_integer("num_attention_heads");
  validate_counts(c, limits);
  if (!c.attention_free) c.inner = hub.required_integer("intermediate_size");
  c.vocab = hub.required_integer("vocab_size");
  c.context = hub.required_integer("max_position_embeddings");
  c.experts = hub.integer("num_local_experts").value_or(0);
  c.eps = hub.number("rms_norm_eps").value_or(c.eps);
  c.activation = hub.text("hidden_act").value_or("silu");
  c.tied = hub.flag("tie_word_embeddings").value_or(false);
  if (!c.attention_free) read_attention(hub, c);
  c.windowed.assign(static_cast<std::size_t>(c.layers), false);
  if (!c.attention_free) c.rope = read_hub_rope(hub, "full_attention", c.context);
  family.read_hub(hub, c);
  c.act = activation_of(c);
  if (c.attention_scale == 0.0 && c.head_dim > 0)
    c.attention_scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
  validate(c, limits);
  return c;
}

}  // namespace rlx
