#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "device/view.h"

namespace rlx {
namespace {

constexpr std::size_t kMaxStepInputs = 16;  // a decoder has six

std::int64_t tensor_bytes(const TensorView& v) {
  const DTypeInfo& t = info(v.dtype);
  std::int64_t bytes = t.block_bytes;
  for (int i = 0; i < v.rank; ++i)
    bytes = require(checked_mul(bytes, i == v.rank - 1 ? v.dims[i] / t.block_elements : v.dims[i]), "tensor");
  return bytes;
}

}  // namespace

DimBinding StepSizes::binding() const {
  return DimBinding{{sym::rows, rows}, {sym::out_rows, out_rows}, {sym::batch, batch}};
}

Executor::Executor(std::shared_ptr<const Program> program, Plan plan, Bindings bindings)
    : program_(std::move(program)), plan_(std::move(plan)), bindings_(std::move(bindings)) {
  RLX_CHECK(bindings_.weights.size() == program_->weights.size() &&
            bindings_.states.size() == program_->states.size());
  views_.resize(program_->operands.size());
  prepared_.resize(program_->calls.size());
  for (const Call& c : program_->calls) attrs_.push_back(c.attrs);
  call_us_.assign(program_->calls.size(), 0.0);
  call_runs_.assign(program_->calls.size(), 0);
  std::size_t count = 0;
  for (const Call& c : program_->calls) count += c.in.size() + c.out.size();
  call_views_.resize(count);
}

void Executor::clear_profile() {
  std::fill(call_us_.begin(), call_us_.end(), 0.0);
  std::fill(call_runs_.begin(), call_runs_.end(), 0);
}

void Executor::rebind(Bindings bindings) {
  bindings_ = std::move(bindings);
  prepared_for_ = false;
}

void Executor::prepare(const DimBinding& binding, const Memory& memory) {
  for (auto [symbol, size] : binding.sizes()) {
    const auto upper = plan_.upper.get(symbol);
    if (upper && size > *upper)
      fail(ErrorCode::limit, "{}: {} = {} is above the planned {}", program_->name, symbol.name(),
           size, *upper);
  }
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const Operand& o = program_->operands[i];
    const auto k = static_cast<std::size_t>(o.index);
    TensorView& v = views_[i];
    v = make_view(o.shape, binding);
    switch (o.place) {
      case Place::input:
        break;
      case Place::weight:
        v.data = const_cast<std::byte*>(bindings_.weights[k]);
        break;
      case Place::arena:
        // A size that shrinks as a symbol grows is larger here than in the plan.
        if (tensor_bytes(v) > plan_.bytes[i])
          fail(ErrorCode::limit, "{}: {} needs {} bytes under {}, above the planned {}", program_->name, o.shape.text(),
               tensor_bytes(v), binding.text(), plan_.bytes[i]);
        v.data = memory.arena + plan_.offsets[i];
        break;
      case Place::state:
        v.data = bindings_.states[k];
        if (o.shape.kind == ShapeKind::pages) {
          v.rank = 2;
          v.dims[0] = bindings_.slots;
          v.dims[1] = bindings_.pages_per_slot;
          v.strides[1] = sizeof(std::int32_t);
          v.strides[0] = v.dims[1] * v.strides[1];
        }
        break;
    }
  }
  input_views_.clear();
  std::size_t at = 0;
  const auto copy = [&](std::int32_t operand) {
    const Operand& o = program_->operands[static_cast<std::size_t>(operand)];
    if (o.place == Place::input) input_views_.emplace_back(o.index, at);
    call_views_[at++] = views_[static_cast<std::size_t>(operand)];
  };
  for (std::size_t c = 0; c < program_->calls.size(); ++c) {
    const Call& call = program_->calls[c];
    attrs_[c] = call.attrs;
    if (call.def->bind_dims != nullptr) call.def->bind_dims(attrs_[c], binding);
    prepared_[c].in = static_cast<std::int32_t>(at);
    for (std::int32_t o : call.in) copy(o);
    prepared_[c].out = static_cast<std::int32_t>(at);
    for (std::int32_t o : call.out) copy(o);
    // A call without a row to compute: the epilogue of a prompt chunk whose logits nobody wants.
    prepared_[c].skip = std::all_of(call.out.begin(), call.out.end(), [&](std::int32_t o) {
      const TensorView& v = views_[static_cast<std::size_t>(o)];
      return program_->operands[static_cast<std::size_t>(o)].place == Place::arena && v.rank > 0 &&
             v.dims[0] == 0;
    });
  }
  binding_ = binding;
  memory_ = memory;
  prepared_for_ = true;
  run_prologue_ = true;
}

void Executor::run(const StepSizes& sizes, const std::int32_t* const* inputs, const Memory& memory,
                   Workers& workers) {
  if (!prepared_for_ || !(sizes == sizes_) || !(memory == memory_)) {
    prepare(sizes.binding(), memory);
    sizes_ = sizes;
  }
  const void* pointers[kMaxStepInputs];
  RLX_CHECK(program_->inputs.size() <= kMaxStepInputs);
  std::copy_n(inputs, program_->inputs.size(), pointers);
  execute(pointers, workers);
}

void Executor::run(const DimBinding& sizes, const void* const* inputs, const Memory& memory, Workers& workers) {
  if (!prepared_for_ || !(sizes == binding_) || !(memory == memory_)) {
    prepare(sizes, memory);
    sizes_ = {-1, -1, -1};
  }
  execute(inputs, workers);
}

