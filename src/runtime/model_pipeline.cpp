#include "runtime/model_pipeline.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/build_id.h"
#include "base/error.h"
#include "compiler/profile.h"
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
Digest graph_digest(const Graph& graph) { return digest(graph); }

// What a component fixes wins over the options.
CompileOptions options_of(const ModelComponent& component, CompileOptions options) {
  options.dispatch = component.dispatch();
  if (component.quant()) options.quant = component.quant();
  return options;
}

}  // namespace

Digest model_id(const BuiltModel& model) {
  return KeyWriter("model")
      .digest("graph", graph_digest(model.graph))
      .digest("weights", process_identity(model))
      .finish();
}

HirSource::Made HirSource::from(BuiltModel model) {
  auto weights = std::make_shared<SharedWeights>();
  weights->identity = process_identity(model);
  weights->store = std::make_shared<WeightStore>(model.weights, model.params);
  BuiltModel of;  // without its graph
  of.weights = model.weights;
  of.params = model.params;
  weights->make_lasting = [of = std::move(of)] { return weights_identity(of); };
  return {std::move(model.graph), std::move(weights), std::move(model.profile)};
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

void ModelCompilePipeline::set_session(const SpecializeOptions& session) {
  if (session.threads < 1 || session.threads > 1024)
    fail(ErrorCode::invalid_argument, "threads {}: expected 1 to 1024", session.threads);
  if (session.max_context < 0)
    fail(ErrorCode::invalid_argument, "a context of {} tokens: expected 0 or more", session.max_context);
  const std::lock_guard lock(mutex_);
  if (!entries_.empty())
    fail(ErrorCode::invalid_argument, "the session of a pipeline is set before its first executable, and it has {}",
         entries_.size());
  session_ = session;
}

SpecializeOptions ModelCompilePipeline::session() const {
  const std::lock_guard lock(mutex_);
  return session_;
}

// ---- templates ----

ModelCompilePipeline::TemplatePtr ModelCompilePipeline::find_by_id(const HirSource& source,
                                                                   const Digest& options) const {
  if (!source.id()) return nullptr;
  const std::lock_guard lock(mutex_);
  const auto at = by_id_.find({*source.id(), options});
  return at == by_id_.end() ? nullptr : at->second;
}

// What a template is found by. The same graph over another checkpoint is another template: its executables hold other
// weights.
ModelCompilePipeline::TemplateKey ModelCompilePipeline::key_of(const HirSource::Made& made, const Digest& options) {
  TemplateKey key;
  key.options = options;
  key.hir = KeyWriter("hir").digest("graph", graph_digest(made.graph)).digest("profile", digest(made.profile)).finish();
  key.graph = made.weights == nullptr
                  ? key.hir
                  : KeyWriter("hir").digest("graph", key.hir).digest("weights", made.weights->identity).finish();
  return key;
}

ModelCompilePipeline::TemplatePtr ModelCompilePipeline::make_template(HirSource::Made made, const TemplateKey& key,
                                                                      const CompileOptions& options,
                                                                      const AotWish* aot) const {
  auto t = std::make_shared<Template>();
  t->hir = key.hir;
  t->graph = key.graph;
  t->options = key.options;
  t->weights = std::move(made.weights);
  t->identity.graph = key.graph;
  t->identity.symbols = collect_symbols(made.graph);
  t->identity.weights = t->weights != nullptr ? t->weights->identity : Digest{};
  t->identity.device = backend_.device().text();
  t->identity.features = backend_.features();
  t->identity.options = key.options;
  t->identity.build = build_id();
  t->result = make_result(std::move(made.graph), *t, apply(made.profile, options), aot);
  t->read_plan = std::exchange(t->result.lir.plan, nullptr);
  return t;
}

// Graphs of one checkpoint, forward and backward ones say, read one store: what is packed is packed once.
void ModelCompilePipeline::share_weights(HirSource::Made& made) const {
  if (made.weights == nullptr) return;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, t] : templates_)
    if (t->weights != nullptr && t->weights->identity == made.weights->identity) made.weights = t->weights;
}

ModelCompilePipeline::TemplatePtr ModelCompilePipeline::find_or_build(const HirSource& source,
                                                                      const CompileOptions& options,
                                                                      const AotWish* aot) {
  const Digest wanted = digest(options);
  if (TemplatePtr found = find_by_id(source, wanted)) return found;
  HirSource::Made made = source.make();
  const TemplateKey key = key_of(made, wanted);
  // One build at a time: whoever waited for the same template finds it.
  const std::lock_guard build(building_);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = templates_.find({key.graph, wanted}); at != templates_.end()) {
      if (source.id()) by_id_[{*source.id(), wanted}] = at->second;
      return at->second;
    }
  }
  share_weights(made);
  const auto start = PipelineClock::now();
  const TemplatePtr built = make_template(std::move(made), key, options, aot);
  const std::lock_guard lock(mutex_);
  statistics_.template_ms += milliseconds_since(start);
  ++statistics_.templates;
  templates_.emplace(std::pair(key.graph, wanted), built);
  if (source.id()) by_id_[{*source.id(), wanted}] = built;
  return built;
}

const CompileResult& ModelCompilePipeline::build_template(const HirSource& source, const CompileOptions& options) {
  return make_last(find_or_build(source, options)).result;
}

