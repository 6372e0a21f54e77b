#include "models/encoder.h"

#include "base/error.h"

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

Act ConfigFields::activation(FieldName field, std::string name) const {
  DecoderConfig named;  // activation_of reads its place and its activation only
  named.format = stored() ? ConfigFormat::gguf : ConfigFormat::hub;
  named.activation = std::move(name);
  try {
    return activation_of(named);
  } catch (const Error& e) {
    const std::string_view what = e.what();
    const std::size_t at = what.find("expected");
    fail(ErrorCode::unsupported, "{}: {}", place(field), what.substr(at == std::string_view::npos ? 0 : at));
  }
}

void check_heads(const ConfigFields& fields, FieldName name, std::int64_t heads, std::int64_t hidden) {
  if (hidden % heads != 0)
    fail(ErrorCode::format, "{}: expected a divisor of the hidden size {}, found {}", fields.place(name), hidden,
         heads);
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

void fill_info(ModelInfo& info, const FamilyInput& in, ModelKind kind) {
  info.architecture = in.family.name;
  info.kind = kind;
  info.name = in.hub != nullptr ? in.hub->text("_name_or_path").value_or("")
                                : std::string(in.gguf->get_string("general.name").value_or(""));
}

}  // namespace rlx
