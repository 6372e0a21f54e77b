#include "runtime/kernel_profile.h"
#include "runtime/decoder.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "base/checked.h"
#include "base/cpu_features.h"
#include "ir/print.h"
#include "runtime/backends.h"
#include "runtime/executor.h"
#include "runtime/kv_cache.h"
#include "runtime/model_pipeline.h"
#include "runtime/step_inputs.h"
#include "runtime/step_memory.h"
#include "runtime/threads.h"

namespace rlx {

LoadedModel checked_decoder(LoadedModel model) {
  require_decoder(model);
  return model;
}

namespace {

std::string mib(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// 1, 2, 4, ... and the limit itself: a session has a handful of executables, and none larger than it may ask for.
BucketRule powers_up_to(std::int64_t limit) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n < limit; n *= 2) sizes.push_back(n);
  sizes.push_back(limit);
  return BucketRule::list(std::move(sizes));
}

}  // namespace

struct Decoder::Impl {
  LoadedModel model;
  DecoderOptions options;
  Workers workers;
  ModelCompilePipeline pipeline;
  const Backend& backend;
  HirSource source;
  const CompileResult* compiled = nullptr;  // the template; the pipeline keeps it
  std::shared_ptr<SharedWeights> weights;
  std::unique_ptr<KvCache> cache;
  struct Executable {
    std::shared_ptr<CompiledGraph> graph;
    std::unique_ptr<Executor> executor;
  };
  std::map<std::int64_t, Executable> executables;  // by rows and out_rows bucket
  StepMemory memory;
  std::vector<std::int64_t> past, past_before;
  StepInputs inputs;
  std::vector<float> gathered;  // logits of a step that took several chunks
  DecoderStats stats;
  bool profile = false;
  Trace* trace = nullptr;

