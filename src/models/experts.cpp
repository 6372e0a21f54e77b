#include "models/experts.h"

#include <algorithm>

#include "base/error.h"

namespace rlx {
namespace {

Scoring gating_of(std::int64_t code, const std::string& key, const DecoderConfig& c) {
  switch (code) {
    case 1:
      return Scoring::softmax;
    case 2:
      return Scoring::sigmoid;
    case 3:
      return Scoring::softmax_selected;
    default:
      fail(ErrorCode::unsupported,
           "{}: {}: expected 1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen), found {}",
           c.file, key, code);
  }
}

}  // namespace

void read_gguf_experts(const GgufFile& file, const WeightSource& weights, DecoderConfig& c) {
  if (c.experts <= 0) return;
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", c.key_prefix, name); };
  const auto integer = [&](std::string_view name, std::int64_t otherwise) {
    return file.get_int(key(name)).value_or(otherwise);
  };
  const std::optional<std::int64_t> used = file.get_int(key("expert_used_count"));
  if (!used || *used < 1 || *used > c.experts)
    fail(ErrorCode::format, "{}: {}: expected 1 to {} ({}), found {}", c.file,
         key("expert_used_count"), c.experts, key("expert_count"),
         used ? std::to_string(*used) : "none");
  MoeConfig& m = c.moe;
  m.used = *used;
  m.inner = integer("expert_feed_forward_length", c.inner);
  m.scoring = gating_of(integer("expert_gating_func", 1), key("expert_gating_func"), c);
  m.normalize = file.get_bool(key("expert_weights_norm")).value_or(m.normalize);
  const double factor = file.get_float(key("expert_weights_scale")).value_or(0.0);
  m.factor = factor == 0.0 ? 1.0 : factor;
  m.shared_inner = integer("expert_shared_feed_forward_length", 0);
  // 0 in files of models without groups.
  m.groups = std::max<std::int64_t>(integer("expert_group_count", 1), 1);
  m.group_limit = std::max<std::int64_t>(integer("expert_group_used_count", 1), 1);
  for (std::int64_t i = 0; i < c.layers; ++i)
    m.sparse.push_back(weights.find(fmt::format("blk.{}.ffn_gate_inp.weight", i)) != nullptr);
}

std::vector<bool> sparse_layers(const HubConfig& hub, const DecoderConfig& c) {
  const std::int64_t step = hub.integer("decoder_sparse_step").value_or(1);
  if (step < 1)
    fail(ErrorCode::format, "{}: decoder_sparse_step: expected 1 or more, found {}", c.file, step);
  const std::vector<std::int64_t> dense = hub.integers("mlp_only_layers");
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < c.layers; ++i)
    sparse.push_back(c.experts > 0 && (i + 1) % step == 0 &&
                     std::find(dense.begin(), dense.end(), i) == dense.end());
  return sparse;
}

void read_hub_experts(const HubConfig& hub, DecoderConfig& c) {
  if (!hub.has("num_local_experts")) c.experts = hub.required_integer("num_experts");
  if (c.experts == 0) return;
  c.moe.used = hub.required_integer("num_experts_per_tok");
  c.moe.inner = hub.required_integer("moe_intermediate_size");
  c.moe.normalize = hub.flag("norm_topk_prob").value_or(false);
  c.moe.sparse = sparse_layers(hub, c);
}

}  // namespace rlx
