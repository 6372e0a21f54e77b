// What a flow builds: the symbolic graph, its weights by reference, and the facts that a session
// needs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flow/weight_source.h"
#include "ir/graph.h"
#include "ir/profile.h"

namespace rlx {

/// A param of the graph and the bytes behind it. `owned` holds the data of params that the flow
/// made (RoPE frequencies) or widened (vectors that are not stored in f32). A transposed param has
/// the stored tensor with its two axes exchanged. A joined param has the rows of several tensors, one
/// after the other: `weight` says name, dtype and shape of the whole and has no data.
struct ModelParam {
  std::string name;  ///< of the Param node
  WeightRef weight;
  std::shared_ptr<const std::vector<float>> owned;
  bool transposed = false;
  std::vector<WeightRef> parts = {};  ///< of a joined param, else none

  /// What is stored: the parts, or the one tensor.
  std::span<const WeightRef> stored() const {
    return parts.empty() ? std::span<const WeightRef>(&weight, 1) : parts;
  }
  std::int64_t stored_bytes() const {
    std::int64_t sum = 0;
    for (const WeightRef& w : stored()) sum += static_cast<std::int64_t>(w.data.size());
    return sum;
  }
};

/// Facts of a decoder, validated when the model was built.
struct ModelInfo {
  std::string architecture;  ///< "llama", "gemma3", ...
  std::string name;          ///< as the file says, may be empty
  std::int64_t vocab = 0, hidden = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t context = 0;       ///< tokens the model was trained for
  std::int64_t parameters = 0;    ///< count of weight elements
  std::int64_t weight_bytes = 0;  ///< in the checkpoint
};

/// Inputs of every decoder graph (all i32): tokens[rows], positions[rows], seq_start[batch + 1],
/// past[batch], slot[batch], out_rows[out_rows]. States: "pages" (the page table), "kv.0" ..
/// "kv.N-1". Output: "logits" f32[out_rows, vocab].
struct BuiltModel {
  Graph graph;                                  ///< HIR
  std::vector<ModelParam> params;               ///< in the order of the graph's Param nodes
  std::shared_ptr<const WeightSource> weights;  ///< keeps the data alive
  ModelInfo info;
  CompileProfile profile;                       ///< how it wants to be compiled
  std::vector<std::string> unused;  ///< tensors of the checkpoint that no node reads
};

}  // namespace rlx
