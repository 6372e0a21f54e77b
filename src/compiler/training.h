// What a training step is made of besides grad(): a loss and an optimiser, as ordinary ops.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace rlx {

/// The mean over rows of -log softmax(logits)[target], in nats: f32[1]. logits: f32[rows, classes]; targets:
/// i32[rows], each from 0 to classes - 1 (a row with another target counts as 0).
Value cross_entropy(Builder& b, Value logits, Value targets);

/// AdamW (https://arxiv.org/abs/1711.05101, algorithm 2 with the schedule in the learning rate).
struct AdamW {
  float beta1 = 0.9f, beta2 = 0.999f, eps = 1e-8f, weight_decay = 0.01f;
};
/// The values of a parameter and its two moments after a step; each f32 in the parameter's shape.
struct AdamWStep {
  Value parameter, first, second;
};
/// `schedule`: f32[3], what adamw_schedule() gives.
AdamWStep adamw(Builder& b, const AdamW& op, AdamWStep before, Value gradient, Value schedule);
/// Learning rate, 1 / (1 - beta1^step) and 1 / (1 - beta2^step) for step 1, 2, ...
/// Errors: invalid_argument (a step below 1, a beta outside [0, 1)).
Tensor adamw_schedule(const AdamW& op, float learning_rate, std::int64_t step);

/// A graph of one training step made from a graph with a loss. `trained` names its inputs that are trained: for each
/// NAME the step has the further inputs "adamw.first.NAME" and "adamw.second.NAME" and the outputs "next.NAME",
/// "next.adamw.first.NAME" and "next.adamw.second.NAME"; "adamw.schedule" is one more input. The outputs of the graph
/// stay the first ones. Errors: as grad() (compiler/grad.h); invalid_argument (a trained input that is not f32, an
/// output of the graph whose name begins with "next.").
Graph training_step(Graph graph, const std::string& loss, const std::vector<std::string>& trained,
                    const AdamW& op = {});

/// The inputs and outputs of a step that carry state from one step to the next.
struct TrainedValues {
  std::vector<NamedTensor> values;  ///< parameters and moments, under the names of the inputs
  /// Takes the "next." outputs of a step. Error(invalid_argument): others than those of the values, in their order.
  void advance(std::vector<NamedTensor>& outputs);
};
/// The parameters as given and moments of zeros.
TrainedValues start_training(std::vector<NamedTensor> parameters);

}  // namespace rlx
