#include "flow/flow.h"

#include <utility>

#include "base/error.h"

namespace rlx {

void fail_missing(const std::string& stage, std::string_view what, std::string_view provider) {
  fail(ErrorCode::invalid_argument,
       "the stage \"{}\" needs {}, which the stage \"{}\" gives: none stands before it", stage,
       what, provider);
}

Value FlowState::pop_residual(const FlowCtx& ctx) {
  if (residuals.empty()) fail_missing(ctx.stage(), "a saved residual", "residual_save");
  const Value v = residuals.back();
  residuals.pop_back();
  return v;
}

std::string ModelFlow::path(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : fmt::format("{}.{}", prefix_, name);
}

ModelFlow& ModelFlow::profile(CompileProfile profile) {
  profile_ = std::move(profile);
  return *this;
}

ModelFlow& ModelFlow::input(std::string name, Shape shape) {
  return stage("input", [name = std::move(name), shape](FlowCtx& ctx, FlowState& state) {
    state.inputs.set(name, ctx.input(name, shape));
  });
}

ModelFlow& ModelFlow::stage(std::string_view name, FlowStage run) {
  steps_.push_back({path(name), std::move(run), {}});
  return *this;
}

ModelFlow& ModelFlow::layer(std::string_view name, const std::function<void(ModelFlow&)>& body) {
  std::string outer = std::exchange(prefix_, path(name));
  body(*this);
  prefix_ = std::move(outer);
  return *this;
}

ModelFlow& ModelFlow::repeat_layers(std::int64_t n,
                                    const std::function<void(ModelFlow&, std::int64_t)>& body) {
  for (std::int64_t i = 0; i < n; ++i)
    layer(fmt::format("layers.{}", i), [&](ModelFlow& flow) { body(flow, i); });
  return *this;
}

ModelFlow& ModelFlow::when(bool condition, const std::function<void(ModelFlow&)>& body) {
  if (condition) body(*this);
  return *this;
}

ModelFlow& ModelFlow::output(std::string name) {
  steps_.push_back({path("output"), nullptr, std::move(name)});
  return *this;
}

BuiltModel ModelFlow::build(const WeightSource& weights) const {
  FlowCtx ctx(name_, weights);
  FlowState state;
  std::vector<Output> outputs;
  for (const Step& step : steps_) {
    ctx.set_stage(step.origin);
    if (step.run) {
      step.run(ctx, state);
    } else {
      outputs.push_back({step.output, state.hidden.need(ctx)});
    }
  }
  if (outputs.empty())
    fail(ErrorCode::invalid_argument, "the flow \"{}\" has no output stage", name_);
  outputs.insert(outputs.end(), state.results.begin(), state.results.end());
  BuiltModel model = ctx.finish(std::move(outputs));
  model.info.architecture = name_;
  model.profile = profile_;
  return model;
}

BuiltModel ModelFlow::build(std::shared_ptr<const WeightSource> weights) const {
  BuiltModel model = build(*weights);
  model.weights = std::move(weights);
  return model;
}

}  // namespace rlx
