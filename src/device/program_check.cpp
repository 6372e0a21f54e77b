#include "device/program_check.h"

#include <algorithm>
#include <bit>
#include <set>

#include "base/checked.h"
#include "device/view.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

constexpr std::int64_t kAlign = 64;  // of scratch
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr std::int64_t kMostCacheSize = 1 << 20;  // heads, and elements of one
constexpr std::size_t kMostOperands = 24;         // of a call, as Graph::add has it

template <typename... Args>
[[noreturn]] void bad(fmt::format_string<Args...> text, Args&&... args) {
  fail(ErrorCode::format, text, std::forward<Args>(args)...);
}

template <typename T>
const T& at(const std::vector<T>& list, std::int32_t i) {
  return list[static_cast<std::size_t>(i)];
}

// What ops infer with: graphs know caches in the plain layout, programs in the backend's.
Shape in_graph(const Shape& s) { return s.kind == ShapeKind::kv ? s.with(Layout::plain) : s; }

class ProgramChecker {
 public:
  ProgramChecker(const Program& program, const Backend& backend)
      : p_(program), backend_(backend), written_(program.operands.size(), -1) {}

  void run() {
    check_memory();
    check_names();
    for (const WeightEntry& w : p_.weights) check_weight(w);
    for (std::size_t k = 0; k < p_.constants.size(); ++k) check_constant(k);
    for (std::size_t i = 0; i < p_.operands.size(); ++i) check_operand(static_cast<std::int32_t>(i));
    for (std::size_t c = 0; c < p_.calls.size(); ++c) check_call(static_cast<std::int32_t>(c));
    for (const BoundaryEntry& o : p_.outputs) {
      read(o.operand, static_cast<std::int32_t>(p_.calls.size()), false);
      touch(o.operand, static_cast<std::int32_t>(p_.calls.size()));
    }
  }

 private:
  void check_memory() const {
    if (p_.alignment < kLeastAlignment || p_.alignment > kMostAlignment || p_.budget < 0 ||
        !std::has_single_bit(static_cast<std::uint64_t>(p_.alignment)))
      bad("an alignment of {} and a budget of {}", p_.alignment, p_.budget);
  }

