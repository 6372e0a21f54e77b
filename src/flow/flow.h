// How a model is written: a list of named stages over shared slots (compiler.md, section 11).
// models/decoder.cpp holds an example: pre_norm_decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "flow/flow_ctx.h"
#include "flow/flow_state.h"

namespace rlx {

/// A stage emits nodes through the context and hands values on in the state. Built-in blocks are
/// functions that return one; a custom stage is a lambda with the same powers.
using FlowStage = std::function<void(FlowCtx&, FlowState&)>;

class ModelFlow {
 public:
  explicit ModelFlow(std::string name) : name_(std::move(name)) {}

  /// How the model wants to be compiled; what the caller's options fix wins.
  ModelFlow& profile(CompileProfile profile);
  /// A per-step input of the graph; stages find it in FlowState::inputs.
  ModelFlow& input(std::string name, Shape shape);
  /// A stage; its nodes have the origin "prefix.name", the prefix being the layers around it.
  ModelFlow& stage(std::string_view name, FlowStage run);
  /// Stages under a prefix: what `body` adds has origins "name.*".
  ModelFlow& layer(std::string_view name, const std::function<void(ModelFlow&)>& body);
  /// `body(flow, i)` for i = 0 .. n - 1, each under the prefix "layers.i".
  ModelFlow& repeat_layers(std::int64_t n,
                           const std::function<void(ModelFlow&, std::int64_t)>& body);
  /// What `body` adds, when the condition holds.
  ModelFlow& when(bool condition, const std::function<void(ModelFlow&)>& body);
  /// The hidden state at this point becomes a result of the graph.
  ModelFlow& output(std::string name);

  /// Runs the stages. Errors: invalid_argument (a stage needs what no earlier stage made, both
  /// named; a flow without output); shape (missing or wrong tensors, up to ten named; sizes that
  /// disagree, with the stage).
  BuiltModel build(std::shared_ptr<const WeightSource> weights) const;
  /// The same over a source that the caller keeps alive as long as the model.
  BuiltModel build(const WeightSource& weights) const;

 private:
  struct Step {
    std::string origin;
    FlowStage run;
    std::string output;  ///< of an output step: the name of the result
  };

  std::string path(std::string_view name) const;

  std::string name_;
  CompileProfile profile_;
  std::string prefix_;
  std::vector<Step> steps_;
};

}  // namespace rlx
