// The compiler's times by google-benchmark, over the number of layers: how they grow, which `rlx bench compiler` does
// not say. Usage: compiler_bench [--benchmark_filter=Template]
#include <benchmark/benchmark.h>

#include "compiler/inspection.h"
#include "ir/stage.h"
#include "runtime/backends.h"
#include "runtime/model_pipeline.h"
#include "runtime/synthetic_decoder.h"

namespace {

using namespace rlx;

DimBinding rows_binding(std::int64_t rows) {
  return DimBinding{{sym::rows, rows}, {sym::out_rows, 1}, {sym::batch, 1}};
}

struct Compiled {
  SyntheticDecoder decoder;
  CompileResult result;
  explicit Compiled(std::int64_t layers)
      : decoder(SyntheticShape{layers}),
        result(compile(decoder.build().graph, CompileOptions{}, find_backend(Device::cpu()))) {}
};

void Hir(benchmark::State& state) {
  const SyntheticDecoder decoder(SyntheticShape{state.range(0)});
  for (auto _ : state) benchmark::DoNotOptimize(decoder.build());
  state.counters["weight_bytes"] = static_cast<double>(decoder.touched_bytes());
  state.SetComplexityN(state.range(0));
}
BENCHMARK(Hir)->RangeMultiplier(2)->Range(8, 128)->Unit(benchmark::kMillisecond)->Complexity();

void Template(benchmark::State& state) {
  const SyntheticDecoder decoder(SyntheticShape{state.range(0)});
  for (auto _ : state) {
    ModelCompilePipeline pipeline(Device::cpu());
    pipeline.build_template(HirSource([&] { return decoder.build(); }), CompileOptions{});
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(Template)->RangeMultiplier(2)->Range(8, 128)->Unit(benchmark::kMillisecond)->Complexity();

void Specialize(benchmark::State& state) {
  const Compiled compiled(state.range(0));
  std::int64_t rows = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(specialize(*compiled.result.lir.program, rows_binding(1 + rows++ % 500), {1, 8192}));
  state.SetComplexityN(state.range(0));
}
BENCHMARK(Specialize)->RangeMultiplier(2)->Range(8, 128)->Unit(benchmark::kMicrosecond)->Complexity();

void NewSize(benchmark::State& state) {
  const SyntheticDecoder decoder(SyntheticShape::narrow(state.range(0)));
  const HirSource source(digest("decoder"), [&] { return decoder.build(); });
  ModelCompilePipeline pipeline(Device::cpu());
  std::uint64_t rows = 1;
  pipeline.get_or_compile(Digest{0, 1}, rows_binding(1), source, {});
  for (auto _ : state) {
    pipeline.get_or_compile(Digest{rows, 2}, rows_binding(static_cast<std::int64_t>(1 + rows % 500)), source, {});
    ++rows;
  }
}
BENCHMARK(NewSize)->Arg(32)->Unit(benchmark::kMicrosecond);

void Hit(benchmark::State& state) {
  const SyntheticDecoder decoder(SyntheticShape::narrow(32));
  const HirSource source(digest("decoder"), [&] { return decoder.build(); });
  ModelCompilePipeline pipeline(Device::cpu());
  const CompileOptions options;
  const DimBinding binding = rows_binding(1);
  for (auto _ : state) benchmark::DoNotOptimize(pipeline.get_or_compile(Digest{1, 1}, binding, source, options));
}
BENCHMARK(Hit);

void VariantKey(benchmark::State& state) {
  const ModelVariant variant = ModelVariant::decode(1, 64, 1);
  for (auto _ : state) benchmark::DoNotOptimize(variant.cache_key());
}
BENCHMARK(VariantKey);

void ComponentKey(benchmark::State& state) {
  const ModelComponent component(ModelVariant::decode(1, 64, 1));
  for (auto _ : state) benchmark::DoNotOptimize(component.cache_key());
}
BENCHMARK(ComponentKey);

void ExecutableKey(benchmark::State& state) {
  const ModelComponent component(ModelVariant::decode(1, 64, 1));
  TemplateIdentity identity;
  identity.symbols = {sym::rows, sym::out_rows, sym::batch};
  identity.device = "cpu";
  identity.features = find_backend(Device::cpu()).features();
  for (auto _ : state) benchmark::DoNotOptimize(component.executable_key(identity));
}
BENCHMARK(ExecutableKey);

void Verify(benchmark::State& state) {
  const Compiled compiled(state.range(0));
  for (auto _ : state) verify(*compiled.result.mir, "bench");
  // As a time: what 100 nodes take.
  const double nodes = static_cast<double>(compiled.result.mir->nodes().size());
  state.counters["per_100_nodes"] =
      benchmark::Counter(nodes / 100, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(Verify)->Arg(32)->Unit(benchmark::kMicrosecond);

void ArenaOverBound(benchmark::State& state) {
  const Compiled compiled(32);
  const Graph graph = compiled.decoder.build().graph;
  const DimBinding sizes[] = {rows_binding(state.range(0))};
  double ratio = 0;
  for (auto _ : state) {
    const InspectedVariant v = inspect(graph, compiled.result, sizes, {1, 8192}).variants.at(0);
    ratio = static_cast<double>(v.arena_bytes) / static_cast<double>(v.arena_bound);
  }
  state.counters["ratio"] = ratio;
}
BENCHMARK(ArenaOverBound)->Arg(1)->Arg(64)->Arg(512)->Iterations(1);

}  // namespace
