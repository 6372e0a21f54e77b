// The values of a sample, and a sample run by the oracle.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/sample.h"
#include "ops/interpret.h"

namespace rlx {

/// One tensor for each operand, the same for the same seed on every machine. In place of a kv state
/// its content before the call: f32[2, tokens of all slots, kv_heads, head_dim], keys before
/// values, slot after slot. In place of the page table: i32[slots, pages per slot]; of a recurrent
/// state: f32[slots, dims of one slot].
std::vector<Tensor> materialize(const Sample& sample, std::uint64_t seed);

/// A graph of the sample's op alone. Sources are called as the op's operands ("x", "w", or
/// "operand4" where the op has no name), outputs "y0", "y1", ...
Graph sample_graph(const OpDef& def, const Sample& sample);

/// The oracle on one sample: made once, run as often as wanted; states go on from run to run.
class SampleOracle {
 public:
  SampleOracle(const OpDef& def, const Sample& sample, std::span<const Tensor> values);
  /// Errors: those of Interpreter::run.
  void run();
  /// As run_sample() gives them.
  std::vector<Tensor> results() const;

 private:
  InterpreterState state_;
  std::vector<NamedTensor> inputs_, outputs_;
  std::string cache_;  // the state of the sample
  std::vector<ShapeKind> kinds_;
  std::optional<Interpreter> interpreter_;
};

/// The results of the oracle. In place of a kv state its content after the call, as
/// InterpreterState::export_cache gives it: f32[2, slots, pages per slot * 64, kv_heads, head_dim],
/// zeros where no token is. In place of a recurrent state: f32[slots, dims of one slot].
std::vector<Tensor> run_sample(const OpDef& def, const Sample& sample, std::span<const Tensor> values);

}  // namespace rlx
