// What the families beside decoders share: reading a config field by field from either format, each with its bounds,
// and names of checkpoints.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "flow/blocks/layer_norm.h"
#include "models/architecture.h"

namespace rlx {

/// The key of a field in both formats; the GGUF key stands without the architecture's prefix. Empty: the format has
/// none.
struct FieldName {
  std::string_view hub, gguf;
};

struct FieldBounds {
  std::int64_t least = 1, most = INT32_MAX;
};

/// Reads the config of a checkpoint. Errors (format): "FILE: KEY: expected E, found F" for a value that is missing, of
/// another type or outside its bounds.
class ConfigFields {
 public:
  explicit ConfigFields(const FamilyInput& in);

  bool stored() const { return in_.gguf != nullptr; }  ///< a GGUF file
  std::string place(FieldName name) const;             ///< "FILE: KEY"
  std::int64_t count(FieldName name, FieldBounds bounds = {}, std::optional<std::int64_t> otherwise = {}) const;
  /// A number that must be above 0 and below 1.
  float epsilon(FieldName name, double otherwise) const;
  std::optional<std::string> text(FieldName name) const;
  bool flag(FieldName name, bool otherwise) const;
  /// One size for both axes, or [height, width] (config.json).
  std::pair<std::int64_t, std::int64_t> height_width(FieldName name, std::int64_t otherwise) const;
  /// The activation called `name`, as the field says. Error(unsupported) that lists the known ones.
  Act activation(FieldName field, std::string_view name) const;

  /// Layers are bounded by the tensors there are, heads by the largest tensor, so that no loop or table grows by a
  /// number alone.
  FieldBounds layers() const { return {1, limits_.tensors}; }
  FieldBounds heads() const { return {1, limits_.largest}; }

 private:
  const FamilyInput& in_;
  std::string prefix_;  ///< of GGUF keys: "bert."
  TensorLimits limits_;
};

/// What the configs of BERT and its kin have in common.
struct EncoderSizes {
  std::int64_t hidden = 0, inner = 0, layers = 0, heads = 0;
  float eps = 1e-12f;
  Act act = Act::gelu;
  std::int64_t head_dim() const { return hidden / heads; }
};
/// Errors: those of ConfigFields; format (heads that do not divide the hidden size).
EncoderSizes read_encoder_sizes(const ConfigFields& fields);

/// The family's tensors by name: with the first of the prefixes under which the weight of `role` is stored, else with
/// the first of all (what is missing is then named by it). GGUF names have no prefix.
TensorNames names_of(const FamilyInput& in, std::string_view role, std::initializer_list<std::string_view> prefixes);

/// The layer norm of a role. Checkpoints of the first BERT releases call weight and bias gamma and beta.
FlowStage encoder_norm(const FamilyInput& in, const std::string& name, std::int64_t size, float eps);

/// Self-attention of a layer with the roles wq, wk, wv and wo; `qkv_bias`: whether the first three have biases.
FlowStage encoder_self_attention(const TensorNames& names, const EncoderSizes& sizes, std::int64_t layer,
                                 bool qkv_bias);
/// The MLP of a layer with the roles up and down.
FlowStage encoder_mlp(const TensorNames& names, const EncoderSizes& sizes, std::int64_t layer);
/// The stage and the result of the role `pooler`, where the checkpoint has it.
void add_pooler(ModelFlow& flow, const FamilyInput& in, const TensorNames& names, std::int64_t hidden);

/// Facts that every family fills in; `in` gives the name.
void fill_info(ModelInfo& info, const FamilyInput& in, ModelKind kind);
/// The same with the sizes.
void fill_info(ModelInfo& info, const FamilyInput& in, ModelKind kind, const EncoderSizes& sizes);

}  // namespace rlx
