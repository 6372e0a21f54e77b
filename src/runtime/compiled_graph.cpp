#include "runtime/compiled_graph.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "runtime/executor.h"
#include "runtime/kernel_profile.h"
#include "runtime/step_memory.h"
#include "tensor/quant/codec.h"

namespace rlx {

struct CompiledGraph::Context {
  Context(std::shared_ptr<const Program> program, const Plan& plan, Executor::Bindings bindings)
      : workers(plan.threads), executor(std::move(program), plan, std::move(bindings)) {
    memory.fit(plan);
  }

  Workers workers;
  Executor executor;
  StepMemory memory;
  std::int64_t generation = 0;
  const KvCache* states = nullptr;
};

const std::vector<const std::byte*>& SharedWeights::bind(const std::shared_ptr<const Program>& program,
                                                         const Backend& backend, int threads) {
  std::erase_if(bound_, [](const Bound& b) { return b.program.expired(); });
  for (const Bound& b : bound_)
    if (b.backend == &backend && b.program.lock() == program) return b.entries;
  // Threads are worth starting only when there is something to pack.
  Workers workers(store->needed_bytes(*program, backend) > 0 ? threads : 1);
  bound_.push_back({program, &backend, store->bind(*program, backend, workers)});
  return bound_.back().entries;
}

CompiledGraph::CompiledGraph(CompileResult compiled, const Backend& backend, std::shared_ptr<SharedWeights> weights)
    : compiled_(std::move(compiled)), backend_(backend), weights_(std::move(weights)) {
  if (compiled_.lir.plan == nullptr) manifest();  // refuses a template
  const Program& program = *compiled_.lir.program;
  bound_.assign(program.weights.size(), nullptr);
  if (weights_ == nullptr) return;
  const std::lock_guard lock(weights_->binding);
  bound_ = weights_->bind(compiled_.lir.program, backend_, compiled_.lir.plan->threads);
}

const BindingManifest& CompiledGraph::manifest() const {
  std::call_once(manifest_once_, [&] { manifest_ = BindingManifest::from_lir(compiled_.lir); });
  return manifest_;
}

CompiledGraph::~CompiledGraph() = default;

std::int64_t CompiledGraph::bytes() const {
  const std::shared_lock params(params_);
  const std::lock_guard contexts(contexts_);
  std::int64_t sum = kept_ == nullptr ? 0 : kept_->memory.bytes();
  for (const auto& [name, o] : overlay_) {
    sum += o->value.byte_size();
    for (const Arena& a : o->packed) sum += a.size();
  }
  return sum;
}

void CompiledGraph::set_param(std::string_view name, const Tensor& value) {
  const BindingEntry* entry = manifest().param(name);
  if (entry == nullptr) fail(ErrorCode::invalid_argument, "{}: no param \"{}\"", manifest().graph, name);
  if (!(value.shape() == entry->shape))
    fail(ErrorCode::shape, "{}: param \"{}\": expected {}, found {}", manifest().graph, name, entry->shape.text(),
         value.text());
  std::unique_lock lock(params_, std::try_to_lock);
  if (!lock.owns_lock())
    fail(ErrorCode::invalid_argument, "{}: param \"{}\" cannot be set while the graph runs", manifest().graph, name);
  // The caller may change or free what it passed.
  Overlay mine;
  mine.value = Tensor::zeros(value.dims(), value.dtype());
  std::memcpy(mine.value.mutable_data(), value.data(), static_cast<std::size_t>(value.byte_size()));
  WeightRef stored{std::string(name), value.dtype(), value.dims(),
                   {mine.value.data(), static_cast<std::size_t>(value.byte_size())}, nullptr};
  Workers workers(1);
  std::vector<const std::byte*> bound = bound_;
  const Program& program = *compiled_.lir.program;
  for (std::size_t i = 0; i < program.weights.size(); ++i) {
    const WeightEntry& w = program.weights[i];
    if (w.param != name) continue;
    bound[i] = mine.value.data();
    if (entry_is_stored(w, false)) continue;
    Arena packed(entry_bytes(w, backend_), "weights", false);
    fill_entry(w, {&stored, 1}, false, backend_, workers, packed.data());
    bound[i] = packed.data();
    mine.packed.push_back(std::move(packed));
  }
  overlay_.insert_or_assign(std::string(name), std::make_shared<const Overlay>(std::move(mine)));
  bound_ = std::move(bound);
  ++generation_;
}

CompiledGraph::Inputs CompiledGraph::match_inputs(const std::vector<NamedTensor>& given) const {
  Inputs found(manifest().inputs.size(), nullptr);
  for (const NamedTensor& t : given) {
    std::size_t i = 0;
    while (i < found.size() && manifest().inputs[i].name != t.name) ++i;
    if (i == found.size()) fail(ErrorCode::invalid_argument, "{}: no input \"{}\"", manifest().graph, t.name);
    if (found[i] != nullptr)
      fail(ErrorCode::invalid_argument, "{}: input \"{}\" is given twice", manifest().graph, t.name);
    if (t.tensor.dtype() != manifest().inputs[i].shape.dtype)
      fail(ErrorCode::shape, "{}: input \"{}\": expected {}, found {}", manifest().graph, t.name,
           manifest().inputs[i].shape.text(), t.tensor.text());
    found[i] = &t.tensor;
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] == nullptr)
      fail(ErrorCode::invalid_argument, "{}: input \"{}\" ({}) is missing", manifest().graph, manifest().inputs[i].name,
           manifest().inputs[i].shape.text());
  return found;
}