  void check_names() const {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < p_.inputs.size(); ++i) {
      const Operand& o = at(p_.operands, p_.inputs[i].operand);
      if (o.place != Place::input || o.index != static_cast<std::int32_t>(i) || o.shape.is_state() ||
          o.shape.layout != Layout::plain || !names.insert(p_.inputs[i].name).second)
        bad("input \"{}\" is not the operand of its number", p_.inputs[i].name);
    }
    for (const StateEntry& s : p_.states) {
      if (!names.insert(s.name).second) bad("state \"{}\" occurs twice", s.name);
      if (s.shape.kind == ShapeKind::recurrent) check_recurrent(s);
      if (s.shape.kind != ShapeKind::kv) continue;
      const std::int64_t heads = s.shape.dim(0).constant().value_or(0), width = s.shape.dim(1).constant().value_or(0);
      if (heads < 1 || width < 1 || heads > kMostCacheSize || width > kMostCacheSize ||
          !backend_.offers_kv(s.shape.dtype, width))
        bad("state \"{}\": {} is no cache of {}", s.name, s.shape.text(), backend_.device().text());
    }
    names.clear();
    for (const BoundaryEntry& o : p_.outputs)
      if (!names.insert(o.name).second) bad("output \"{}\" occurs twice", o.name);
  }

  static void check_recurrent(const StateEntry& s) {
    std::int64_t elements = 1;
    for (const Dim d : s.shape.dims()) {
      const std::int64_t n = d.constant().value_or(0);
      if (n < 1 || n > kMostElements / elements) bad("state \"{}\" of {}", s.name, s.shape.text());
      elements *= n;
    }
  }

  // Entries are read by kernels, so the bytes must be those of the shape.
  void check_constant(std::size_t k) const {
    const ConstantEntry& c = p_.constants[k];
    if (c.shape.is_state() || !std::all_of(c.shape.dims().begin(), c.shape.dims().end(), [](Dim d) {
          return d.constant().value_or(-1) >= 0 && *d.constant() <= INT32_MAX;
        }))
      bad("constant {} of {}", k, c.shape.text());
    const bool packed = c.shape.layout != Layout::plain;
    if (packed && (!backend_.packs() || c.shape.rank() != 2 ||
                   !backend_.can_pack(c.shape.dtype, c.shape.dtype, *c.shape.dim(1).constant())))
      bad("constant {} of {}", k, c.shape.text());
    const std::int64_t bytes =
        packed ? backend_.packed_bytes(c.shape.dtype, *c.shape.dim(0).constant(), *c.shape.dim(1).constant())
               : view_bytes(c.shape, {});
    if (bytes != c.bytes) bad("constant {}: {} bytes for {}", k, c.bytes, c.shape.text());
  }

  void check_weight(const WeightEntry& w) const {
    if (w.shape.is_state() || w.shape.layout != Layout::plain) bad("weight \"{}\" of {}", w.param, w.shape.text());
    for (const Dim d : w.shape.dims()) {
      const auto n = d.constant();
      if (!n || *n < 0 || *n > kMostElements) bad("weight \"{}\" of {}", w.param, w.shape.text());
    }
    view_bytes(w.shape, {});
    if (w.transposed && (w.shape.rank() != 2 || info(w.shape.dtype).block_elements != 1))
      bad("weight \"{}\": {} has no other order of axes", w.param, w.shape.text());
    if (w.layout == Layout::plain) {
      if (w.dtype != w.shape.dtype &&
          (encoder(w.dtype) == nullptr || decoder(w.shape.dtype) == nullptr || w.shape.rank() < 1))
        bad("weight \"{}\": {} cannot become {}", w.param, w.shape.text(), name(w.dtype));
      view_bytes(w.shape.with(w.dtype), {});
      return;
    }
    // A matrix, or one for each expert.
    const bool small = std::all_of(w.shape.dims().begin(), w.shape.dims().end(),
                                   [](Dim d) { return *d.constant() <= INT32_MAX; });
    if (!backend_.packs() || w.shape.rank() < 2 || w.shape.rank() > 3 || !small ||
        !backend_.can_pack(w.shape.dtype, w.dtype, *w.shape.dim(-1).constant()))
      bad("weight \"{}\": {} cannot be packed as {}", w.param, w.shape.text(), name(w.dtype));
  }

  void check_operand(std::int32_t i) const {
    const Operand& o = at(p_.operands, i);
    const auto k = static_cast<std::size_t>(o.index);
    switch (o.place) {
      case Place::input:
        if (k >= p_.inputs.size()) bad("operand {}: no input {}", i, k);
        check_view(i, at(p_.operands, p_.inputs[k].operand).shape);
        return;
      case Place::weight: {
        if (k >= p_.weights.size()) bad("operand {}: no weight {}", i, k);
        const WeightEntry& w = p_.weights[k];
        check_view(i, w.shape.with(w.dtype).with(w.layout));
        return;
      }
      case Place::state: {
        if (k >= p_.states.size()) bad("operand {}: no state {}", i, k);
        const Shape& s = p_.states[k].shape;
        check_view(i, s.kind == ShapeKind::kv ? s.with(backend_.kv_layout()) : s);
        return;
      }
      case Place::constant:
        if (k >= p_.constants.size()) bad("operand {}: no constant {}", i, k);
        check_view(i, p_.constants[k].shape);
        return;
      case Place::arena: {
        if (k >= p_.operands.size() || o.shape.is_state()) bad("operand {}: no buffer {}", i, k);
        const Operand& root = p_.operands[k];
        if (root.place != Place::arena || root.index != o.index) bad("operand {}: {} is no buffer", i, k);
        return;
      }
    }
  }

  // Operands may read the same bytes in another shape.
  void check_view(std::int32_t i, const Shape& whole) const {
    const Shape& s = at(p_.operands, i).shape;
    if (s == whole) return;
    if (s.is_state() || whole.is_state() || s.dtype != whole.dtype || s.layout != Layout::plain ||
        whole.layout != Layout::plain || !(s.elements() == whole.elements()))
      bad("operand {}: {} is no reading of {}", i, s.text(), whole.text());
  }

  void check_call(std::int32_t c) {
    const Call& call = at(p_.calls, c);
    const OpDef& def = *call.def;
    if (def.has(Trait::source) || def.has(Trait::view) || def.infer == nullptr)
      bad("call {}: {} does no work", c, def.name);
    if (call.in.size() > kMostOperands) bad("call {}: {} operands", c, call.in.size());
    const std::size_t most = def.operands.size(), least = most - static_cast<std::size_t>(def.optional_operands);
    if (most > 0 && (call.in.size() < least || call.in.size() > most))
      bad("call {}: {} with {} operands", c, def.name, call.in.size());
    std::vector<Shape> in, in_kernel, out_kernel, out;
    // Calls of the tile registers may hand their results on in a layout of their own (compiler/keep_packed.h).
    const bool tiles = call.kernel != nullptr && call.kernel->isa == Isa::amx;
    for (const std::int32_t o : call.in) {
      const Shape& s = at(p_.operands, o).shape;
      in.push_back(tiles && in.empty() ? s.with(Layout::plain) : in_graph(s));
      in_kernel.push_back(at(p_.operands, o).shape);
      read(o, c, call.phase == Phase::prologue);
      touch(o, c);
    }
    for (const std::int32_t o : call.out) {
      out_kernel.push_back(at(p_.operands, o).shape);
      out.push_back(tiles ? out_kernel.back().with(Layout::plain) : in_graph(out_kernel.back()));
    }
    InferContext inferred(def, in);
    def.infer(call.attrs, inferred);
    if (inferred.results() != out) bad("call {}: {} gives other results than the file says", c, def.name);
    for (const DimCheck& check : inferred.checks()) check_known(check, c);
    check_kernel(c, in_kernel, tiles ? out_kernel : out);
    for (const std::int32_t o : call.out) write(o, c);
  }

  // What infer could not decide must be among the equations that every run checks.
  void check_known(const DimCheck& check, std::int32_t c) const {
    const bool known = std::any_of(p_.checks.begin(), p_.checks.end(),
                                   [&](const DimCheck& k) { return k.left == check.left && k.right == check.right; });
    if (!known) bad("call {}: the equation {} = {} is missing", c, check.left.text(), check.right.text());
  }

  void check_kernel(std::int32_t c, const std::vector<Shape>& in, const std::vector<Shape>& out) const {
    const Call& call = at(p_.calls, c);
    if (call.kernel != nullptr) {
      if (call.kernel->accepts != nullptr && !call.kernel->accepts({call.attrs.data(), in, out}))
        bad("call {}: {} does not take these operands", c, call.kernel->name);
      return;
    }
    const bool plain = std::all_of(in.begin(), in.end(), [](const Shape& s) { return s.layout == Layout::plain; });
    if (call.def->reference == nullptr || !backend_.reference_allowed() || !plain)
      bad("call {}: {} has no reference that could run", c, call.def->name);
  }

  void read(std::int32_t operand, std::int32_t c, bool prologue) const {
    const Operand& o = at(p_.operands, operand);
    if (o.place != Place::arena) return;
    const std::int32_t by = at(written_, o.index);
    if (by < 0) bad("call {} reads the buffer {} before it is written", c, o.index);
    if (prologue && at(p_.calls, by).phase != Phase::prologue)
      bad("call {} of the prologue reads the buffer {} of a later phase", c, o.index);
  }

  // Result 0 may lie in the buffer of the operand that its op names, and of no other.
  bool takes_over(const Call& call, std::int32_t operand) const {
    const OpDef& def = *call.def;
    const int k = def.in_place != nullptr && operand == call.out[0] ? def.in_place(call.attrs) : -1;
    if (k < 0 || k >= static_cast<int>(call.in.size())) return false;
    const Operand &from = at(p_.operands, at(call.in, k)), &to = at(p_.operands, operand);
    const auto in_buffer = [&](std::int32_t i) {
      return at(p_.operands, i).place == Place::arena && at(p_.operands, i).index == to.index;
    };
    return from.place == Place::arena && from.index == to.index && from.shape == to.shape &&
           std::count_if(call.in.begin(), call.in.end(), in_buffer) == 1;
  }

  void write(std::int32_t operand, std::int32_t c) {
    const Operand& o = at(p_.operands, operand);
    const Call& call = at(p_.calls, c);
    if (o.place != Place::arena) {
      // A state is updated by a call that reads it, too.
      const bool is_operand = std::any_of(call.in.begin(), call.in.end(), [&](std::int32_t i) {
        return at(p_.operands, i).place == o.place && at(p_.operands, i).index == o.index;
      });
      if (o.place != Place::state || !is_operand) bad("call {} writes what is no buffer", c);
      return;
    }
    const bool taken_over = takes_over(call, operand);
    if (!taken_over)
      for (const std::int32_t i : call.in)
        if (at(p_.operands, i).place == Place::arena && at(p_.operands, i).index == o.index)
          bad("call {} writes the buffer {} that it reads", c, o.index);
    std::int32_t& by = written_[static_cast<std::size_t>(o.index)];
    if (by >= 0 && !taken_over) bad("call {} writes the buffer {} a second time", c, o.index);
    by = c;
    touch(operand, c);
    // Later steps read what the prologue left.
    if (call.phase != Phase::prologue) return;
    if (!o.shape.elements().constant()) bad("call {} of the prologue makes {}, a size of the step", c, o.shape.text());
    touch(operand, 0);
    touch(operand, static_cast<std::int32_t>(p_.calls.size()));
  }

  void touch(std::int32_t operand, std::int32_t c) const {
    const Operand& o = at(p_.operands, operand);
    if (o.place != Place::arena) return;
    const Operand& root = at(p_.operands, o.index);
    if (c < root.first || c > root.last) bad("call {} lies outside the live range of the buffer {}", c, o.index);
  }

  const Program& p_;
  const Backend& backend_;
  std::vector<std::int32_t> written_;  // per buffer: the call that wrote it last
};

