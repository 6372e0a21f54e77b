// Low-rank adapters (LoRA, https://arxiv.org/abs/2106.09685): y = x w^T + scale * (x A^T) B^T beside frozen products.
// Files: safetensors with the names of the PEFT library ("base_model.model.MODULE.lora_A.weight").
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "models/load.h"
#include "tensor/tensor.h"

namespace rlx {

/// The factors of one product, f32: a [rank, in], b [out, rank]. `module` is the product's path in the hub's layout:
/// "model.layers.0.self_attn.q_proj".
struct LoraFactors {
  std::string module;
  Tensor a, b;
};

struct LoraAdapter {
  std::int64_t rank = 0;
  float scale = 1.0f;  ///< alpha / rank; alpha / sqrt(rank) with use_rslora (https://arxiv.org/abs/2312.03732)
  std::vector<LoraFactors> factors;

  /// A safetensors file, or a folder with adapter_model.safetensors and adapter_config.json (`lora_alpha`,
  /// `use_rslora`). The scale of a file comes from its metadata "lora_alpha" (over the rank), else from an
  /// adapter_config.json beside it, else it is 1. Errors: io; format (no pair of factors, a factor without its other
  /// half, ranks that differ, an alpha that is not finite and above 0); unsupported (a config with alpha_pattern,
  /// rank_pattern, fan_in_fan_out or a bias).
  static LoraAdapter read(const std::filesystem::path& path);
  /// Atomic. Errors: io.
  void write(const std::filesystem::path& path) const;
};

/// A product of a model that can have an adapter.
struct LoraTarget {
  std::string param;   ///< its weight in the graph
  std::string module;  ///< in the hub's layout
  std::int64_t out = 0, in = 0;
  /// For GGUF weights whose heads hold adjacent pairs where the hub has halves: the head size; else 0. The rows of b
  /// are exchanged when an adapter is read for such a model.
  std::int64_t paired_head = 0;
};

/// The products of all layers with one of these roles: "q", "k", "v", "o", "gate", "up", "down".
/// Error(invalid_argument): an unknown role, with the nearest.
std::vector<LoraTarget> lora_targets(const LoadedModel& model, std::span<const std::string> roles);

/// Rows of b between the hub's order and that of the model.
Tensor lora_rows_to_model(const LoraTarget& target, const Tensor& b);
Tensor lora_rows_to_hub(const LoraTarget& target, const Tensor& b);

/// How the factors of one param are called in a graph.
struct LoraNames {
  std::string param, a, b;
};
/// The graph with adapters of a rank beside its products. Blocks that hold such products are expanded. `trainable`: the
/// factors are inputs; else params.
Graph with_lora(const Graph& graph, std::span<const LoraNames> names, std::int64_t rank, float scale, bool trainable);

/// Puts an adapter beside the model's products, as params. Errors: invalid_argument (a module that the model lacks,
/// factors of another size).
void apply_lora(LoadedModel& model, const LoraAdapter& adapter);

}  // namespace rlx
