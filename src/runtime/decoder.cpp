#include "runtime/decoder.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>

#include "base/checked.h"
#include "base/cpu_features.h"
#include "compiler/buckets.h"
#include "compiler/pipeline.h"
#include "ir/print.h"
#include "runtime/backends.h"
#include "runtime/executor.h"
#include "runtime/kv_cache.h"
#include "runtime/step_inputs.h"
#include "runtime/source_identity.h"
#include "runtime/weight_store.h"

namespace rlx {
namespace {

int resolve_threads(int asked) {
  if (asked < 0 || asked > 1024)
    fail(ErrorCode::usage, "--threads: expected 1 to 1024, found {}", asked);
  if (asked > 0) return asked;
  const char* text = std::getenv("RLX_THREADS");
  if (text == nullptr || *text == '\0') return cpu_limits().threads;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (*end != '\0' || n < 1 || n > 1024)
    fail(ErrorCode::usage, "RLX_THREADS: expected 1 to 1024, found \"{}\"", text);
  return static_cast<int>(n);
}

std::string mib(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

// Plans of a session are made in memory; the program is that of the single step, which every session has.
CompileResult compile_decoder(const LoadedModel& model, const Digest& weights, const DecoderOptions& o,
                              const Backend& backend) {
  if (o.aot == nullptr) return compile(model.model.graph, o.compile, backend);
  const AotName name = decoder_aot_name(model.model, weights, o.compile, backend);
  return compile_cached(*o.aot, name, model.model.graph, o.compile, backend, {1, 0});
}

}  // namespace

struct Decoder::Impl {
  LoadedModel model;
  DecoderOptions options;
  const Backend& backend;
  Digest identity;  // of the weights, when there is a cache
  CompileResult compiled;
  Workers workers;
  WeightStore store;
  std::unique_ptr<KvCache> cache;
  Executor::Bindings bindings;
  std::map<std::int64_t, std::unique_ptr<Executor>> executors;  // by rows and out_rows bucket
  Arena arena, scratch, shared;
  std::int64_t scratch_stride = 0;
  const Executor* arena_owner = nullptr;
  std::vector<std::int64_t> past;
  StepInputs inputs;
  std::vector<float> gathered;  // logits of a step that took several chunks
  DecoderStats stats;
  bool profile = false;
  // Plans are made for powers of two up to the chunk, so that a session has a handful of executables.
  const BucketRule ladder = BucketRule::ladder(1);

