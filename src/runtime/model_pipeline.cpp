#include "runtime/model_pipeline.h"

#include <algorithm>
#include <chrono>

#include "base/build_id.h"
#include "base/error.h"
#include "ir/print.h"
#include "runtime/backends.h"
#include "runtime/source_identity.h"

namespace rlx {
namespace {

using PipelineClock = std::chrono::steady_clock;

double milliseconds_since(PipelineClock::time_point start) {
  return std::chrono::duration<double, std::milli>(PipelineClock::now() - start).count();
}

// Everything that tells two symbolic HIRs apart; the text is canonical (ir/print.h).
Digest graph_digest(const Graph& graph) { return digest(print(graph)); }

}  // namespace

HirSource::Made HirSource::from(BuiltModel model) {
  auto weights = std::make_shared<SharedWeights>();
  weights->identity = weights_identity(model);
  weights->store = std::make_shared<WeightStore>(model.weights, model.params);
  return {std::move(model.graph), std::move(weights)};
}

ModelCompilePipeline::ModelCompilePipeline(const Device& device, std::int64_t entries, std::int64_t bytes)
    : backend_(find_backend(device)), most_entries_(entries), most_bytes_(bytes) {}

ModelCompilePipeline::ModelCompilePipeline(const Device& device)
    : ModelCompilePipeline(device, kDefaultEntries, INT64_MAX) {}

std::unique_ptr<ModelCompilePipeline> ModelCompilePipeline::with_capacity(const Device& device, std::int64_t entries) {
  if (entries < 1) fail(ErrorCode::invalid_argument, "a pipeline of {} entries: expected at least 1", entries);
  return std::unique_ptr<ModelCompilePipeline>(new ModelCompilePipeline(device, entries, INT64_MAX));
}

std::unique_ptr<ModelCompilePipeline> ModelCompilePipeline::with_budget(const Device& device, std::int64_t bytes) {
  if (bytes < 1) fail(ErrorCode::invalid_argument, "a pipeline of {} bytes: expected at least 1", bytes);
  return std::unique_ptr<ModelCompilePipeline>(new ModelCompilePipeline(device, INT64_MAX, bytes));
}

void ModelCompilePipeline::set_threads(int threads) {
  if (threads < 1 || threads > 1024)
    fail(ErrorCode::invalid_argument, "threads {}: expected 1 to 1024", threads);
  const std::lock_guard lock(mutex_);
  threads_ = threads;
}

// ---- templates ----

ModelCompilePipeline::TemplatePtr ModelCompilePipeline::find_by_id(const HirSource& source,
                                                                   const Digest& options) const {
  if (!source.id()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find({*source.id(), options});
  return at == by_id_.end() ? nullptr : at->second;
}

ModelCompilePipeline::TemplatePtr ModelCompilePipeline::make_template(HirSource::Made made, const Digest& graph,
                                                                      const Digest& options_digest,
                                                                      const CompileOptions& options,
                                                                      const AotWish* aot) const {
  auto t = std::make_shared<Template>();
  t->graph = graph;
  t->options = options_digest;
  t->weights = std::move(made.weights);
  t->identity.graph = graph;
  t->identity.symbols = collect_symbols(made.graph);
  t->identity.weights = t->weights != nullptr ? t->weights->identity : Digest{};
  t->identity.device = backend_.device().text();
  t->identity.features = backend_.features();
  t->identity.options = options_digest;
  t->identity.build = build_id();
  t->result = make_result(std::move(made.graph), *t, options, aot);
  return t;
}

ModelCompilePipeline::TemplatePtr ModelCompilePipeline::find_or_build(const HirSource& source,
                                                                      const CompileOptions& options,
                                                                      const AotWish* aot) {
  const Digest wanted = digest(options);
  if (TemplatePtr found = find_by_id(source, wanted)) return found;
  HirSource::Made made = source.make();
  Digest graph = graph_digest(made.graph);
  // The same graph over another checkpoint is another template: its executables hold other weights.
  if (made.weights != nullptr)
    graph = KeyWriter("hir").digest("graph", graph).digest("weights", made.weights->identity).finish();
  // One build at a time: whoever waited for the same template finds it.
  const std::lock_guard build(building_);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = templates_.find({graph, wanted}); at != templates_.end()) {
      if (source.id()) by_id_[{*source.id(), wanted}] = at->second;
      return at->second;
    }
  }
  const auto start = PipelineClock::now();
  const TemplatePtr built = make_template(std::move(made), graph, wanted, options, aot);
  const std::lock_guard lock(mutex_);
  statistics_.template_ms += milliseconds_since(start);
  ++statistics_.templates;
  templates_.emplace(std::pair(graph, wanted), built);
  if (source.id()) by_id_[{*source.id(), wanted}] = built;
  return built;
}