struct Buffer {
  std::int64_t from = 0, to = 0;
  std::int32_t first = 0, last = 0;
};

// Buffers of a plan in the order of their first call; those that no call touches hold nothing.
std::vector<Buffer> buffers_of(const Program& program, const Plan& plan) {
  std::vector<std::int64_t> bytes(program.operands.size(), 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Operand& o = program.operands[i];
    if (o.place != Place::arena) {
      if (plan.offsets[i] != -1) bad("operand {}: an offset outside the arena", i);
      continue;
    }
    if (plan.offsets[i] != at(plan.offsets, o.index) || plan.offsets[i] < 0 ||
        plan.offsets[i] % program.alignment != 0)
      bad("operand {}: offset {}", i, plan.offsets[i]);
    std::int64_t& all = bytes[static_cast<std::size_t>(o.index)];
    all = std::max(all, plan.bytes[i]);
  }
  std::vector<Buffer> list;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const Operand& o = program.operands[i];
    if (o.place != Place::arena || o.index != static_cast<std::int32_t>(i) || bytes[i] == 0 || o.last < o.first)
      continue;
    sum = require(checked_add(sum, round_up(bytes[i], program.alignment)), "arena");
    if (plan.offsets[i] > plan.arena_bytes - bytes[i]) bad("operand {} leaves the arena", i);
    list.push_back({plan.offsets[i], plan.offsets[i] + bytes[i], o.first, o.last});
  }
  if (plan.arena_bytes > sum) bad("an arena of {} bytes for buffers of {}", plan.arena_bytes, sum);
  std::sort(list.begin(), list.end(), [](const Buffer& a, const Buffer& b) { return a.first < b.first; });
  return list;
}

