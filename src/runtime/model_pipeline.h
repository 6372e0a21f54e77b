// Template -> specialised program -> executable, each made once and found by key (compiler.md, section 8).
#pragma once

#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "compiler/component.h"
#include "compiler/manifest.h"
#include "flow/hir_module.h"
#include "runtime/aot_cache.h"
#include "runtime/compiled_graph.h"

namespace rlx {

/// Where the HIR of a template comes from: a callable that gives an HirModule, a Graph or a BuiltModel. With an id (of
/// model and weights) a look-up that hits calls nothing; without one the callable runs at each look-up and its HIR is
/// digested.
class HirSource {
 public:
  struct Made {
    Graph graph;
    std::shared_ptr<SharedWeights> weights;  ///< nullptr: params are set by hand
    CompileProfile profile;                  ///< fills what the options of a compile leave open
  };

  template <typename F>
  requires std::invocable<F&> HirSource(F callable)  // NOLINT: a lambda is a source
      : make_([f = std::move(callable)]() mutable { return from(f()); }) {}
  template <typename F>
  requires std::invocable<F&> HirSource(Digest id, F callable) : HirSource(std::move(callable)) { id_ = id; }

  Made make() const { return make_(); }
  const std::optional<Digest>& id() const { return id_; }

 private:
  static Made from(HirModule module) { return {std::move(module).graph(), nullptr, {}}; }
  static Made from(Graph graph) { return {std::move(graph), nullptr, {}}; }
  static Made from(BuiltModel model);

  mutable std::function<Made()> make_;
  std::optional<Digest> id_;
};

/// Identity of a model with its weights, for HirSource.
Digest model_id(const BuiltModel& model);

struct PipelineStatistics {
  std::int64_t hits = 0, misses = 0, evictions = 0, templates = 0, failures = 0;
  double template_ms = 0, specialize_ms = 0;  ///< sums
  std::int64_t bytes = 0;                     ///< of the executables that are kept
};

/// May be used from several threads. Handles that it gives stay valid after eviction.
class ModelCompilePipeline {
 public:
  static constexpr std::int64_t kDefaultEntries = 64;

  /// Errors (device): as find_backend.
  explicit ModelCompilePipeline(const Device& device);
  /// At most `entries` executables. Error(invalid_argument): below 1.
  static std::unique_ptr<ModelCompilePipeline> with_capacity(const Device& device, std::int64_t entries);
  /// At most `bytes` of executables, the newest always kept. Error(invalid_argument): below 1.
  static std::unique_ptr<ModelCompilePipeline> with_budget(const Device& device, std::int64_t bytes);

  Device device() const { return backend_.device(); }
  /// For whom the plans are made: threads (1 until it is set), and tokens that a sequence may have in the caches (0: no
  /// bound is known). No part of a key, so it is set before the first executable. Errors (invalid_argument): threads
  /// outside 1 .. 1024, a context below 0, executables that exist already.
  void set_session(const SpecializeOptions& session);

  /// Runs the passes on a source, once per content and options, and makes it the template of specialize_template and of
  /// the manifest calls. Errors: as compile().
  const CompileResult& build_template(const HirSource& source, const CompileOptions& options);
  const CompileResult& ensure_template(const HirSource& source, const CompileOptions& options) {
    return build_template(source, options);
  }
  bool has_template(const CompileOptions& options) const;
  /// The template built last with these options; Error(invalid_argument) when there is none.
  const CompileResult& template_result(const CompileOptions& options) const;
  /// At the sizes of the binding, or of a template without symbols.
  BindingManifest template_binding_manifest(const CompileOptions& options) const;
  BindingManifest binding_manifest_for_binding(const DimBinding& binding, const CompileOptions& options) const;
  BindingManifest binding_manifest_for_component(const ModelComponent& component, const CompileOptions& options) const;

  /// Weights of that template; nullptr: its params are set by hand.
  std::shared_ptr<SharedWeights> template_weights(const CompileOptions& options) const;

  CompileResult specialize_template(const DimBinding& binding, const CompileOptions& options) const;
  std::shared_ptr<CompiledGraph> compile_lir(const CompileResult& specialised, const CompileOptions& options) const;

  /// The executable of a key, compiled when it is not there. Concurrent calls with one key compile once; a failure is
  /// reported to all of them and not kept. Errors: invalid_argument (the key stands for another template, binding or
  /// options; both are named); as build_template and specialize_template.
  std::shared_ptr<CompiledGraph> get_or_compile(const Digest& key, const DimBinding& binding, const HirSource& source,
                                                const CompileOptions& options);
  /// The same under the component's executable key; the component's dispatch config holds.
  std::shared_ptr<CompiledGraph> get_or_compile_component(const ModelComponent& component, const HirSource& source,
                                                          const CompileOptions& options);

  /// What a component's mode asks for when a model is loaded. Eager: the executable. Lazy: the template; the executable
  /// comes with its first use. Aot: the template, from the cache when it is there.
  void prepare(const ModelComponent& component, const HirSource& source, const CompileOptions& options);