  Impl(LoadedModel m, const DecoderOptions& o)
      : model(checked_decoder(std::move(m))),
        options(o),
        workers(resolve_threads(o.threads)),
        pipeline(o.device),
        backend(find_backend(o.device)),
        // The pipeline is this decoder's own, and has one model.
        source(KeyWriter("decoder").finish(), [this] { return model.model; }) {
    const auto start = std::chrono::steady_clock::now();
    options.threads = workers.threads();
    // With a cache the program of the single step, which every session has, comes from its file.
    pipeline.set_aot_cache(options.aot);
    pipeline.prepare(component(1, 1), source, options.compile);
    compiled = &pipeline.template_result(options.compile);
    weights = pipeline.template_weights(options.compile);
    stats.passes = static_cast<std::int64_t>(compiled->passes.size());
    check_inputs();
    if (options.chunk < 1 || options.sequences < 1)
      fail(ErrorCode::invalid_argument, "chunk {} and sequences {}: expected at least 1",
           options.chunk, options.sequences);
    choose_context();
    options.chunk = std::min(options.chunk, options.context);
    options.compile.buckets.set(sym::rows, powers_up_to(options.chunk));
    options.compile.buckets.set(sym::out_rows, powers_up_to(options.chunk));
    pipeline.set_session({workers.threads(), options.context});
    const Plan largest = check_memory();
    cache = std::make_unique<KvCache>(*compiled->lir.program, backend, options.sequences, options.context);
    past.assign(static_cast<std::size_t>(options.sequences), 0);
    past_before = past;  // a step allocates nothing
    inputs.reserve(options.chunk, options.sequences);
    // At once as large as a chunk needs, so that what the prologue leaves in it stays.
    memory.fit(largest);
    executable(1, 1);  // packs the weights
    stats.packed_tensors = weights->store->packed_tensors();
    stats.weight_bytes = weights->store->bytes();
    stats.kv_bytes = cache->bytes();
    stats.load_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  // The runtime feeds inputs by name; a model that wants others cannot be stepped.
  void check_inputs() {
    for (const BoundaryEntry& e : compiled->lir.program->inputs)
      if (!StepInputs::knows(e.name))
        fail(ErrorCode::unsupported, "{}: unknown input \"{}\"", model.model.graph.name, e.name);
  }

  std::int64_t kv_bytes(std::int64_t context) const {
    return KvCache::bytes_for(*compiled->lir.program, backend, options.sequences, context);
  }

  // The model's own context unless a smaller one is asked for; without a wish, what half of the
  // free memory can hold.
  void choose_context() {
    const std::int64_t own = model.model.info.context;
    if (options.context < 0)
      fail(ErrorCode::usage, "--context: expected 1 or more, found {}", options.context);
    if (options.context > 0) return;
    const auto free = static_cast<std::int64_t>(memory_info().available);
    options.context = own;
    while (options.context > 512 && kv_bytes(options.context) > free / 2) options.context /= 2;
  }

  // The plan of a whole chunk, when weights, states and buffers fit.
  Plan check_memory() {
    const std::int64_t packed = weights->store->needed_bytes(*compiled->lir.program, backend),
                       kv = kv_bytes(options.context);
    const DimBinding upper = component(options.chunk, 1).dim_binding();
    Plan plan = *compiled->specialize(upper, {workers.threads(), options.context}).lir.plan;
    stats.arena_bytes = plan.arena_bytes;
    stats.scratch_bytes = plan.scratch_bytes();
    std::int64_t sum = require(checked_add(packed, kv), "memory");
    sum = require(checked_add(sum, plan.arena_bytes + stats.scratch_bytes), "memory");
    const auto free = static_cast<std::int64_t>(memory_info().available);
    if (free > 0 && sum > free)
      fail(ErrorCode::memory,
           "not enough memory: weights {} + KV cache {} (context {}) + buffers {} need {}, {} are "
           "available",
           mib(packed), mib(kv), options.context, mib(plan.arena_bytes + stats.scratch_bytes),
           mib(sum), mib(free));
    return plan;
  }

  // What a step of these rows asks the pipeline for. A step may mix sequences: its rows are set apart from batch * seq.
  ModelComponent component(std::int64_t rows, std::int64_t out_rows) const {
    const std::int64_t batch = std::min(rows, options.sequences);
    const ModelVariant variant =
        rows == batch ? ModelVariant::decode(batch, 0, 1) : ModelVariant::prefill(batch, rows);
    return ModelComponent(variant.with_extra(sym::rows, rows).with_extra(sym::out_rows, out_rows))
        .with_dispatch(options.compile.dispatch)
        .with_mode(options.aot != nullptr ? CompilationMode::Aot : CompilationMode::Lazy);
  }

  Executor& executable(std::int64_t rows, std::int64_t out_rows) {
    const BucketPolicy& buckets = options.compile.buckets;
    const std::int64_t r = buckets.upper(sym::rows, rows), o = buckets.upper(sym::out_rows, out_rows);
    const std::int64_t key = r * (std::int64_t{1} << 31) + o;
    if (const auto it = executables.find(key); it != executables.end()) return *it->second.executor;
    Executable made;
    made.graph = pipeline.get_or_compile_component(component(r, o), source, options.compile);
    made.executor = made.graph->make_executor(*cache);
    made.executor->set_profile(profile);
    made.executor->set_trace(trace);
    memory.fit(made.executor->plan());
    return *executables.emplace(key, std::move(made)).first->second.executor;
  }

  void check_sequence(std::int64_t sequence) const {
    if (sequence < 0 || sequence >= options.sequences)
      fail(ErrorCode::invalid_argument, "sequence {}: expected 0 to {}", sequence,
           options.sequences - 1);
  }

  void check_parts(std::span<const Part> parts) const {
    for (const Part& p : parts) {
      check_sequence(p.sequence);
      if (p.tokens.empty())
        fail(ErrorCode::invalid_argument, "a step of sequence {} without a token", p.sequence);
      const std::int64_t had = past[static_cast<std::size_t>(p.sequence)];
      const auto wanted = static_cast<std::int64_t>(p.tokens.size());
      if (wanted > options.context - had)
        fail(ErrorCode::limit, "{} tokens do not fit the context: {} are in it and it holds {}",
             wanted, had, options.context);
      for (std::int32_t t : p.tokens)
        if (t < 0 || t >= model.model.info.vocab)
          fail(ErrorCode::invalid_argument, "token {}: expected 0 to {}", t,
               model.model.info.vocab - 1);
    }
  }

  // Runs what `inputs` holds; the logits are in the arena.
  std::span<const float> run_chunk() {
    const StepSizes sizes = inputs.sizes();
    Executor& e = executable(sizes.rows, sizes.out_rows);
    const std::int32_t* pointers[StepInputs::kCount];
    for (std::size_t i = 0; i < compiled->lir.program->inputs.size(); ++i)
      pointers[i] = inputs.data(compiled->lir.program->inputs[i].name);
    e.run(sizes, pointers, memory.get(), workers);
    ++stats.steady_runs;
    stats.epilogue_rows += sizes.out_rows;
    const TensorView& logits = e.output(0);
    return {logits.as<const float>(),
            static_cast<std::size_t>(sizes.out_rows * model.model.info.vocab)};
  }

  // A step that fails leaves the sequences as they were; recurrent states cannot go back and start anew.
  std::span<const float> step(std::span<const Part> parts) {
    check_parts(parts);
    past_before = past;
    try {
      return run_parts(parts);
    } catch (...) {
      past = past_before;
      if (!cache->can_cut())
        for (const Part& p : parts) past[static_cast<std::size_t>(p.sequence)] = 0;
      throw;
    }
  }

  std::span<const float> run_parts(std::span<const Part> parts) {
    gathered.clear();
    std::span<const float> logits;
    bool several = false;
    inputs.clear();
    for (const Part& p : parts) {
      std::size_t done = 0;
      while (done < p.tokens.size()) {
        const std::int64_t room = options.chunk - inputs.sizes().rows;
        if (room == 0) {
          flush(logits, several);
          several = true;
          continue;
        }
        const std::size_t n = std::min(p.tokens.size() - done, static_cast<std::size_t>(room));
        std::int64_t& had = past[static_cast<std::size_t>(p.sequence)];
        const bool last = done + n == p.tokens.size();
        const StepInputs::Rows want = p.want == Want::all            ? StepInputs::Rows::all
                                      : p.want == Want::last && last ? StepInputs::Rows::last
                                                                     : StepInputs::Rows::none;
        inputs.add(p.sequence, p.tokens.subspan(done, n), had, want);
        had += static_cast<std::int64_t>(n);
        done += n;
      }
    }
    flush(logits, several);
    return several ? std::span<const float>(gathered) : logits;
  }

  void flush(std::span<const float>& logits, bool several) {
    if (inputs.sizes().rows == 0) return;
    logits = run_chunk();
    // The arena is overwritten by the next chunk: results of a step in several chunks are gathered.
    if (several || inputs.sizes().rows == options.chunk)
      gathered.insert(gathered.end(), logits.begin(), logits.end());
    inputs.clear();
  }
};

Decoder::Decoder(LoadedModel model, const DecoderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

const ModelInfo& Decoder::info() const { return impl_->model.model.info; }
const LoadedModel& Decoder::model() const { return impl_->model; }
const DecoderOptions& Decoder::options() const { return impl_->options; }
std::int64_t Decoder::context() const { return impl_->options.context; }
int Decoder::threads() const { return impl_->workers.threads(); }
const DispatchReport& Decoder::dispatch() const { return impl_->compiled->dispatch; }
DecoderStats Decoder::stats() const {
  DecoderStats stats = impl_->stats;
  const PipelineStatistics pipeline = impl_->pipeline.statistics();
  stats.compiles = impl_->compiled->passes.empty() ? 0 : 1;
  stats.specializations = pipeline.misses;
  stats.packed_tensors = impl_->weights->store->packed_tensors();
  if (impl_->options.aot != nullptr) stats.cache = impl_->options.aot->statistics();
  for (const auto& [key, e] : impl_->executables) stats.prologue_runs += e.executor->prologue_runs();
  return stats;
}

std::span<const float> Decoder::step(std::span<const Part> parts) { return impl_->step(parts); }

std::span<const float> Decoder::step(std::span<const std::int32_t> tokens, Want want) {
  const Part part{0, tokens, want};
  return impl_->step({&part, 1});
}

std::int64_t Decoder::past(std::int64_t sequence) const {
  impl_->check_sequence(sequence);
  return impl_->past[static_cast<std::size_t>(sequence)];
}

std::int64_t Decoder::truncate(std::int64_t tokens, std::int64_t sequence) {
  const std::int64_t had = past(sequence);
  if (tokens < 0 || tokens > had)
    fail(ErrorCode::invalid_argument, "truncate to {} tokens: expected 0 to {}", tokens, had);
  if (tokens < had && !impl_->cache->can_cut()) tokens = 0;
  return impl_->past[static_cast<std::size_t>(sequence)] = tokens;
}

std::string Decoder::text(std::string_view stage, const DimBinding& sizes, bool with_passes) const {
  const Graph& hir = impl_->model.model.graph;
  if (stage == "hir") return print(sizes.empty() ? hir : bind(hir, sizes));
  if (stage == "mir") {
    if (with_passes)
      return print(sizes.empty() ? *impl_->compiled->mir : bind(*impl_->compiled->mir, sizes));
    const std::string only[] = {"expand_blocks"};
    Graph lowered = hir;
    run_passes(lowered, only, {impl_->options.compile, impl_->backend});
    return print(sizes.empty() ? lowered : bind(lowered, sizes));
  }
  if (stage != "lir")
    fail(ErrorCode::usage, "--stage: expected hir, mir or lir, found \"{}\"", stage);
  DimBinding upper = StepSizes{1, 1, 1}.binding();
  for (auto [s, n] : sizes.sizes()) upper.set(s, n);
  const Lir lir = impl_->compiled->specialize(upper, {threads(), context()}).lir;
  return lir.plan->text(*lir.program);
}

void Decoder::set_profile(bool on) {
  impl_->profile = on;
  for (auto& [key, e] : impl_->executables) {
    e.executor->set_profile(on);
    if (on) e.executor->clear_profile();
  }
}

void Decoder::set_trace(Trace* trace) {
  impl_->trace = trace;
  for (auto& [key, e] : impl_->executables) e.executor->set_trace(trace);
}

StepWork Decoder::work(const DimBinding& sizes, std::int64_t context) const {
  return step_work(*impl_->compiled->lir.program, impl_->backend, sizes, context);
}

std::vector<KernelTime> Decoder::profile() const {
  std::vector<KernelTime> list;
  const std::int64_t held = *std::max_element(impl_->past.begin(), impl_->past.end());
  for (const auto& [key, executable] : impl_->executables)
    add_kernel_times(list, *impl_->compiled->lir.program, *executable.executor, held);
  std::sort(list.begin(), list.end(), [](const KernelTime& a, const KernelTime& b) { return a.us > b.us; });
  return list;
}

}  // namespace rlx