void check_overlaps(const std::vector<Buffer>& buffers) {
  std::vector<const Buffer*> alive;
  for (const Buffer& b : buffers) {
    std::erase_if(alive, [&](const Buffer* a) { return a->last < b.first; });
    for (const Buffer* a : alive)
      if (a->from < b.to && b.from < a->to) bad("buffers at {} and {} overlap while both are alive", a->from, b.from);
    alive.push_back(&b);
  }
}

// Walks the calls as the executor does: what calls since the last barrier touched, and who has the shared area.
class BarrierChecker {
 public:
  BarrierChecker(const Program& program, const Plan& plan) : p_(program), plan_(plan) {}

  void run() {
    for (std::size_t c = 0; c < p_.calls.size(); ++c) {
      const Plan::CallPlan& mine = plan_.calls[c];
      if (c > 0 && plan_.calls[c - 1].barrier_after) meet();
      if (mine.zero_before) {
        if (used_) bad("call {}: the shared area is cleared while it is in use", c);
        dirty_ = false;
        clearing_ = true;
      }
      if (mine.barrier_before) meet();
      if (mine.scratch.shared > 0) take_shared(c);
      for (const std::int32_t o : p_.calls[c].in) check(c, o, false);
      for (const std::int32_t o : p_.calls[c].out) check(c, o, true);
      open_.insert(open_.end(), own_.begin(), own_.end());
      own_.clear();
    }
  }

