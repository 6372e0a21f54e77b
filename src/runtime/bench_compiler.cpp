#include "runtime/bench_compiler.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>
#include <vector>

#include "base/error.h"
#include "compiler/inspection.h"
#include "ir/stage.h"
#include "runtime/backends.h"
#include "runtime/model_pipeline.h"
#include "runtime/synthetic_decoder.h"

namespace rlx {
namespace {

// Each reads the artefact to its end: half a second for 1 GiB.
constexpr std::int64_t kMostAotStarts = 7;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Sampled {
  double wall = 0, cpu = 0;
};

double thread_us() {
  timespec t = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

/// Median microseconds of f(i); each sample is `batch` calls, for what is shorter than a clock read.
template <typename F>
Sampled sample_us(std::int64_t repetitions, std::int64_t batch, F&& f) {
  using CompilerClock = std::chrono::steady_clock;
  std::vector<double> wall, cpu;
  std::int64_t i = 0;
  f(i++);  // tables that are made on first use
  for (std::int64_t r = 0; r < repetitions; ++r) {
    const double cpu_start = thread_us();
    const auto start = CompilerClock::now();
    for (std::int64_t b = 0; b < batch; ++b) f(i++);
    const auto end = CompilerClock::now();
    cpu.push_back((thread_us() - cpu_start) / static_cast<double>(batch));
    wall.push_back(std::chrono::duration<double, std::micro>(end - start).count() / static_cast<double>(batch));
  }
  return {median_of(std::move(wall)), median_of(std::move(cpu))};
}

template <typename F>
double median_us(std::int64_t repetitions, std::int64_t batch, F&& f) {
  return sample_us(repetitions, batch, std::forward<F>(f)).wall;
}

/// Keeps a result that nothing reads from being left out.
template <typename T>
void keep(const T& value) {
  asm volatile("" : : "r"(&value) : "memory");
}

DimBinding rows_binding(std::int64_t rows, std::int64_t out_rows) {
  return DimBinding{{sym::rows, rows}, {sym::out_rows, out_rows}, {sym::batch, 1}};
}

void bench_template(const CompilerBenchOptions& o, CompilerBench& result) {
  const SyntheticDecoder decoder(SyntheticShape{o.layers});
  const Backend& backend = find_backend(o.device);
  result.hir_ms = median_us(o.repetitions, 1, [&](std::int64_t) { keep(decoder.build()); }) / 1e3;
  const Sampled built = sample_us(o.repetitions, 1, [&](std::int64_t) {
    ModelCompilePipeline pipeline(o.device);
    pipeline.build_template(HirSource([&] { return decoder.build(); }), CompileOptions{});
  });
  result.template_ms = built.wall / 1e3;
  result.template_cpu_ms = built.cpu / 1e3;
  const BuiltModel model = decoder.build();
  const CompileResult compiled = compile(model.graph, CompileOptions{}, backend);
  result.nodes = static_cast<std::int64_t>(compiled.mir->nodes().size());
  result.calls = static_cast<std::int64_t>(compiled.lir.program->calls.size());
  result.place_us = median_us(o.repetitions * 5, 1, [&](std::int64_t i) {
    keep(specialize(*compiled.lir.program, rows_binding(1 + i % 500, 1), {1, 8192}));
  });
  result.verify_us = median_us(o.repetitions * 5, 1, [&](std::int64_t) { verify(*compiled.mir, "bench"); }) * 100 /
                     static_cast<double>(result.nodes);
  std::vector<DimBinding> sizes;
  for (const std::int64_t rows : {1, 8, 64, 512}) {
    sizes.push_back(rows_binding(rows, 1));
    sizes.push_back(rows_binding(rows, rows));
  }
  for (const InspectedVariant& v : inspect(model.graph, compiled, sizes, {1, 8192}).variants)
    result.arena_over_bound =
        std::max(result.arena_over_bound, static_cast<double>(v.arena_bytes) / static_cast<double>(v.arena_bound));
  for (const ModelParam& p : model.params)
    if (p.owned != nullptr && model.weights->find(p.weight.name) != nullptr)
      result.weight_bytes_copied += static_cast<std::int64_t>(p.owned->size() * sizeof(float));
  result.weight_bytes_copied += decoder.touched_bytes();
}

void bench_pipeline(const CompilerBenchOptions& o, CompilerBench& result) {
  const SyntheticDecoder decoder(SyntheticShape::narrow(o.layers));
  const HirSource source(digest("synthetic decoder"), [&] { return decoder.build(); });
  const CompileOptions options;
  ModelCompilePipeline pipeline(o.device);
  std::int64_t next = 1;
  const auto key_of = [](std::int64_t i) { return Digest{static_cast<std::uint64_t>(i), 1}; };
  const Sampled made = sample_us(o.repetitions * 5, 1, [&](std::int64_t) {
    const std::int64_t rows = next++;
    keep(pipeline.get_or_compile(key_of(rows), rows_binding(rows, 1), source, options));
  });
  result.specialize_us = made.wall;
  result.specialize_cpu_us = made.cpu;
  const DimBinding last = rows_binding(next - 1, 1);
  result.hit_us = median_us(o.repetitions * 5, 100, [&](std::int64_t) {
    keep(pipeline.get_or_compile(key_of(next - 1), last, source, options));
  });
}

void bench_keys(const CompilerBenchOptions& o, CompilerBench& result) {
  const ModelComponent component(ModelVariant::decode(1, 64, 1));
  TemplateIdentity identity;
  identity.graph = digest("graph");
  identity.weights = digest("weights");
  identity.options = digest("options");
  identity.symbols = {sym::rows, sym::out_rows, sym::batch};
  identity.device = o.device.text();
  identity.features = find_backend(o.device).features();
  identity.build = "bench";
  const std::int64_t n = o.repetitions * 5;
  result.variant_key_us = median_us(n, 100, [&](std::int64_t) { keep(component.variant().cache_key()); });
  result.component_key_us = median_us(n, 100, [&](std::int64_t) { keep(component.cache_key()); });
  result.executable_key_us = median_us(n, 100, [&](std::int64_t) { keep(component.executable_key(identity)); });
}

}  // namespace

double CompilerBench::key_us() const { return std::max({variant_key_us, component_key_us, executable_key_us}); }

CompilerBench bench_compiler(const CompilerBenchOptions& options) {
  if (options.layers < 1 || options.repetitions < 1)
    fail(ErrorCode::invalid_argument, "{} layers, {} repetitions: expected at least 1", options.layers,
         options.repetitions);
  CompilerBench result;
  bench_template(options, result);
  bench_pipeline(options, result);
  bench_keys(options, result);
  if (options.aot_mib > 0)
    result.aot = bench_aot(std::filesystem::temp_directory_path(), options.aot_mib,
                           std::min(options.repetitions, kMostAotStarts), options.device);
  return result;
}

}  // namespace rlx