const CompileResult& ModelCompilePipeline::build_template(const HirSource& source, const CompileOptions& options) {
  const TemplatePtr t = find_or_build(source, options);
  const std::lock_guard lock(mutex_);
  last_[t->options] = t;
  return t->result;  // kept by templates_
}

bool ModelCompilePipeline::has_template(const CompileOptions& options) const {
  const std::lock_guard lock(mutex_);
  return last_.contains(digest(options));
}

ModelCompilePipeline::TemplatePtr ModelCompilePipeline::last_template(const CompileOptions& options) const {
  const std::lock_guard lock(mutex_);
  const auto at = last_.find(digest(options));
  if (at == last_.end())
    fail(ErrorCode::invalid_argument, "no template was built with these options: call build_template first");
  return at->second;
}

const CompileResult& ModelCompilePipeline::template_result(const CompileOptions& options) const {
  return last_template(options)->result;
}

CompileResult ModelCompilePipeline::specialize_template(const DimBinding& binding,
                                                        const CompileOptions& options) const {
  const TemplatePtr t = last_template(options);
  int threads = 1;
  {
    const std::lock_guard lock(mutex_);
    threads = threads_;
  }
  return t->result.specialize(binding, {threads, 0});
}

BindingManifest ModelCompilePipeline::template_binding_manifest(const CompileOptions& options) const {
  return binding_manifest_for_binding({}, options);
}

BindingManifest ModelCompilePipeline::binding_manifest_for_binding(const DimBinding& binding,
                                                                   const CompileOptions& options) const {
  return BindingManifest::from_lir(specialize_template(binding, options).lir);
}

