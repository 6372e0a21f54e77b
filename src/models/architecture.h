// What a family of models gives: its names, the names of its tensors, and how a checkpoint becomes a model. Decoders
// share one reader of configs and give what is special in theirs; other kinds bring a reader of their own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flow/flow.h"
#include "formats/gguf.h"
#include "models/config.h"
#include "models/hub_config.h"

namespace rlx {

/// A tensor's name in both formats, without ".weight" or ".bias"; {} stands for the layer.
struct TensorName {
  std::string_view role, hub, gguf;
};

/// The names that a checkpoint uses, by role.
class TensorNames {
 public:
  TensorNames(std::span<const TensorName> table, ConfigFormat format, std::string prefix)
      : table_(table), format_(format), prefix_(std::move(prefix)) {}
  std::string weight(std::string_view role, std::int64_t layer = 0) const {
    return name(role, layer) + ".weight";
  }
  std::string bias(std::string_view role, std::int64_t layer = 0) const {
    return name(role, layer) + ".bias";
  }
  std::string name(std::string_view role, std::int64_t layer = 0) const;

 private:
  std::span<const TensorName> table_;
  ConfigFormat format_;
  std::string prefix_;  ///< before a hub name: "model."
};

/// What a flow is made from, besides the tensors' data.
struct FlowInput {
  const DecoderConfig& config;
  const TensorNames& names;
  std::int64_t session = 0;  ///< tokens that the session holds at most
  DecodeForm form = DecodeForm::state;
};

/// Up to eight names, in the table of a family.
struct NameList {
  std::array<std::string_view, 8> names;
  const std::string_view* begin() const { return names.data(); }
  const std::string_view* end() const { return std::find(begin(), begin() + names.size(), std::string_view()); }
};

struct LoadedModel;
struct Architecture;

/// A checkpoint of a family: exactly one of `hub` and `gguf`.
struct FamilyInput {
  const Architecture& family;
  const HubConfig* hub = nullptr;  ///< config.json
  const GgufFile* gguf = nullptr;
  std::shared_ptr<const WeightSource> weights;
  std::int64_t context = 0;  ///< BuildOptions::context
  DecodeForm form = DecodeForm::state;
};

/// Reads, validates and builds a decoder: config and model of `loaded`. Errors as read_config and build_decoder.
void load_decoder(const FamilyInput& in, LoadedModel& loaded);

struct Architecture {
  std::string_view name;          ///< of the family
  NameList gguf;                  ///< general.architecture
  NameList classes;               ///< config.json: architectures
  NameList model_types;           ///< config.json: model_type, when there are no architectures
  std::string_view hub_defaults;  ///< JSON: what a config.json of this family may leave out
  std::span<const TensorName> tensors;
  bool attention_free = false;  ///< no heads, no RoPE: recurrent layers only
  /// Of decoders: what differs from the common reading of the format; counts are checked before.
  void (*read_gguf)(const GgufFile& file, const WeightSource& weights, DecoderConfig& config) = nullptr;
  void (*read_hub)(const HubConfig& hub, DecoderConfig& config) = nullptr;
  ModelFlow (*flow)(const FlowInput& in) = nullptr;
  /// From a checkpoint to the graphs and facts of `loaded`; the rest of it is the same for all families (load.cpp).
  void (*load)(const FamilyInput& in, LoadedModel& loaded) = load_decoder;
};

extern const Architecture kLlama, kMistral, kQwen2, kQwen3, kGemma3, kQwen2Moe, kQwen3Moe, kMixtral, kMamba, kMamba2;
extern const Architecture kBert, kVit, kResnet, kT5;

/// All families (all.cpp).
std::span<const Architecture* const> all_architectures();
/// By general.architecture, or by `architectures` (else `model_type`) of config.json;
/// Error(unsupported) that lists the known ones.
const Architecture& architecture_of_gguf(const GgufFile& file);
const Architecture& architecture_of_hub(const HubConfig& hub);

/// Reads and validates the config of a file.
DecoderConfig read_config(const Architecture& family, const GgufFile& file,
                          const WeightSource& weights);
DecoderConfig read_config(const Architecture& family, const HubConfig& hub,
                          const WeightSource& weights);

/// Builds the model. `context`: tokens of the session, 0: the model's own. Errors as
/// ModelFlow::build; format (RoPE divisors that are not above 0); unsupported (another form than `state` of a family
/// without attention).
BuiltModel build_decoder(const Architecture& family, const DecoderConfig& config,
                         std::shared_ptr<const WeightSource> weights, std::int64_t context,
                         DecodeForm form = DecodeForm::state);

}  // namespace rlx