// The actual sizes of this run; those that no input tells are the plan's.
DimBinding CompiledGraph::sizes_of(const Inputs& inputs) const {
  std::vector<NamedDims> dims;
  for (std::size_t i = 0; i < inputs.size(); ++i) dims.push_back({manifest().inputs[i].name, inputs[i]->dims()});
  const DimBinding& upper = compiled_.lir.plan->upper;
  DimBinding sizes = upper;
  const DimBinding told = infer_bindings(*compiled_.mir, dims);
  for (auto [symbol, n] : told.sizes()) {
    const auto most = upper.get(symbol);
    if (most && n > *most)
      fail(ErrorCode::limit, "{}: {} = {} is above the {} that this executable was made for", manifest().graph,
           symbol.name(), n, *most);
    sizes.set(symbol, n);
  }
  for (const DimCheck& c : compiled_.lir.program->checks)
    if (c.left.evaluate(sizes) != c.right.evaluate(sizes))
      fail(ErrorCode::shape, "{}: {}: {} = {} but {} = {}", manifest().graph, c.message, c.left.text(),
           c.left.evaluate(sizes), c.right.text(), c.right.evaluate(sizes));
  return sizes;
}

void CompiledGraph::check_params() const {
  for (std::size_t i = 0; i < bound_.size(); ++i)
    if (bound_[i] == nullptr)
      fail(ErrorCode::invalid_argument, "{}: param \"{}\" is not set", manifest().graph,
           compiled_.lir.program->weights[i].param);
}

void CompiledGraph::refuse_states(const KvCache* states) const {
  if (states == nullptr && !manifest().states.empty())
    fail(ErrorCode::invalid_argument, "{}: has the state \"{}\": run it with states (make_states)", manifest().graph,
         manifest().states[0].name);
}

std::shared_ptr<KvCache> CompiledGraph::make_states(std::int64_t slots, std::int64_t context) const {
  if (slots < 1 || context < 1)
    fail(ErrorCode::invalid_argument, "states of {} slots and {} tokens: expected at least 1", slots, context);
  return std::make_shared<KvCache>(*compiled_.lir.program, backend_, slots, context);
}

Executor::Bindings CompiledGraph::bindings(KvCache* states) const {
  Executor::Bindings bindings;
  bindings.weights = bound_;
  bindings.owners.emplace_back(weights_);
  for (const auto& [name, overlay] : overlay_) bindings.owners.emplace_back(overlay);
  if (weights_ != nullptr) bindings.gate = weights_->store->gate();
  if (states == nullptr) return bindings;
  for (std::size_t i = 0; i < compiled_.lir.program->states.size(); ++i) bindings.states.push_back(states->state(i));
  bindings.slots = states->slots();
  bindings.pages_per_slot = states->pages_per_slot();
  return bindings;
}

std::unique_ptr<Executor> CompiledGraph::make_executor(KvCache& states) const {
  const std::shared_lock lock(params_);
  check_params();
  return std::make_unique<Executor>(compiled_.lir.program, *compiled_.lir.plan, bindings(&states));
}

std::unique_ptr<CompiledGraph::Context> CompiledGraph::take_context(KvCache* states) {
  std::unique_ptr<Context> context;
  {
    const std::lock_guard lock(contexts_);
    context = std::move(kept_);
  }
  // States may be others at the same address.
  const bool current =
      context != nullptr && context->generation == generation_ && states == nullptr && context->states == nullptr;
  if (context == nullptr)
    context = std::make_unique<Context>(compiled_.lir.program, *compiled_.lir.plan, bindings(states));
  else if (!current)
    context->executor.rebind(bindings(states));
  context->generation = generation_;
  context->states = states;
  context->executor.set_profile(profile_);
  return context;
}

