#include "compiler/training.h"

#include <cmath>

#include "base/error.h"
#include "compiler/grad.h"
#include "ir/rewrite.h"
#include "ops/arithmetic.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

constexpr std::string_view kNext = "next.", kFirst = "adamw.first.", kSecond = "adamw.second.";

std::string joined(std::string_view a, std::string_view b) { return std::string(a) + std::string(b); }

// One value of the schedule, of a rank that broadcasts to every parameter.
Value scheduled(Builder& b, Value schedule, int i) {
  return b(Slice{.axis = 0, .start = i, .stop = i + 1}, schedule);
}

// A name that no source has is for grad() to report.
void check_trainable(const Graph& graph, const std::vector<std::string>& trained) {
  for (const Output& o : graph.outputs())
    if (o.name.starts_with(kNext))
      fail(ErrorCode::invalid_argument, "training step: output \"{}\": expected none whose name begins with \"{}\"",
           o.name, kNext);
  for (const std::string& name : trained)
    if (const Value v = graph.find_source(name); v && graph.shape(v).dtype != DType::f32)
      fail(ErrorCode::invalid_argument, "training step: \"{}\": expected a parameter of f32, found {}", name,
           graph.shape(v).text());
}

}  // namespace

Value cross_entropy(Builder& b, Value logits, Value targets) {
  const Shape shape = b.shape(logits);
  const Dim rows = shape.dim(0), classes = shape.dim(1);
  const Value logs = b(LogSoftmax{}, logits);
  const Value hot = b(Compare{.relation = Relation::eq}, b(Reshape{.dims = {rows, 1}}, targets),
                      b(Iota{.dims = {1, classes}, .axis = 1}));
  const Value zero = b(Full{.dims = {1, 1}});
  const Value picked = b(Reduce{}, b(Where{}, hot, logs, zero));
  const Value mean = b(Reduce{.kind = Reduction::mean, .axis = 0, .keep_dims = true}, picked);
  return b(Scale{.factor = -1.0f}, mean);
}

AdamWStep adamw(Builder& b, const AdamW& op, AdamWStep before, Value g, Value schedule) {
  const auto mixed = [&](Value old, Value now, float keep) {
    return b(Add{}, b(Scale{.factor = keep}, old), b(Scale{.factor = 1.0f - keep}, now));
  };
  const Value first = mixed(before.first, g, op.beta1), second = mixed(before.second, b(Mul{}, g, g), op.beta2);
  const Value mean = b(Mul{}, first, scheduled(b, schedule, 1));
  const Value spread = b(Unary{.fn = UnaryFunction::sqrt}, b(Mul{}, second, scheduled(b, schedule, 2)));
  const Value direction = b(Div{}, mean, b(Add{}, spread, b(Full{.dims = {1}, .value = op.eps})));
  const Value decayed = b(Add{}, direction, b(Scale{.factor = op.weight_decay}, before.parameter));
  return {b(Sub{}, before.parameter, b(Mul{}, decayed, scheduled(b, schedule, 0))), first, second};
}

Tensor adamw_schedule(const AdamW& op, float learning_rate, std::int64_t step) {
  if (step < 1) fail(ErrorCode::invalid_argument, "adamw: step: expected at least 1, found {}", step);
  const auto correction = [&](float beta) {
    if (!(beta >= 0.0f && beta < 1.0f))
      fail(ErrorCode::invalid_argument, "adamw: beta1 and beta2: expected values in [0, 1), found {}", beta);
    return static_cast<float>(1.0 / (1.0 - std::pow(double{beta}, static_cast<double>(step))));
  };
  const float values[] = {learning_rate, correction(op.beta1), correction(op.beta2)};
  return Tensor::from({3}, std::span<const float>(values));
}

Graph training_step(Graph graph, const std::string& loss, const std::vector<std::string>& trained, const AdamW& op) {
  const std::vector<std::string> outputs_of_loss = {loss};
  const std::vector<Output> own(graph.outputs().begin(), graph.outputs().end());
  check_trainable(graph, trained);
  graph = grad(std::move(graph), outputs_of_loss, trained);
  const std::vector<Output> all(graph.outputs().begin(), graph.outputs().end());
  std::vector<Output> outputs(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own.size()));
  Builder b(graph);
  b.set_origin("adamw");
  const Value schedule = b.input("adamw.schedule", Shape({3}, DType::f32));
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const std::string& name = trained[i];
    const Value parameter = graph.find_source(name);
    const Shape shape = graph.shape(parameter);
    const AdamWStep before{parameter, b.input(joined(kFirst, name), shape), b.input(joined(kSecond, name), shape)};
    const AdamWStep after = adamw(b, op, before, all[own.size() + i].value, schedule);
    outputs.push_back({joined(kNext, name), after.parameter});
    outputs.push_back({joined(kNext, joined(kFirst, name)), after.first});
    outputs.push_back({joined(kNext, joined(kSecond, name)), after.second});
  }
  graph.set_outputs(std::move(outputs));
  drop_dead(graph);
  return graph;
}

void TrainedValues::advance(std::vector<NamedTensor>& outputs) {
  std::size_t next = 0;
  for (NamedTensor& o : outputs) {
    if (!o.name.starts_with(kNext)) continue;
    if (next == values.size() || o.name.substr(kNext.size()) != values[next].name)
      fail(ErrorCode::invalid_argument, "training: output \"{}\": expected {}", o.name,
           next == values.size() ? "no further one" : "\"" + joined(kNext, values[next].name) + "\"");
    values[next++].tensor = std::move(o.tensor);
  }
  if (next < values.size())
    fail(ErrorCode::invalid_argument, "training: expected an output \"{}\"", joined(kNext, values[next].name));
}

TrainedValues start_training(std::vector<NamedTensor> parameters) {
  TrainedValues trained;
  for (NamedTensor& p : parameters) {
    const std::vector<std::int64_t> dims = p.tensor.dims();
    const std::string name = p.name;
    trained.values.push_back(std::move(p));
    trained.values.push_back({joined(kFirst, name), Tensor::zeros(dims)});
    trained.values.push_back({joined(kSecond, name), Tensor::zeros(dims)});
  }
  return trained;
}

}  // namespace rlx