BindingManifest ModelCompilePipeline::binding_manifest_for_component(const ModelComponent& component,
                                                                     const CompileOptions& options) const {
  CompileOptions with = options;
  with.dispatch = component.dispatch();
  const DimBinding upper = component.executable_binding(last_template(with)->identity);
  return BindingManifest::from_lir(specialize_template(upper, with).lir);
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::compile_lir(const CompileResult& specialised,
                                                                 const CompileOptions& options) const {
  std::shared_ptr<SharedWeights> weights;
  const Digest wanted = digest(options);
  {
    const std::lock_guard lock(mutex_);  // not while weights are packed
    // The program knows no checkpoint; the template that it came from does.
    for (const auto& [key, t] : templates_)
      if (key.second == wanted && t->result.lir.program == specialised.lir.program) weights = t->weights;
  }
  return std::make_shared<CompiledGraph>(specialised, backend_, weights);
}

// ---- executables ----

std::shared_ptr<CompiledGraph> ModelCompilePipeline::compile_entry(const Digest& key, const TemplatePtr& from,
                                                                   const DimBinding& binding, const AotWish* aot) {
  int threads = 1;
  {
    const std::lock_guard lock(mutex_);
    threads = threads_;
  }
  std::shared_ptr<CompiledGraph> graph;
  std::exception_ptr failure;
  const auto start = PipelineClock::now();
  try {
    graph = std::make_shared<CompiledGraph>(specialize_entry(*from, binding, threads, aot), backend_, from->weights);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(key);
  RLX_CHECK(at != entries_.end(), "the entry of a compile under way");
  statistics_.specialize_ms += milliseconds_since(start);
  if (failure) {
    ++statistics_.failures;
    at->second->failure = failure;
    entries_.erase(at);  // those who wait hold the entry; the next request compiles again
  } else {
    at->second->graph = graph;
    at->second->bytes = graph->manifest().arena_bytes + graph->compiled().lir.plan->shared_bytes;
    statistics_.bytes += at->second->bytes;
    evict();
  }
  compiled_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return graph;
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::find_or_compile(const Digest& key, const TemplatePtr& from,
                                                                     const DimBinding& binding,
                                                                     std::string description, const AotWish* aot) {
  const Digest content = KeyWriter("executable")
                             .digest("graph", from->graph)
                             .digest("options", from->options)
                             .digest("binding", binding.digest())
                             .finish();
  {
    std::unique_lock lock(mutex_);
    if (const auto at = entries_.find(key); at != entries_.end()) {
      const std::shared_ptr<Entry> entry = at->second;
      if (!(entry->content == content))
        fail(ErrorCode::invalid_argument, "key {} stands for {}, and was asked for {}", key.hex(), entry->text,
             description);
      entry->used = ++clock_;
      ++statistics_.hits;
      compiled_.wait(lock, [&] { return entry->graph != nullptr || entry->failure; });
      if (entry->failure) std::rethrow_exception(entry->failure);
      return entry->graph;
    }
    ++statistics_.misses;
    auto entry = std::make_shared<Entry>();
    entry->content = content;
    entry->text = std::move(description);
    entry->used = ++clock_;
    entries_.emplace(key, std::move(entry));
  }
  return compile_entry(key, from, binding, aot);
}

// With the lock held. The newest stays, and so does what still compiles.
void ModelCompilePipeline::evict() {
  for (;;) {
    std::int64_t ready = 0;
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (at->second->graph == nullptr) continue;
      ++ready;
      if (oldest == entries_.end() || at->second->used < oldest->second->used) oldest = at;
    }
    if (ready <= 1 || (ready <= most_entries_ && statistics_.bytes <= most_bytes_)) return;
    statistics_.bytes -= oldest->second->bytes;
    ++statistics_.evictions;
    entries_.erase(oldest);
  }
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::get_or_compile(const Digest& key, const DimBinding& binding,
                                                                    const HirSource& source,
                                                                    const CompileOptions& options) {
  const TemplatePtr t = find_or_build(source, options);
  return find_or_compile(key, t, binding,
                         fmt::format("graph \"{}\" {} with {{{}}}", t->result.mir->name, t->graph.hex().substr(0, 8),
                                     binding.text()));
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::get_or_compile_component(const ModelComponent& component,
                                                                              const HirSource& source,
                                                                              const CompileOptions& options) {
  CompileOptions with = options;
  with.dispatch = component.dispatch();
  std::shared_ptr<AotCache> cache;
  {
    const std::lock_guard lock(mutex_);
    if (component.mode() == CompilationMode::Aot) cache = aot_;
  }
  std::optional<AotWish> aot;
  if (cache != nullptr)
    aot.emplace(AotWish{*cache, [&](const TemplateIdentity& of) { return aot_name(component, of); }});
  const TemplatePtr t = find_or_build(source, with, aot ? &*aot : nullptr);
  const DimBinding upper = component.executable_binding(t->identity);
  return find_or_compile(component.executable_key(t->identity), t, upper,
                         fmt::format("graph \"{}\" with {{{}}}", t->result.mir->name, upper.text()),
                         aot ? &*aot : nullptr);
}

bool ModelCompilePipeline::contains(const Digest& key) const {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(key);
  return at != entries_.end() && at->second->graph != nullptr;
}

std::int64_t ModelCompilePipeline::size() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(entries_.begin(), entries_.end(), [](const auto& e) { return e.second->graph != nullptr; });
}

PipelineStatistics ModelCompilePipeline::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

// ---- session ----

std::shared_ptr<CompiledGraph> Session::compile(const HirSource& source, const CompileOptions& options,
                                                const DimBinding& upper) {
  pipeline_.build_template(source, options);
  return pipeline_.compile_lir(pipeline_.specialize_template(upper, options), options);
}

std::shared_ptr<CompiledGraph> Session::compile(Graph graph, const CompileOptions& options, const DimBinding& upper) {
  return compile(HirSource([&] { return graph; }), options, upper);
}

std::shared_ptr<CompiledGraph> Session::compile(const HirModule& module, const CompileOptions& options,
                                                const DimBinding& upper) {
  return compile(module.graph(), options, upper);
}

}  // namespace rlx