void CompiledGraph::give_context(std::unique_ptr<Context> context) {
  const std::lock_guard lock(contexts_);
  if (kept_ == nullptr) kept_ = std::move(context);
}

void CompiledGraph::execute(Context& context, const Inputs& inputs, const DimBinding& sizes) {
  std::vector<const void*> data;
  for (const Tensor* t : inputs) data.push_back(t->data());
  const std::int64_t before = context.executor.prologue_runs();
  context.executor.run(sizes, data.data(), context.memory.get(), context.workers);
  const std::lock_guard lock(contexts_);
  ++statistics_.runs;
  statistics_.prologue_runs += context.executor.prologue_runs() - before;
}

void CompiledGraph::copy_output(const Context& context, const Inputs& inputs, std::size_t i, Tensor& to) const {
  const TensorView& view = context.executor.output(i);
  const Operand& o = compiled_.lir.program->operands[static_cast<std::size_t>(manifest().outputs[i].node)];
  if (view.layout != Layout::plain)
    fail(ErrorCode::unsupported, "{}: output \"{}\" has the layout of a kernel", manifest().graph,
         manifest().outputs[i].name);
  const void* from = o.place == Place::input ? inputs[static_cast<std::size_t>(o.index)]->data() : view.data;
  if (to.byte_size() > 0) std::memcpy(to.mutable_data(), from, static_cast<std::size_t>(to.byte_size()));
}

std::vector<NamedTensor> CompiledGraph::run_with(const std::vector<NamedTensor>& given, KvCache* states) {
  refuse_states(states);
  const Inputs inputs = match_inputs(given);
  const DimBinding sizes = sizes_of(inputs);
  const std::shared_lock lock(params_);
  check_params();
  std::unique_ptr<Context> context = take_context(states);
  execute(*context, inputs, sizes);
  std::vector<NamedTensor> outputs;
  for (std::size_t i = 0; i < manifest().outputs.size(); ++i) {
    const TensorView& view = context->executor.output(i);
    outputs.push_back({manifest().outputs[i].name, Tensor::unset({view.dims, view.dims + view.rank}, view.dtype)});
    copy_output(*context, inputs, i, outputs.back().tensor);
  }
  give_context(std::move(context));
  return outputs;
}

std::vector<NamedTensor> CompiledGraph::run(const std::vector<NamedTensor>& inputs) {
  return run_with(inputs, nullptr);
}

std::vector<NamedTensor> CompiledGraph::run(const std::vector<NamedTensor>& inputs, KvCache& states) {
  return run_with(inputs, &states);
}

void CompiledGraph::run_into(const std::vector<NamedTensor>& given, std::span<NamedTensor> outputs) {
  refuse_states(nullptr);
  const Inputs inputs = match_inputs(given);
  const DimBinding sizes = sizes_of(inputs);
  std::vector<std::size_t> places;
  for (const NamedTensor& t : outputs) {
    const BindingEntry* e = manifest().output(t.name);
    if (e == nullptr) fail(ErrorCode::invalid_argument, "{}: no output \"{}\"", manifest().graph, t.name);
    const Shape expected =
        compiled_.lir.program->operands[static_cast<std::size_t>(e->node)].shape.bind(sizes).with(Layout::plain);
    if (!(t.tensor.shape() == expected))
      fail(ErrorCode::shape, "{}: output \"{}\": expected {}, found {}", manifest().graph, t.name, expected.text(),
           t.tensor.text());
    places.push_back(static_cast<std::size_t>(e - manifest().outputs.data()));
  }
  const std::shared_lock lock(params_);
  check_params();
  std::unique_ptr<Context> context = take_context(nullptr);
  execute(*context, inputs, sizes);
  for (std::size_t k = 0; k < places.size(); ++k) copy_output(*context, inputs, places[k], outputs[k].tensor);
  give_context(std::move(context));
}

void CompiledGraph::set_profile(bool on) {
  const std::lock_guard lock(contexts_);
  profile_ = on;
  if (kept_ != nullptr && on) kept_->executor.clear_profile();
}

void CompiledGraph::add_times(std::vector<KernelTime>& list) const {
  const std::lock_guard lock(contexts_);
  if (kept_ != nullptr) add_kernel_times(list, *compiled_.lir.program, kept_->executor, 0);
}

StepWork CompiledGraph::work() const {
  const std::lock_guard lock(contexts_);
  if (kept_ == nullptr) return {};
  return step_work(*compiled_.lir.program, backend_, kept_->executor.sizes(), 0);
}

CompiledGraph::Statistics CompiledGraph::statistics() const {
  const std::lock_guard lock(contexts_);
  return statistics_;
}

}  // namespace rlx
