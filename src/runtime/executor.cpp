#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "device/view.h"
#include "runtime/trace.h"

namespace rlx {
namespace {

constexpr std::size_t kMaxStepInputs = 16;  // a decoder has six

using Clock = std::chrono::steady_clock;

double us(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// Where a phase begins: with a call, or behind its first barrier.
std::int64_t place_of(std::size_t call, bool behind_barrier) {
  return static_cast<std::int64_t>(call * 2 + (behind_barrier ? 1 : 0));
}

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
  call_times_.resize(program_->calls.size());
  std::size_t count = 0;
  for (const Call& c : program_->calls) count += c.in.size() + c.out.size();
  call_views_.resize(count);
}

void Executor::clear_profile() {
  call_times_.assign(call_times_.size(), {});
}

void Executor::rebind(Bindings bindings) {
  bindings_ = std::move(bindings);
  prepared_for_ = false;
  force_prologue_ = true;
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
      case Place::constant:
        v.data = const_cast<std::byte*>(program_->constants[k].data.get());
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
        if (o.shape.kind == ShapeKind::recurrent) v.dims[0] = bindings_.slots;
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
    call.def->bind_dims(attrs_[c], binding);
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
    prepare_flow(c, binding);
  }
  force_prologue_ = force_prologue_ || memory.prologue_of == nullptr;
  binding_ = binding;
  memory_ = memory;
  prepared_for_ = true;
}

void Executor::prepare_flow(std::size_t c, const DimBinding& binding) {
  const Call& call = program_->calls[c];
  if (call.flow.kind == Flow::none) return;
  prepared_[c].skip = false;
  prepared_[c].count = call.flow.count.evaluate(binding);
  // Copies move the smaller side: an element of an array, or the whole.
  const bool writes = call.flow.kind == Flow::write;
  if (writes || call.flow.kind == Flow::read || call.flow.kind == Flow::copy)
    prepared_[c].bytes = view_bytes(
        program_->operands[static_cast<std::size_t>(writes ? call.in[0] : call.out[0])].shape, binding);
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
  run_prologue_ = force_prologue_ ||
                  (memory_.prologue_of != nullptr && *memory_.prologue_of != program_.get());
  if (trace_ != nullptr) trace_->begin_step(program_, binding_, workers.threads());
  waits_.assign(trace_ != nullptr ? static_cast<std::size_t>(workers.threads()) : 0, {});
  workers.run_phases([&](int share, int worker, std::int64_t place) noexcept {
    return phase({share, worker, workers.threads()}, place);
  });
  if (trace_ != nullptr) trace_->end_step();
  finish_gate();
  if (!failure_.empty()) {
    if (memory_.prologue_of != nullptr) *memory_.prologue_of = nullptr;
    fail(ErrorCode::invalid_argument, "{}", failure_);
  }
  if (memory_.prologue_of != nullptr) *memory_.prologue_of = program_.get();
  prologue_runs_ += run_prologue_ ? 1 : 0;
  force_prologue_ = false;
}

// The part of a phase that a share has: its part of every call up to the next barrier.
std::int64_t Executor::phase(const Share& share, std::int64_t place) noexcept {
  const bool timed = profile_ && share.number == 0;
  if (timed) end_wait();
  TraceLane* const lane = trace_ != nullptr ? trace_->lane(share.worker) : nullptr;
  Wait* const wait = lane != nullptr ? &waits_[static_cast<std::size_t>(share.worker)] : nullptr;
  if (wait != nullptr && wait->begin != 0) {
    lane->add({wait->begin, TraceLane::now(), wait->call, TraceKind::wait});
    *wait = {};
  }
  const auto meet = [&](std::size_t c, std::int64_t next) {
    if (wait != nullptr) *wait = {TraceLane::now(), static_cast<std::int32_t>(c)};
    return next;
  };
  bool behind_barrier = place % 2 != 0;
  for (auto c = static_cast<std::size_t>(place / 2); c < prepared_.size(); behind_barrier = false) {
    const Plan::CallPlan& p = plan_.calls[c];
    if (!behind_barrier) {
      if (p.zero_before && share.number == 0 && plan_.shared_zeroed_bytes > 0)
        std::memset(memory_.shared, 0, static_cast<std::size_t>(plan_.shared_zeroed_bytes));
      if (p.barrier_before) return meet(c, place_of(c, true));
    }
    const bool left_out = prepared_[c].skip || (!run_prologue_ && program_->calls[c].phase == Phase::prologue);
    const bool flow = program_->calls[c].flow.kind != Flow::none;
    // Every share reads the same condition: a barrier stands before a jump and after it.
    const std::size_t next = flow && !left_out ? next_call(c) : c + 1;
    const Clock::time_point start = timed ? Clock::now() : Clock::time_point{};
    if (!left_out) {
      const TraceSpan span(lane, TraceKind::call, c);
      flow ? run_flow(c, share.number, share.of) : run_call(c, share.number, share.of);
    }
    if (timed) {
      call_times_[c].runs += left_out ? 0 : 1;
      call_times_[c].us += us(start, Clock::now());
    }
    if (p.barrier_after && next < prepared_.size()) {
      if (timed) timed_wait_ = {c, Clock::now()};
      return meet(c, place_of(next, false));
    }
    c = next;
  }
  return Workers::kEnd;
}

// What share 0 waited after a call.
void Executor::end_wait() noexcept {
  if (timed_wait_.since == Clock::time_point{}) return;
  call_times_[timed_wait_.call].wait_us += us(timed_wait_.since, Clock::now());
  timed_wait_ = {};
}

// Where a call of control flow goes on. A step that failed in a reference ends at the next jump: its values are none
// that a loop should wait for.
std::size_t Executor::next_call(std::size_t c) const noexcept {
  const FlowStep& flow = program_->calls[c].flow;
  if (!flow.jumps()) return c + 1;
  const TensorView* in = call_views_.data() + prepared_[c].in;
  // Thread 0 is about to write failure_: the others must not look at it.
  if (flow.kind == Flow::check_count && *in[0].as<std::int32_t>() >= prepared_[c].count) return prepared_.size();
  if (!failure_.empty()) return prepared_.size();
  bool taken = flow.kind == Flow::jump;
  if (flow.kind == Flow::jump_if_not) taken = *in[0].as<std::uint8_t>() == 0;
  if (flow.kind == Flow::jump_if_done) taken = *in[0].as<std::int32_t>() >= prepared_[c].count;
  return taken ? static_cast<std::size_t>(flow.target) : c + 1;
}

void Executor::run_flow(std::size_t c, int thread, int threads) noexcept {
  const Call& call = program_->calls[c];
  const TensorView* in = call_views_.data() + prepared_[c].in;
  const TensorView* out = call_views_.data() + prepared_[c].out;
  const auto copy = [&](std::byte* to, const std::byte* from) {
    const std::int64_t begin = prepared_[c].bytes * thread / threads, end = prepared_[c].bytes * (thread + 1) / threads;
    if (end > begin) std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  };
  const auto place = [&](const TensorView& counter) {
    const std::int64_t i = *counter.as<std::int32_t>();
    return (call.flow.reverse ? prepared_[c].count - 1 - i : i) * prepared_[c].bytes;
  };
  switch (call.flow.kind) {
    case Flow::count_start:
      if (thread == 0) *out[0].as<std::int32_t>() = 0;
      break;
    case Flow::count_next:
      if (thread == 0) ++*out[0].as<std::int32_t>();
      break;
    case Flow::check_count:
      if (thread == 0 && *in[0].as<std::int32_t>() >= prepared_[c].count)
        failure_ = fmt::format("{}: the condition still holds after {} runs of the body",
                               call.origin.empty() ? std::string(call.def->name) : call.origin, prepared_[c].count);
      break;
    case Flow::copy:
      copy(out[0].as<std::byte>(), in[0].as<std::byte>());
      break;
    case Flow::read:
      copy(out[0].as<std::byte>(), in[0].as<std::byte>() + place(in[1]));
      break;
    case Flow::write:
      copy(out[0].as<std::byte>() + place(in[1]), in[0].as<std::byte>());
      break;
    default:
      break;
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
    // References that check values name their op themselves.
    const std::string_view what = e.what();
    const std::string_view place = !call.origin.empty() ? std::string_view(call.origin) : call.def->name;
    failure_ = what.starts_with(place) ? std::string(what) : fmt::format("{}: {}", place, what);
  }
}

const TensorView& Executor::output(std::size_t i) const {
  return views_[static_cast<std::size_t>(program_->outputs[i].operand)];
}

}  // namespace rlx
