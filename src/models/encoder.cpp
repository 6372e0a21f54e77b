#include "models/encoder.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "flow/blocks/encoder_attention.h"
#include "flow/blocks/mlp.h"
#include "flow/blocks/pooling.h"

namespace rlx {

ConfigFields::ConfigFields(const FamilyInput& in) : in_(in), limits_(TensorLimits::of(*in.weights)) {
  if (in.gguf != nullptr)
    prefix_ = std::string(in.gguf->get_string("general.architecture").value_or("")) + ".";
  else if (in.hub->has("quantization_config"))
    fail(ErrorCode::unsupported,
         "{}: quantization_config: expected weights in f32, f16 or bf16, found a quantised checkpoint", in.hub->file());
}

std::string ConfigFields::place(FieldName name) const {
  return stored() ? fmt::format("{}: {}{}", in_.gguf->path(), prefix_, name.gguf)
                  : fmt::format("{}: {}", in_.hub->file(), name.hub);
}

std::int64_t ConfigFields::count(FieldName name, FieldBounds bounds, std::optional<std::int64_t> otherwise) const {
  std::optional<std::int64_t> v;
  if (!stored()) v = in_.hub->integer(name.hub);
  if (stored() && !name.gguf.empty()) v = in_.gguf->get_int(prefix_ + std::string(name.gguf));
  if (!v) v = otherwise;
  if (!v) fail(ErrorCode::format, "{}: expected an integer, found none", place(name));
  if (*v < bounds.least || *v > bounds.most)
    fail(ErrorCode::format, "{}: expected {} to {}, found {}", place(name), bounds.least, bounds.most, *v);
  return *v;
}

float ConfigFields::epsilon(FieldName name, double otherwise) const {
  const std::optional<double> v =
      stored() ? in_.gguf->get_float(prefix_ + std::string(name.gguf)) : in_.hub->number(name.hub);
  const double eps = v.value_or(otherwise);
  if (!(eps > 0.0 && eps < 1.0))
    fail(ErrorCode::format, "{}: expected a number above 0 and below 1, found {}", place(name), eps);
  return static_cast<float>(eps);
}

std::optional<std::string> ConfigFields::text(FieldName name) const {
  if (!stored()) return in_.hub->text(name.hub);
  const auto v = in_.gguf->get_string(prefix_ + std::string(name.gguf));
  return v ? std::optional(std::string(*v)) : std::nullopt;
}

bool ConfigFields::flag(FieldName name, bool otherwise) const {
  if (!stored()) return in_.hub->flag(name.hub).value_or(otherwise);
  return name.gguf.empty() ? otherwise : in_.gguf->get_bool(prefix_ + std::string(name.gguf)).value_or(otherwise);
}

std::pair<std::int64_t, std::int64_t> ConfigFields::height_width(FieldName name, std::int64_t otherwise) const {
  const nlohmann::json& json = in_.hub->json();
  const auto list = json.find(std::string(name.hub));
  if (list == json.end() || !list->is_array()) {
    const std::int64_t size = count(name, {1, 1 << 16}, otherwise);
    return {size, size};
  }
  const std::vector<std::int64_t> sizes = in_.hub->integers(name.hub);
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 1 || sizes[0] > 1 << 16 || sizes[1] > 1 << 16)
    fail(ErrorCode::format, "{}: expected a size or [height, width] of 1 to {}, found {}", place(name), 1 << 16,
         list->dump());
  return {sizes[0], sizes[1]};
}

Act ConfigFields::activation(FieldName field, std::string_view name) const {
  return activation_named(name, place(field));
}

