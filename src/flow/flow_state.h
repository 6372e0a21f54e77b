// The typed slots that stages of a flow share. Reading a slot that no earlier stage filled is an
// Error that names both stages.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flow/flow_ctx.h"
#include "ops/attention.h"

namespace rlx {

/// Error(invalid_argument): `stage` needs `what`, which `provider` gives.
[[noreturn]] void fail_missing(const std::string& stage, std::string_view what,
                               std::string_view provider);

template <typename T>
class Slot {
 public:
  /// `provider` is the stage that fills the slot, for messages.
  constexpr Slot(std::string_view what, std::string_view provider)
      : what_(what), provider_(provider) {}
  void set(T value) { value_ = std::move(value); }
  bool has() const { return value_.has_value(); }
  const T& need(const FlowCtx& ctx) const {
    if (!value_) fail_missing(ctx.stage(), what_, provider_);
    return *value_;
  }

 private:
  std::string_view what_, provider_;
  std::optional<T> value_;
};

/// Values by name, each filled by one kind of stage.
template <typename T>
class NamedSlots {
 public:
  constexpr NamedSlots(std::string_view what, std::string_view provider)
      : what_(what), provider_(provider) {}
  void set(std::string name, T value) {
    values_.insert_or_assign(std::move(name), std::move(value));
  }
  bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  const T& need(const FlowCtx& ctx, std::string_view name) const {
    const auto it = values_.find(name);
    if (it == values_.end())
      fail_missing(ctx.stage(), std::string(what_) + " \"" + std::string(name) + "\"", provider_);
    return it->second;
  }

 private:
  std::string_view what_, provider_;
  std::map<std::string, T, std::less<>> values_;
};

/// Rotary frequencies as a param f32[rotary_dim / 2], and how they are applied.
struct RopeSlot {
  Value inv_freq;
  std::int64_t rotary_dim = 0;
  float magnitude = 1.0f;
  RopeStyle style = RopeStyle::half;
};

/// What attention of a decoder in functional form reads instead of a cache (compiler.md, section 11). cos and sin are
/// those of `positions` and of the table in FlowState::rope, which layers choose: models with local layers have two.
struct DecodeBindings {
  struct Past {
    Value k, v;  ///< f32[batch, kv_heads, past_seq, head_dim]
  };
  Value positions;         ///< i32[batch * seq]
  Value q_start, k_start;  ///< i32[batch + 1]: where each sequence's new rows begin, and its keys
  Value mask = {};         ///< f32[1, past_seq + seq, past_seq + seq] added to the scores; optional
  std::vector<Past> past;  ///< by layer
};

struct FlowState {
  Slot<Value> hidden{"the hidden state",
                     "token_embedding"};  ///< f32[rows, hidden]; what a stage leaves for the next
  Slot<Value> embedding{"the embedding weight", "token_embedding"};  ///< for tied heads
  std::vector<Value> residuals;  ///< residual_save pushes, residual_add pops
  NamedSlots<RopeSlot> rope{"the RoPE frequencies", "rope_frequencies"};
  Slot<DecodeBindings> decode{"the decode bindings", "decode_bindings"};  ///< filled: the functional form
  NamedSlots<Value> delta{"the operand of a gated delta net",
                          "gated_delta_inputs"};  ///< q, k, v, z, g, beta
  NamedSlots<Value> inputs{"the input", "input"};  ///< declared by ModelFlow::input
  NamedSlots<Value> streams{"the stream",
                            "save_stream"};  ///< values beside the hidden state ("img", "txt")
  NamedSlots<Value> nodes{"the node", "name_node"};  ///< values that a custom stage named

  std::vector<Output> results;  ///< of the graph, behind those of ModelFlow::output

  /// The last saved residual, taken off the stack.
  Value pop_residual(const FlowCtx& ctx);
};

}  // namespace rlx