  /// The executable "<base>__<binding>" of a cache: an executable of this process under the key, else the file, else
  /// compiled and kept. With a file no pass runs, and weights come from the cache. Errors as get_or_compile: a file
  /// that is of no use is not an error.
  std::shared_ptr<CompiledGraph> get_or_specialize_aot(AotCache& cache, const std::string& base, const Digest& key,
                                                       const DimBinding& binding, const HirSource& source,
                                                       const CompileOptions& options);
  /// Where components of the mode Aot are read from and kept; nullptr: nowhere.
  void set_aot_cache(std::shared_ptr<AotCache> cache);

  /// A pinned executable is not evicted, whatever the capacity; as many unpins as pins free it.
  /// Error(invalid_argument): no executable has this key, or it is not pinned.
  void pin(const Digest& key);
  void unpin(const Digest& key);

  bool contains(const Digest& key) const;
  std::int64_t size() const;
  bool empty() const { return size() == 0; }
  PipelineStatistics statistics() const;

 private:
  struct Template {
    Digest graph, options;
    Digest hir;  ///< of the graph with its profile, without the weights
    CompileResult result;
    std::shared_ptr<const Plan> read_plan;  ///< that came with the template's file
    std::shared_ptr<SharedWeights> weights;
    TemplateIdentity identity;
  };
  using TemplatePtr = std::shared_ptr<const Template>;
  struct Entry {
    Digest content;  ///< template, binding and options
    std::string text;
    std::shared_ptr<CompiledGraph> graph;  ///< nullptr while it compiles
    std::exception_ptr failure;
    std::int64_t bytes = 0, used = 0;
    int pins = 0;
  };

  /// A look-up that may be answered from disk: the name follows from the template's identity.
  struct AotWish {
    std::shared_ptr<AotCache> owner;  // of `cache`, when the pipeline has it
    AotCache& cache;
    std::function<AotName(const TemplateIdentity&)> name;
  };

  ModelCompilePipeline(const Device& device, std::int64_t entries, std::int64_t bytes);
  TemplatePtr find_or_build(const HirSource& source, const CompileOptions& options, const AotWish* aot = nullptr);
  TemplatePtr find_by_id(const HirSource& source, const Digest& options) const;
  struct TemplateKey {
    Digest hir, graph, options;  // as in Template
  };
  void share_weights(HirSource::Made& made) const;
  static TemplateKey key_of(const HirSource::Made& made, const Digest& options);
  TemplatePtr make_template(HirSource::Made made, const TemplateKey& key, const CompileOptions& options,
                            const AotWish* aot) const;
  CompileResult make_result(Graph graph, const Template& of, const CompileOptions& options, const AotWish* aot) const;
  CompileResult specialize_entry(const Template& from, const DimBinding& binding, const AotWish* aot) const;
  TemplatePtr last_template(const CompileOptions& options) const;
  SpecializeOptions session() const;
  const Template& make_last(const TemplatePtr& t);
  std::optional<AotWish> aot_wish(const ModelComponent& component, const CompileOptions& options) const;
  static std::string describe(const Template& t, const DimBinding& binding);
  static TemplateIdentity lasting(const Template& t);
  static TemplateIdentity identity(const Template& t, const CompileOptions& options);
  std::shared_ptr<CompiledGraph> find_or_compile(const Digest& key, const TemplatePtr& from, const DimBinding& binding,
                                                 const AotWish* aot = nullptr);
  std::shared_ptr<CompiledGraph> compile_entry(const Digest& key, const TemplatePtr& from, const DimBinding& binding,
                                               const AotWish* aot);
  Entry& ready_entry(const Digest& key);
  void evict();

  const Backend& backend_;
  const std::int64_t most_entries_, most_bytes_;
  SpecializeOptions session_;
  std::shared_ptr<AotCache> aot_;
  std::mutex building_;  // taken before mutex_
  mutable std::mutex mutex_;
  std::condition_variable compiled_;
  std::map<std::pair<Digest, Digest>, TemplatePtr> templates_;  // by graph and options
  std::map<std::pair<Digest, Digest>, TemplatePtr> by_id_;      // by the source's id and options
  std::map<Digest, TemplatePtr> last_;                          // by options
  std::map<Digest, std::shared_ptr<Entry>> entries_;
  std::int64_t clock_ = 0;
  mutable PipelineStatistics statistics_;
};

/// Compiles and runs graphs on one device (compiler.md, section 10).
class Session {
 public:
  explicit Session(const Device& device) : pipeline_(device) {}
  /// A graph whose sizes are bound, or that `upper` binds. Errors: as the pipeline.
  std::shared_ptr<CompiledGraph> compile(const HirSource& source, const CompileOptions& options = {},
                                         const DimBinding& upper = {});
  std::shared_ptr<CompiledGraph> compile(Graph graph, const CompileOptions& options = {}, const DimBinding& upper = {});
  std::shared_ptr<CompiledGraph> compile(const HirModule& module, const CompileOptions& options = {},
                                         const DimBinding& upper = {});
  Device device() const { return pipeline_.device(); }
  ModelCompilePipeline& pipeline() { return pipeline_; }

 private:
  ModelCompilePipeline pipeline_;
};

}  // namespace rlx