EncoderSizes read_encoder_sizes(const ConfigFields& fields) {
  constexpr FieldName kHeads{"num_attention_heads", "attention.head_count"}, kAct{"hidden_act", ""};
  EncoderSizes s;
  s.layers = fields.count({"num_hidden_layers", "block_count"}, fields.layers());
  s.hidden = fields.count({"hidden_size", "embedding_length"});
  s.heads = fields.count(kHeads, fields.heads());
  if (s.hidden % s.heads != 0)
    fail(ErrorCode::format, "{}: expected a divisor of the hidden size {}, found {}", fields.place(kHeads), s.hidden,
         s.heads);
  s.inner = fields.count({"intermediate_size", "feed_forward_length"});
  s.eps = fields.epsilon({"layer_norm_eps", "attention.layer_norm_epsilon"}, 1e-12);
  if (fields.stored()) return s;  // GGUF files of these families have no other activation
  s.act = fields.activation(kAct, fields.text(kAct).value_or("gelu"));
  return s;
}

TensorNames names_of(const FamilyInput& in, std::string_view role, std::initializer_list<std::string_view> prefixes) {
  if (in.gguf != nullptr) return TensorNames(in.family.tensors, ConfigFormat::gguf, {});
  for (const std::string_view prefix : prefixes) {
    TensorNames names(in.family.tensors, ConfigFormat::hub, std::string(prefix));
    if (in.weights->find(names.weight(role))) return names;
  }
  return TensorNames(in.family.tensors, ConfigFormat::hub, std::string(*prefixes.begin()));
}

FlowStage encoder_norm(const FamilyInput& in, const std::string& name, std::int64_t size, float eps) {
  const bool first_releases = !in.weights->find(name + ".weight") && in.weights->find(name + ".gamma");
  return layer_norm({.weight = name + (first_releases ? ".gamma" : ".weight"),
                     .bias = name + (first_releases ? ".beta" : ".bias"),
                     .size = size,
                     .eps = eps});
}

FlowStage encoder_self_attention(const TensorNames& names, const EncoderSizes& sizes, std::int64_t layer,
                                 bool qkv_bias) {
  const auto bias = [&](std::string_view role) { return qkv_bias ? names.bias(role, layer) : std::string(); };
  return encoder_attention({.hidden = sizes.hidden,
                            .heads = sizes.heads,
                            .kv_heads = sizes.heads,
                            .head_dim = sizes.head_dim(),
                            .scale = 1.0f / std::sqrt(static_cast<float>(sizes.head_dim())),
                            .wq = names.weight("wq", layer),
                            .wk = names.weight("wk", layer),
                            .wv = names.weight("wv", layer),
                            .wo = names.weight("wo", layer),
                            .bq = bias("wq"),
                            .bk = bias("wk"),
                            .bv = bias("wv"),
                            .bo = names.bias("wo", layer)});
}

FlowStage encoder_mlp(const TensorNames& names, const EncoderSizes& sizes, std::int64_t layer) {
  return plain_mlp({.hidden = sizes.hidden,
                    .inner = sizes.inner,
                    .act = sizes.act,
                    .up = names.weight("up", layer),
                    .down = names.weight("down", layer),
                    .up_bias = names.bias("up", layer),
                    .down_bias = names.bias("down", layer)});
}

void add_pooler(ModelFlow& flow, const FamilyInput& in, const TensorNames& names, std::int64_t hidden) {
  if (in.weights->find(names.weight("pooler")) == nullptr) return;
  flow.stage("pooler", pool_hidden({.kind = SequencePooling::first,
                                    .weight = names.weight("pooler"),
                                    .bias = names.bias("pooler"),
                                    .hidden = hidden}))
      .output("pooler_output");
}

void fill_info(ModelInfo& info, const FamilyInput& in, ModelKind kind) {
  info.architecture = in.family.name;
  info.kind = kind;
  info.name = in.hub != nullptr ? in.hub->text("_name_or_path").value_or("")
                                : std::string(in.gguf->get_string("general.name").value_or(""));
}

void fill_info(ModelInfo& info, const FamilyInput& in, ModelKind kind, const EncoderSizes& sizes) {
  fill_info(info, in, kind);
  info.hidden = sizes.hidden;
  info.inner = sizes.inner;
  info.layers = sizes.layers;
  info.heads = info.kv_heads = sizes.heads;
  info.head_dim = sizes.head_dim();
}

}  // namespace rlx