  Impl(LoadedModel m, const DecoderOptions& o)
      : model(std::move(m)),
        options(o),
        backend(find_backend(o.device)),
        identity(o.aot != nullptr ? weights_identity(model.model) : Digest{}),
        compiled(compile_decoder(model, identity, o, backend)),
        workers(resolve_threads(o.threads)),
        store(model.model.weights, model.model.params) {
    const auto start = std::chrono::steady_clock::now();
    options.threads = workers.threads();
    stats.compiles = compiled.passes.empty() ? 0 : 1;
    stats.passes = static_cast<std::int64_t>(compiled.passes.size());
    check_inputs();
    if (options.chunk < 1 || options.sequences < 1)
      fail(ErrorCode::invalid_argument, "chunk {} and sequences {}: expected at least 1",
           options.chunk, options.sequences);
    choose_context();
    options.chunk = std::min(options.chunk, options.context);
    check_memory();
    cache =
        std::make_unique<KvCache>(*compiled.lir.program, backend, options.sequences, options.context);
    if (options.aot != nullptr) options.aot->attach(store, identity, backend);
    bindings.gate = store.gate();
    bindings.weights = store.bind(*compiled.lir.program, backend, workers);
    for (std::size_t i = 0; i < compiled.lir.program->states.size(); ++i)
      bindings.states.push_back(cache->state(i));
    bindings.slots = options.sequences;
    bindings.pages_per_slot = cache->pages_per_slot();
    past.assign(static_cast<std::size_t>(options.sequences), 0);
    inputs.reserve(options.chunk, options.sequences);
    stats.packed_tensors = store.packed_tensors();
    stats.weight_bytes = store.bytes();
    stats.kv_bytes = cache->bytes();
    // Weights are packed and tables made: what the prologue of this program is.
    stats.prologue_runs = 1;
    stats.load_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  // The runtime feeds inputs by name; a model that wants others cannot be stepped.
  void check_inputs() {
    for (const BoundaryEntry& e : compiled.lir.program->inputs)
      if (!StepInputs::knows(e.name))
        fail(ErrorCode::unsupported, "{}: unknown input \"{}\"", model.model.graph.name, e.name);
  }

  std::int64_t kv_bytes(std::int64_t context) const {
    return KvCache::bytes_for(*compiled.lir.program, backend, options.sequences, context);
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

  void check_memory() {
    const std::int64_t weights = store.needed_bytes(*compiled.lir.program, backend),
                       kv = kv_bytes(options.context);
    const Plan plan = make_plan(options.chunk, 1);
    stats.arena_bytes = plan.arena_bytes;
    stats.scratch_bytes =
        require(checked_add(plan.scratch_per_worker * plan.threads, plan.shared_bytes), "scratch");
    std::int64_t sum = require(checked_add(weights, kv), "memory");
    sum = require(checked_add(sum, plan.arena_bytes + stats.scratch_bytes), "memory");
    const auto free = static_cast<std::int64_t>(memory_info().available);
    if (free > 0 && sum > free)
      fail(ErrorCode::memory,
           "not enough memory: weights {} + KV cache {} (context {}) + buffers {} need {}, {} are "
           "available",
           mib(weights), mib(kv), options.context, mib(plan.arena_bytes + stats.scratch_bytes),
           mib(sum), mib(free));
  }

  Plan make_plan(std::int64_t rows, std::int64_t out_rows) const {
    const StepSizes upper{rows, out_rows, std::min(rows, options.sequences)};
    return specialize(*compiled.lir.program, upper.binding(), {workers.threads(), options.context});
  }

  Executor& executor(std::int64_t rows, std::int64_t out_rows) {
    const std::int64_t r = std::min(ladder.upper(sym::rows, rows), options.chunk),
                       o = std::min(ladder.upper(sym::out_rows, out_rows), options.chunk);
    const std::int64_t key = r * (std::int64_t{1} << 31) + o;
    if (const auto it = executors.find(key); it != executors.end()) return *it->second;
    auto made = std::make_unique<Executor>(compiled.lir.program, make_plan(r, o), bindings);
    ++stats.specializations;
    made->set_profile(profile);
    const Plan& plan = made->plan();
    if (plan.arena_bytes > arena.size()) arena = Arena(plan.arena_bytes, "buffers", false);
    if (plan.scratch_per_worker > scratch_stride || scratch.data() == nullptr) {
      scratch_stride = std::max<std::int64_t>(round_up(plan.scratch_per_worker, 4096), 4096);
      scratch = Arena(scratch_stride * workers.threads(), "scratch", false);
    }
    if (plan.shared_bytes > shared.size()) shared = Arena(plan.shared_bytes, "scratch", false);
    return *executors.emplace(key, std::move(made)).first->second;
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
    Executor& e = executor(sizes.rows, sizes.out_rows);
    const std::int32_t* pointers[StepInputs::kCount];
    for (std::size_t i = 0; i < compiled.lir.program->inputs.size(); ++i)
      pointers[i] = inputs.data(compiled.lir.program->inputs[i].name);
    e.run(sizes, pointers, {arena.data(), scratch.data(), scratch_stride, shared.data(), &arena_owner}, workers);
    ++stats.steady_runs;
    stats.epilogue_rows += sizes.out_rows;
    const TensorView& logits = e.output(0);
    return {logits.as<const float>(),
            static_cast<std::size_t>(sizes.out_rows * model.model.info.vocab)};
  }

  std::span<const float> step(std::span<const Part> parts) {
    check_parts(parts);
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
const DispatchReport& Decoder::dispatch() const { return impl_->compiled.dispatch; }
DecoderStats Decoder::stats() const {
  DecoderStats s = impl_->stats;
  s.packed_tensors = impl_->store.packed_tensors();
  if (impl_->options.aot != nullptr) s.cache = impl_->options.aot->statistics();
  return s;
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

void Decoder::truncate(std::int64_t tokens, std::int64_t sequence) {
  const std::int64_t had = past(sequence);
  if (tokens < 0 || tokens > had)
    fail(ErrorCode::invalid_argument, "truncate to {} tokens: expected 0 to {}", tokens, had);
  impl_->past[static_cast<std::size_t>(sequence)] = tokens;
}

std::string Decoder::text(std::string_view stage, const DimBinding& sizes, bool with_passes) const {
  const Graph& hir = impl_->model.model.graph;
  if (stage == "hir") return print(sizes.empty() ? hir : bind(hir, sizes));
  if (stage == "mir") {
    if (with_passes)
      return print(sizes.empty() ? *impl_->compiled.mir : bind(*impl_->compiled.mir, sizes));
    const std::string only[] = {"expand_blocks"};
    Graph lowered = hir;
    run_passes(lowered, only, {impl_->options.compile, impl_->backend});
    return print(sizes.empty() ? lowered : bind(lowered, sizes));
  }
  if (stage != "lir")
    fail(ErrorCode::usage, "--stage: expected hir, mir or lir, found \"{}\"", stage);
  DimBinding upper = StepSizes{1, 1, 1}.binding();
  for (auto [s, n] : sizes.sizes()) upper.set(s, n);
  return specialize(*impl_->compiled.lir.program, upper, {threads(), context()})
      .text(*impl_->compiled.lir.program);
}

void Decoder::set_profile(bool on) {
  impl_->profile = on;
  for (auto& [key, e] : impl_->executors) {
    e->set_profile(on);
    if (on) e->clear_profile();
  }
}

std::vector<Decoder::KernelTime> Decoder::profile() const {
  std::map<std::string, KernelTime> by_name;
  for (const auto& [key, e] : impl_->executors)
    for (std::size_t c = 0; c < impl_->compiled.lir.program->calls.size(); ++c) {
      if (e->call_runs()[c] == 0) continue;
      const Call& call = impl_->compiled.lir.program->calls[c];
      KernelTime& t = by_name[call.kernel != nullptr ? std::string(call.kernel->name)
                                                     : fmt::format("reference {}", call.def->name)];
      const auto [bytes, ops] = e->call_work(c);
      t.calls += e->call_runs()[c];
      t.us += e->call_us()[c];
      t.bytes += bytes * e->call_runs()[c];
      t.ops += ops * e->call_runs()[c];
    }
  std::vector<KernelTime> list;
  for (auto& [name, t] : by_name) {
    t.kernel = name;
    list.push_back(t);
  }
  std::sort(list.begin(), list.end(),
            [](const KernelTime& a, const KernelTime& b) { return a.us > b.us; });
  return list;
}

}  // namespace rlx
