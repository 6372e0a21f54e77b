// A model as a flow, with a stage of one's own between built-in blocks: a gate on the residual stream.
#include <rlx/rlx.h>

#include <cstdio>
#include <memory>

namespace {

constexpr std::int64_t kHidden = 8, kInner = 16;

// What a built-in block may do, a stage may: read slots of the state, declare params, emit any op.
rlx::FlowStage gated_residual(std::string gate) {
  return [gate](rlx::FlowCtx& ctx, rlx::FlowState& state) {
    const rlx::Value hidden = state.hidden.need(ctx), saved = state.pop_residual(ctx);
    const rlx::Value weight = ctx.load_vector(gate, kHidden);
    state.hidden.set(ctx.hir()(rlx::Add{}, saved, ctx.hir()(rlx::Mul{}, hidden, weight)));
  };
}

rlx::FlowStage read_input(std::string name) {
  return [name](rlx::FlowCtx& ctx, rlx::FlowState& state) { state.hidden.set(state.inputs.need(ctx, name)); };
}

}  // namespace

int main() {
  auto weights = std::make_shared<rlx::WeightMap>("example");
  for (const char* layer : {"0", "1"}) {
    const std::string prefix = std::string("layers.") + layer + ".";
    weights->add(prefix + "norm", {kHidden}, std::vector<float>(kHidden, 1.0f));
    weights->add(prefix + "gate", {kHidden}, std::vector<float>(kHidden, 0.5f));
    for (const char* name : {"mlp.gate", "mlp.up"})
      weights->add(prefix + name, {kInner, kHidden}, std::vector<float>(kInner * kHidden, 0.1f));
    weights->add(prefix + "mlp.down", {kHidden, kInner}, std::vector<float>(kInner * kHidden, 0.1f));
  }

  rlx::ModelFlow flow("gated");
  flow.input("x", rlx::Shape({rlx::Dim(rlx::sym::rows), kHidden}, rlx::DType::f32))
      .stage("read", read_input("x"))
      .repeat_layers(2,
                     [](rlx::ModelFlow& layer, std::int64_t i) {
                       const std::string p = "layers." + std::to_string(i) + ".";
                       rlx::MlpSpec mlp;
                       mlp.hidden = kHidden;
                       mlp.inner = kInner;
                       mlp.act = rlx::Act::silu;
                       mlp.gate = p + "mlp.gate";
                       mlp.up = p + "mlp.up";
                       mlp.down = p + "mlp.down";
                       layer.stage("residual_save", rlx::residual_save())
                           .stage("norm", rlx::rms_norm({.weight = p + "norm", .size = kHidden}))
                           .stage("mlp", rlx::gated_mlp(mlp))
                           .stage("gated_residual", gated_residual(p + "gate"));
                     })
      .output("y");
  const rlx::BuiltModel model = flow.build(weights);
  std::printf("%lld parameters\n", static_cast<long long>(model.info.parameters));

  rlx::Session session(rlx::Device::cpu());
  const auto graph = session.compile(rlx::HirSource([&] { return model; }), {}, {{rlx::sym::rows, 4}});
  rlx::Tensor x = rlx::Tensor::zeros({1, kHidden});
  for (float& v : x.mutable_as<float>()) v = 1.0f;
  const auto out = graph->run({{"x", x}});
  std::printf("y[0] = %.4f\n", static_cast<double>(out[0].tensor.as<float>()[0]));

  // A flow that lacks a stage says which one.
  try {
    rlx::ModelFlow("broken").stage("gated_residual", gated_residual("g")).output("y").build(weights);
  } catch (const rlx::Error& e) {
    std::printf("%s\n", e.what());
  }
  return 0;
}
