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

/// What a model computes. decoder: next tokens. encoder: hidden rows of token sequences. vision: hidden rows of images.
/// seq2seq: an encoder, and a decoder that attends to its rows.
enum class ModelKind : std::uint8_t { decoder, encoder, vision, seq2seq };
constexpr std::string_view name(ModelKind kind) {
  constexpr std::string_view names[] = {"decoder", "encoder", "vision", "seq2seq"};
  return names[static_cast<std::size_t>(kind)];
}

/// How a decoder keeps what it has seen. state: in a paged cache, a state of the graph (the default). functional:
/// past keys and values come in and present ones go out, as tensors. functional_masked: the same with an input "mask"
/// that is added to the scores.
enum class DecodeForm : std::uint8_t { state, functional, functional_masked };
constexpr std::string_view name(DecodeForm form) {
  constexpr std::string_view names[] = {"state", "functional", "functional_masked"};
  return names[static_cast<std::size_t>(form)];
}

/// Facts of a model, validated when it was built. What a kind does not have is 0.
struct ModelInfo {
  std::string architecture;  ///< "llama", "gemma3", "bert", ...
  ModelKind kind = ModelKind::decoder;
  DecodeForm form = DecodeForm::state;  ///< of a decoder
  std::string name;          ///< as the file says, may be empty
  std::int64_t vocab = 0, hidden = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t inner = 0;         ///< of the MLP
  std::int64_t context = 0;       ///< tokens the model was trained for; 0: no limit of its own
  std::int64_t token_types = 0;   ///< rows of the segment embedding
  std::int64_t channels = 0, image_height = 0, image_width = 0;  ///< pixels that a vision model takes; 0: of any size
  std::int64_t image_rows = 0;    ///< hidden rows of an image, its patches and class token; 0: by its size
  std::int64_t start_token = 0;   ///< what the targets of a seq2seq model begin with
  std::int64_t parameters = 0;    ///< count of weight elements
  std::int64_t weight_bytes = 0;  ///< in the checkpoint
};

/// Inputs of the graph of an encoder: tokens[rows], seq_start[batch + 1] and, where the model has such embeddings,
/// positions[rows] and token_types[rows], all i32. Of a vision model: pixels f32[batch, channels, height, width] and,
/// where it looks at rows of one image together, seq_start i32[batch + 1]. Outputs: "last_hidden_state"
/// f32[rows, hidden]; with a pooler "pooler_output" f32[batch, hidden]. The decoder of a seq2seq model: tokens[rows],
/// seq_start[batch + 1], source f32[source_rows, hidden] (the encoder's rows), source_start[batch + 1],
/// out_rows[out_rows]; output "logits" f32[out_rows, vocab].
///
/// Inputs of every graph of a decoder that generates (all i32): tokens[rows], positions[rows], seq_start[batch + 1],
/// past[batch], slot[batch], out_rows[out_rows]. States: "pages" (the page table), "kv.0" ..
/// "kv.N-1". Output: "logits" f32[out_rows, vocab].
///
/// In functional form it has no states, and a step is `seq` new tokens for each of `batch` sequences, each behind
/// `past_seq` tokens. Inputs: tokens i32[batch * seq], positions i32[batch * seq], out_rows i32[out_rows], past_k.L and
/// past_v.L f32[batch, kv_heads, past_seq, head_dim] of each layer L, and with a mask "mask" f32[seq, past_seq + seq].
/// Outputs: logits, then present_k.L and present_v.L f32[batch, kv_heads, past_seq + seq, head_dim].
struct BuiltModel {
  Graph graph;                                  ///< HIR
  std::vector<ModelParam> params;               ///< in the order of the graph's Param nodes
  std::shared_ptr<const WeightSource> weights;  ///< keeps the data alive
  ModelInfo info;
  CompileProfile profile;                       ///< how it wants to be compiled
  std::vector<std::string> unused;  ///< tensors of the checkpoint that no node reads
};

}  // namespace rlx
