// What the pipeline reads from disk and keeps there (compiler.md, sections 8 and 9).
#include "base/error.h"
#include "runtime/model_pipeline.h"

namespace rlx {

void ModelCompilePipeline::set_aot_cache(std::shared_ptr<AotCache> cache) {
  const std::lock_guard lock(mutex_);
  aot_ = std::move(cache);
}

// What files are named by holds in every process.
TemplateIdentity ModelCompilePipeline::lasting(const Template& t) {
  TemplateIdentity of = t.identity;
  if (t.weights == nullptr) return of;
  of.weights = t.weights->lasting();
  of.graph = t.hir;
  return of;
}

// The template: of the file of the variant that was asked for first, else compiled.
CompileResult ModelCompilePipeline::make_result(Graph graph, const Template& of, const CompileOptions& options,
                                                const AotWish* aot) const {
  if (aot == nullptr) return compile(std::move(graph), options, backend_);
  if (of.weights != nullptr) aot->cache.attach(*of.weights->store, of.weights->lasting(), backend_);
  std::optional<CompileResult> found = aot->cache.find(aot->name(lasting(of)), backend_, graph);
  if (!found) return compile(std::move(graph), options, backend_);
  return std::move(*found);
}

std::optional<ModelCompilePipeline::AotWish> ModelCompilePipeline::aot_wish(const ModelComponent& component,
                                                                            const CompileOptions& options) const {
  const std::lock_guard lock(mutex_);
  if (component.mode() != CompilationMode::Aot || aot_ == nullptr) return std::nullopt;
  return AotWish{aot_, *aot_, [component, buckets = options.buckets](const TemplateIdentity& of) {
                   TemplateIdentity rounded = of;
                   rounded.buckets = buckets;
                   return aot_name(component, rounded);
                 }};
}

CompileResult ModelCompilePipeline::specialize_entry(const Template& from, const DimBinding& binding,
                                                     const AotWish* aot) const {
  const SpecializeOptions options = session();
  if (aot == nullptr) return from.result.specialize(binding, options);
  const auto serves = [&](const Plan& p) {
    return p.upper == binding && p.threads == options.threads && p.max_context == options.max_context;
  };
  if (from.read_plan != nullptr && serves(*from.read_plan)) {
    CompileResult read = from.result;
    read.lir.plan = from.read_plan;
    return read;
  }
  const AotName name = aot->name(lasting(from));
  const std::optional<CompileResult> found = aot->cache.find_plan(name, backend_, from.result);
  // A plan for another count of threads is made anew, which costs no pass; the file stays.
  if (found && serves(*found->lir.plan)) return *found;
  CompileResult made = from.result.specialize(binding, options);
  if (!found) aot->cache.save(name, made, backend_);
  return made;
}

std::shared_ptr<CompiledGraph> ModelCompilePipeline::get_or_specialize_aot(AotCache& cache, const std::string& base,
                                                                           const Digest& key, const DimBinding& binding,
                                                                           const HirSource& source,
                                                                           const CompileOptions& options) {
  const DimBinding upper = options.buckets.round(binding);
  const AotWish aot{nullptr, cache, [&](const TemplateIdentity&) { return AotName{base, key, upper}; }};
  return find_or_compile(key, find_or_build(source, options, &aot), upper, &aot);
}

}  // namespace rlx