 private:
  struct Range {
    std::int64_t from, to;
    bool write;
  };

  void meet() {
    open_.clear();
    used_ = clearing_ = false;
  }

  void take_shared(std::size_t c) {
    if (dirty_ || clearing_ || used_) bad("call {}: the shared area is not clear", c);
    dirty_ = used_ = true;
  }

  void check(std::size_t c, std::int32_t operand, bool write) {
    const Operand& o = at(p_.operands, operand);
    Range mine{0, 0, write};
    if (o.place == Place::arena) {
      mine.from = at(plan_.offsets, operand);
      mine.to = mine.from + at(plan_.bytes, operand);
    } else if (o.place == Place::state) {
      mine.from = -2 - std::int64_t{o.index};  // states lie beyond every offset
      mine.to = mine.from + 1;
    } else {
      return;
    }
    for (const Range& r : open_)
      if ((r.write || write) && r.from < mine.to && mine.from < r.to) bad("call {}: a barrier before it is missing", c);
    own_.push_back(mine);
  }

  const Program& p_;
  const Plan& plan_;
  std::vector<Range> open_, own_;
  bool dirty_ = true, clearing_ = false, used_ = false;  // the step before left the area dirty
};

}  // namespace

void check_program(const Program& program, const Backend& backend) { ProgramChecker(program, backend).run(); }

void derive_plan(const Program& program, Plan& plan) {
  std::vector<TensorView> views;
  views.reserve(program.operands.size());
  plan.bytes.clear();
  plan.bytes.reserve(program.operands.size());
  for (const Operand& o : program.operands) {
    for (const Dim d : o.shape.dims())
      if (const std::int64_t n = d.evaluate(plan.upper); n > kMostElements)
        fail(ErrorCode::limit, "{}: {} has a size of {}, expected at most {}", program.name, o.shape.text(), n,
             kMostElements);
    plan.bytes.push_back(o.place == Place::arena || o.place == Place::input ? view_bytes(o.shape, plan.upper) : 0);
    views.push_back(make_view(o.shape, plan.upper));
  }
  plan.scratch_per_worker = plan.shared_bytes = plan.shared_zeroed_bytes = 0;
  plan.calls.resize(program.calls.size());
  std::vector<TensorView> in, out;
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    const Call& call = program.calls[c];
    if (call.kernel == nullptr || call.kernel->scratch == nullptr) continue;
    in.clear();
    out.clear();
    for (const std::int32_t o : call.in) in.push_back(at(views, o));
    for (const std::int32_t o : call.out) out.push_back(at(views, o));
    const ScratchNeed need =
        call.kernel->scratch({call.attrs.data(), in.data(), out.data(), plan.threads, plan.max_context});
    plan.calls[c].scratch = need;
    plan.scratch_per_worker = std::max(plan.scratch_per_worker, round_up(need.per_worker, kAlign));
    plan.shared_bytes = std::max(plan.shared_bytes, round_up(need.shared, kAlign));
    plan.shared_zeroed_bytes = std::max(plan.shared_zeroed_bytes, need.shared_zeroed);
  }
}

void check_plan(const Program& program, const Plan& plan) {
  if (plan.offsets.size() != program.operands.size() || plan.calls.size() != program.calls.size())
    bad("a plan of {} operands and {} calls for a program of {} and {}", plan.offsets.size(), plan.calls.size(),
        program.operands.size(), program.calls.size());
  for (const DimCheck& c : program.checks)
    if (c.left.evaluate(plan.upper) != c.right.evaluate(plan.upper))
      bad("{}: {} is not {}", c.message, c.left.text(), c.right.text());
  check_overlaps(buffers_of(program, plan));
  BarrierChecker(program, plan).run();
}

}  // namespace rlx