// The template of the calls that name none; templates_ keeps it.
const ModelCompilePipeline::Template& ModelCompilePipeline::make_last(const TemplatePtr& t) {
  const std::lock_guard lock(mutex_);
  last_[t->options] = t;
  return *t;
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
  return last_template(options)->result.specialize(binding, session());
}

std::shared_ptr<SharedWeights> ModelCompilePipeline::template_weights(const CompileOptions& options) const {
  return last_template(options)->weights;
}

BindingManifest ModelCompilePipeline::template_binding_manifest(const CompileOptions& options) const {
  return binding_manifest_for_binding({}, options);
}

BindingManifest ModelCompilePipeline::binding_manifest_for_binding(const DimBinding& binding,
                                                                   const CompileOptions& options) const {
  return BindingManifest::from_lir(specialize_template(options.buckets.round(binding), options).lir);
}

BindingManifest ModelCompilePipeline::binding_manifest_for_component(const ModelComponent& component,
                                                                     const CompileOptions& options) const {
  const CompileOptions with = options_of(component, options);
  const DimBinding upper = component.executable_binding(identity(*last_template(with), with));
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

// What a key stands for, in messages.
std::string ModelCompilePipeline::describe(const Template& t, const DimBinding& binding) {
  return fmt::format("graph \"{}\" {} with {{{}}}", t.result.mir->name, t.graph.hex().substr(0, 8), binding.text());
}

TemplateIdentity ModelCompilePipeline::identity(const Template& t, const CompileOptions& options) {
  TemplateIdentity of = t.identity;
  of.buckets = options.buckets;
  return of;
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::compile_entry(const Digest& key, const TemplatePtr& from,
                                                                   const DimBinding& binding, const AotWish* aot) {
  std::shared_ptr<CompiledGraph> graph;
  std::exception_ptr failure;
  const auto start = PipelineClock::now();
  try {
    graph = std::make_shared<CompiledGraph>(specialize_entry(*from, binding, aot), backend_, from->weights);
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
    const Plan& plan = *graph->compiled().lir.plan;
    at->second->bytes = plan.arena_bytes + plan.shared_bytes;
    statistics_.bytes += at->second->bytes;
    evict();
  }
  compiled_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return graph;
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::find_or_compile(const Digest& key, const TemplatePtr& from,
                                                                     const DimBinding& binding, const AotWish* aot) {
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
             describe(*from, binding));
      entry->used = ++clock_;
      ++statistics_.hits;
      compiled_.wait(lock, [&] { return entry->graph != nullptr || entry->failure; });
      if (entry->failure) std::rethrow_exception(entry->failure);
      return entry->graph;
    }
    ++statistics_.misses;
    auto entry = std::make_shared<Entry>();
    entry->content = content;
    entry->text = describe(*from, binding);
    entry->used = ++clock_;
    entries_.emplace(key, std::move(entry));
  }
  return compile_entry(key, from, binding, aot);
}

// With the lock held.
ModelCompilePipeline::Entry& ModelCompilePipeline::ready_entry(const Digest& key) {
  const auto at = entries_.find(key);
  if (at == entries_.end() || at->second->graph == nullptr)
    fail(ErrorCode::invalid_argument, "no executable has the key {}", key.hex());
  return *at->second;
}

void ModelCompilePipeline::pin(const Digest& key) {
  const std::lock_guard lock(mutex_);
  ++ready_entry(key).pins;
}

void ModelCompilePipeline::unpin(const Digest& key) {
  const std::lock_guard lock(mutex_);
  Entry& entry = ready_entry(key);
  if (entry.pins == 0) fail(ErrorCode::invalid_argument, "the executable {} is not pinned", key.hex());
  --entry.pins;
  evict();
}

// With the lock held. The newest stays, and so does what is pinned or still compiles.
void ModelCompilePipeline::evict() {
  for (;;) {
    std::int64_t ready = 0, newest = 0;
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (at->second->graph == nullptr) continue;
      ++ready;
      newest = std::max(newest, at->second->used);
      if (at->second->pins > 0) continue;
      if (oldest == entries_.end() || at->second->used < oldest->second->used) oldest = at;
    }
    if (ready <= most_entries_ && statistics_.bytes <= most_bytes_) return;
    if (oldest == entries_.end() || oldest->second->used == newest) return;
    statistics_.bytes -= oldest->second->bytes;
    ++statistics_.evictions;
    entries_.erase(oldest);
  }
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::get_or_compile(const Digest& key, const DimBinding& binding,
                                                                    const HirSource& source,
                                                                    const CompileOptions& options) {
  return find_or_compile(key, find_or_build(source, options), options.buckets.round(binding));
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::get_or_compile_component(const ModelComponent& component,
                                                                              const HirSource& source,
                                                                              const CompileOptions& options) {
  const CompileOptions with = options_of(component, options);
  const std::optional<AotWish> aot = aot_wish(component, with);
  const TemplatePtr t = find_or_build(source, with, aot ? &*aot : nullptr);
  const TemplateIdentity of = identity(*t, with);
  return find_or_compile(component.executable_key(of), t, component.executable_binding(of), aot ? &*aot : nullptr);
}

void ModelCompilePipeline::prepare(const ModelComponent& component, const HirSource& source,
                                   const CompileOptions& options) {
  const CompileOptions with = options_of(component, options);
  const std::optional<AotWish> aot = aot_wish(component, with);
  make_last(find_or_build(source, with, aot ? &*aot : nullptr));
  if (component.mode() == CompilationMode::Eager) get_or_compile_component(component, source, options);
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
