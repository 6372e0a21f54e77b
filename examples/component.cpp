// The model pipeline: one symbolic template, executables per size of the work, found by a component's key.
#include <rlx/rlx.h>

#include <cstdio>

int main() {
  // A two-layer perceptron over any number of rows. The callable runs once per look-up; with an id it would run once.
  const auto make = [] {
    rlx::HirModule hir("mlp");
    const rlx::Value x = hir.input("x", rlx::Shape({rlx::Dim(rlx::sym::rows), 64}, rlx::DType::f32));
    const rlx::Value up = hir.linear(x, hir.param("mlp.up", rlx::Shape({64, 256}, rlx::DType::f32)));
    const rlx::Value hidden = hir(rlx::Activation{.act = rlx::Act::silu}, up);
    hir.set_outputs({hir.linear(hidden, hir.param("mlp.down", rlx::Shape({256, 64}, rlx::DType::f32)))});
    return hir;
  };

  rlx::ModelCompilePipeline pipeline(rlx::Device::cpu());
  for (const std::int64_t rows : {1, 16, 1}) {
    // What to specialise, and how the result is found again.
    const rlx::ModelComponent component(rlx::ModelVariant::encoder(1, rows));
    const auto graph = pipeline.get_or_compile_component(component, make, {});
    graph->set_param("mlp.up", rlx::Tensor::zeros({64, 256}));
    graph->set_param("mlp.down", rlx::Tensor::zeros({256, 64}));
    const auto out = graph->run({{"x", rlx::Tensor::zeros({rows, 64})}});
    std::printf("%s: %s\n", component.variant().text().c_str(), out[0].tensor.text().c_str());
  }
  const rlx::PipelineStatistics s = pipeline.statistics();
  std::printf("templates %lld, compiled %lld, found again %lld\n", static_cast<long long>(s.templates),
              static_cast<long long>(s.misses), static_cast<long long>(s.hits));

  std::printf("%s", pipeline.get_or_compile_component(rlx::ModelComponent(rlx::ModelVariant::encoder(1, 16)), make, {})
                        ->manifest()
                        .text()
                        .c_str());
  return 0;
}
