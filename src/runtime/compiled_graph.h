// A graph that runs: a specialised program with its weights and memory (compiler.md, section 10).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/manifest.h"
#include "device/backend.h"
#include "runtime/executor.h"
#include "runtime/kv_cache.h"
#include "runtime/weight_store.h"
#include "tensor/tensor.h"

namespace rlx {

/// Weights of a model that several executables share; empty for graphs whose params are set by hand.
struct SharedWeights {
  std::shared_ptr<WeightStore> store;
  Digest identity;     ///< of the checkpoint, in keys of this process
  std::mutex binding;  ///< packing writes the store
  /// The bytes of each weight entry of a program, looked up once: its executables of all sizes share them. With
  /// `binding` held. Errors: as WeightStore::bind.
  const std::vector<const std::byte*>& bind(const std::shared_ptr<const Program>& program, const Backend& backend,
                                            int threads);
  std::function<Digest()> make_lasting;  ///< weights_identity
  /// Of the checkpoint in any process; may read all of a model in memory, when it is first asked for.
  const Digest& lasting() {
    std::call_once(once, [this] { lasting_identity = make_lasting(); });
    return lasting_identity;
  }
  std::once_flag once;
  Digest lasting_identity;

 private:
  struct Bound {
    std::weak_ptr<const Program> program;
    const Backend* backend;
    std::vector<const std::byte*> entries;
  };
  std::vector<Bound> bound_;
};

struct KernelTime;  // runtime/kernel_profile.h
struct StepWork;

class CompiledGraph {
 public:
  /// `compiled` is specialised. `weights` may be nullptr: then every param must be set. Runs with the threads of the
  /// plan. Errors: memory; as WeightStore::bind.
  CompiledGraph(CompileResult compiled, const Backend& backend, std::shared_ptr<SharedWeights> weights);
  ~CompiledGraph();

  /// Made when it is first asked for: a loop of steps (make_executor) needs none.
  const BindingManifest& manifest() const;
  const CompileResult& compiled() const { return compiled_; }
  Device device() const { return backend_.device(); }
  /// Bytes that the handle keeps: params set by hand, and arenas of runs.
  std::int64_t bytes() const;

  /// Sets or replaces a param; all users of the handle see it, the shared weights do not change. Errors
  /// (invalid_argument): no such param, a run in progress; (shape) another shape or dtype.
  void set_param(std::string_view name, const Tensor& value);

  /// Runs on the inputs, named in any order; returns the outputs in the graph's order. May be called from several
  /// threads, each call with memory of its own. Errors before anything runs: invalid_argument (a name missing, unknown
  /// or given twice; a param that is not set; a graph with states); shape (dtype, rank, sizes that contradict each
  /// other); limit (a size above the plan's).
  std::vector<NamedTensor> run(const std::vector<NamedTensor>& inputs);
  /// The same into tensors of the caller, whose names, dtypes and sizes must be those of the outputs.
  void run_into(const std::vector<NamedTensor>& inputs, std::span<NamedTensor> outputs);
  /// For graphs with states: `states` comes from make_states, and one run at a time uses it.
  std::vector<NamedTensor> run(const std::vector<NamedTensor>& inputs, KvCache& states);

  /// States for `slots` sequences of at most `context` tokens. Error(memory).
  std::shared_ptr<KvCache> make_states(std::int64_t slots, std::int64_t context) const;

  /// For a loop of steps over executables that share memory and workers (runtime/decoder.h): an
  /// executor of this program with its weights and these states. A later set_param does not reach it.
  /// Error(invalid_argument): a param is not set.
  std::unique_ptr<Executor> make_executor(KvCache& states) const;

  /// Times by kernel of the runs that follow, of those that run one after another.
  void set_profile(bool on);
  void add_times(std::vector<KernelTime>& list) const;
  /// What the last run had to read and compute; nothing before the first one.
  StepWork work() const;

  /// Counters of all runs so far.
  struct Statistics {
    std::int64_t runs = 0, prologue_runs = 0;
  };
  Statistics statistics() const;

 private:
  struct Context;  // an executor with its memory
  using Inputs = std::vector<const Tensor*>;

  Inputs match_inputs(const std::vector<NamedTensor>& inputs) const;
  DimBinding sizes_of(const Inputs& inputs) const;
  void check_params() const;
  Executor::Bindings bindings(KvCache* states) const;
  void execute(Context& context, const Inputs& inputs, const DimBinding& sizes);
  void copy_output(const Context& context, const Inputs& inputs, std::size_t i, Tensor& to) const;
  std::vector<NamedTensor> run_with(const std::vector<NamedTensor>& inputs, KvCache* states);
  void refuse_states(const KvCache* states) const;
  std::unique_ptr<Context> take_context(KvCache* states);
  void give_context(std::unique_ptr<Context> context);

  CompileResult compiled_;
  const Backend& backend_;
  std::shared_ptr<SharedWeights> weights_;
  mutable std::once_flag manifest_once_;
  mutable BindingManifest manifest_;
  std::vector<const std::byte*> bound_;  // per weight entry; nullptr: not set
  struct Overlay {
    Tensor value;
    std::vector<Arena> packed;
  };
  std::map<std::string, std::shared_ptr<const Overlay>, std::less<>> overlay_;
  std::int64_t generation_ = 0;  // of bound_
  mutable std::shared_mutex params_;
  mutable std::mutex contexts_;
  std::unique_ptr<Context> kept_;  // the one context that the handle keeps between runs
  bool profile_ = false;
  Statistics statistics_;
};

}  // namespace rlx
