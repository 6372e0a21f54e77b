#include "models/architecture.h"

#include <limits>

#include "base/error.h"
#include "models/load.h"

namespace rlx {
namespace {

/// Where a hub checkpoint keeps its decoder: alone, inside a model with images (two styles), or
/// without a head.
std::string hub_prefix(const Architecture& family, const WeightSource& weights) {
  for (const std::string_view prefix :
       {"model.", "language_model.model.", "model.language_model.", "backbone.", ""}) {
    const TensorNames names(family.tensors, ConfigFormat::hub, std::string(prefix));
    if (weights.find(names.weight("embedding"))) return std::string(prefix);
  }
  return "model.";
}

}  // namespace

std::string TensorNames::name(std::string_view role, std::int64_t layer) const {
  for (const TensorName& row : table_) {
    if (row.role != role) continue;
    const bool hub = format_ == ConfigFormat::hub;
    std::string text(hub ? row.hub : row.gguf);
    if (const std::size_t at = text.find("{}"); at != std::string::npos)
      text.replace(at, 2, std::to_string(layer));
    if (!hub) return text;
    // A leading slash: beside the decoder, not inside it.
    if (!text.starts_with('/')) return prefix_ + text;
    return (prefix_ == "language_model.model." ? "language_model." : "") + text.substr(1);
  }
  RLX_CHECK(false, fmt::format("no tensor has the role {}", role));
  return {};
}

BuiltModel build_decoder(const Architecture& family, const DecoderConfig& config,
                         std::shared_ptr<const WeightSource> weights, std::int64_t context,
                         DecodeForm form) {
  if (form != DecodeForm::state && family.attention_free)
    fail(ErrorCode::unsupported,
         "{}: the {} form passes keys and values of attention in and out; {} keeps recurrent states and has the state "
         "form only",
         weights->origin(), name(form), family.name);
  if (context < 0 || context > std::numeric_limits<std::int32_t>::max())
    fail(ErrorCode::invalid_argument,
         "the context of a session: expected 0 (the model's own) or a number of tokens, found {}",
         context);
  const std::string prefix =
      config.format == ConfigFormat::hub ? hub_prefix(family, *weights) : std::string();
  const TensorNames names(family.tensors, config.format, prefix);
  const FlowInput in{config, names, context > 0 ? context : config.context, form};
  BuiltModel model = family.flow(in).build(std::move(weights));
  ModelInfo& info = model.info;
  info.name = config.name;
  info.vocab = config.vocab;
  info.hidden = config.hidden;
  info.layers = config.layers;
  info.heads = config.heads;
  info.kv_heads = config.kv_heads;
  info.head_dim = config.head_dim;
  info.inner = config.inner;
  info.context = config.context;
  info.form = form;
  return model;
}

void load_decoder(const FamilyInput& in, LoadedModel& loaded) {
  loaded.config = in.hub != nullptr ? read_config(in.family, *in.hub, *in.weights)
                                    : read_config(in.family, *in.gguf, *in.weights);
  loaded.model = build_decoder(in.family, loaded.config, in.weights, in.context, in.form);
}

}  // namespace rlx