void Executor::execute(const void* const* inputs, Workers& workers) {
  for (auto [input, view] : input_views_) call_views_[view].data = const_cast<void*>(inputs[input]);
  failure_.clear();
  run_prologue_ = run_prologue_ || memory_.owner == nullptr || *memory_.owner != this;
  workers.run([&](int thread) noexcept { work(thread, workers); });
  if (memory_.owner != nullptr) *memory_.owner = this;
  finish_gate();
  if (!failure_.empty()) fail(ErrorCode::invalid_argument, "{}", failure_);
  prologue_runs_ += run_prologue_ ? 1 : 0;
  run_prologue_ = false;
}

void Executor::work(int thread, Workers& workers) noexcept {
  using Clock = std::chrono::steady_clock;
  const bool timed = profile_ && thread == 0;
  auto start = timed ? Clock::now() : Clock::time_point{};
  for (std::size_t c = 0; c < prepared_.size(); ++c) {
    const Plan::CallPlan& p = plan_.calls[c];
    if (p.zero_before && thread == 0 && plan_.shared_zeroed_bytes > 0)
      std::memset(memory_.shared, 0, static_cast<std::size_t>(plan_.shared_zeroed_bytes));
    if (p.barrier_before) workers.barrier().wait();
    const bool left_out = prepared_[c].skip || (!run_prologue_ && program_->calls[c].phase == Phase::prologue);
    if (!left_out) run_call(c, thread, workers.threads());
    if (p.barrier_after && c + 1 < prepared_.size()) workers.barrier().wait();
    if (timed) {
      const auto now = Clock::now();
      call_us_[c] += std::chrono::duration<double, std::micro>(now - start).count();
      call_runs_[c] += left_out ? 0 : 1;
      start = now;
    }
  }
}

void Executor::run_call(std::size_t c, int thread, int threads) noexcept {
  const Call& call = program_->calls[c];
  if (bindings_.gate != nullptr && !weights_arrived(call)) return;
  KernelArgs args;
  args.in = call_views_.data() + prepared_[c].in;
  args.out = call_views_.data() + prepared_[c].out;
  args.inputs = static_cast<int>(call.in.size());
  args.outputs = static_cast<int>(call.out.size());
  args.thread = thread;
  args.threads = threads;
  args.scratch = memory_.scratch + thread * memory_.scratch_stride;
  args.shared = memory_.shared;
  if (call.kernel != nullptr)
    call.kernel->run(attrs_[c].data(), args);
  else if (thread == 0)
    run_reference(c, args);
}

bool Executor::weights_arrived(const Call& call) const {
  bool all = true;
  for (const std::int32_t o : call.in) {
    const Operand& operand = program_->operands[static_cast<std::size_t>(o)];
    if (operand.place == Place::weight)
      all = bindings_.gate->wait(bindings_.weights[static_cast<std::size_t>(operand.index)]) && all;
  }
  return all;
}

// Results are handed out only when everything that they were made from is there.
void Executor::finish_gate() {
  WeightGate* gate = bindings_.gate;
  if (gate == nullptr) return;
  for (const BoundaryEntry& e : program_->outputs) {
    const Operand& o = program_->operands[static_cast<std::size_t>(e.operand)];
    if (o.place == Place::weight) gate->wait(bindings_.weights[static_cast<std::size_t>(o.index)]);
  }
  if (const std::string why = gate->failure(); !why.empty())
    fail(ErrorCode::io, "{}: a weight cannot be read: {}", program_->name, why);
  if (!gate->pending()) bindings_.gate = nullptr;
}

// The interpreter's kernel runs on one thread; it may throw, and the workers must still meet.
void Executor::run_reference(std::size_t c, const KernelArgs& args) noexcept {
  const Call& call = program_->calls[c];
  try {
    KernelArgs whole = args;
    whole.threads = 1;
    call.def->reference(attrs_[c], whole);
  } catch (const std::exception& e) {
    failure_ = fmt::format(
        "{}: {}", call.origin.empty() ? std::string(call.def->name) : call.origin, e.what());
  }
}

const TensorView& Executor::output(std::size_t i) const {
  return views_[static_cast<std::size_t>(program_->outputs[i].operand)];
}

std::pair<std::int64_t, std::int64_t> Executor::call_work(std::size_t c) const {
  const Call& call = program_->calls[c];
  std::int64_t bytes = 0, ops = 0, weights = 0;
  for (std::int32_t o : call.in) {
    const Operand& operand = program_->operands[static_cast<std::size_t>(o)];
    if (operand.place == Place::state) continue;
    if (operand.shape.rank() == 2 && operand.place == Place::weight) {
      const std::int64_t elements = operand.shape.elements().constant().value_or(0);
      // An embedding reads only its rows; a product reads all of its weight, whatever the layout.
      if (call.def->has(Trait::compute)) {
        weights += elements;
        bytes += elements / info(operand.shape.dtype).block_elements *
                 info(operand.shape.dtype).block_bytes;
      }
    } else {
      bytes += view_bytes(operand.shape, binding_);
    }
  }
  for (std::int32_t o : call.out) {
    const Operand& operand = program_->operands[static_cast<std::size_t>(o)];
    if (operand.place == Place::arena) bytes += view_bytes(operand.shape, binding_);
  }
  const TensorView& first = views_[static_cast<std::size_t>(call.out[0])];
  if (weights > 0) ops = 2 * weights * (first.rank > 1 ? first.dims[0] : 1);
  return {bytes, ops};
}

}  // namespace rlx
