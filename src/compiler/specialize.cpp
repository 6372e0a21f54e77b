// Specialisation of a template: sizes, places, scratch and barriers for bound upper sizes. Touches
// no weight.
#include <algorithm>

#include "base/checked.h"
#include "compiler/memory_plan.h"
#include "compiler/pipeline.h"
#include "device/program_check.h"

namespace rlx {
namespace {

void check_sizes(const Program& program, const DimBinding& upper) {
  for (const DimCheck& c : program.checks) {
    const std::int64_t l = c.left.evaluate(upper), r = c.right.evaluate(upper);
    if (l != r)
      fail(ErrorCode::shape, "{}: {} = {} but {} = {}", c.message, c.left.text(), l, c.right.text(),
           r);
  }
}

// Results of the prologue lie at the bottom of the arena, at the same offsets in every plan of the program: executables
// of several sizes that share an arena share them, and the prologue runs once.
std::vector<std::size_t> prologue_roots(const Program& program) {
  std::vector<std::size_t> roots;
  for (const Call& c : program.calls)
    if (c.phase == Phase::prologue)
      for (std::int32_t o : c.out) {
        const Operand& out = program.operands[static_cast<std::size_t>(o)];
        if (out.place != Place::arena) continue;
        const auto root = static_cast<std::size_t>(out.index);
        if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
      }
  return roots;
}

void place(const Program& program, Plan& plan) {
  std::vector<LiveBuffer> buffers(program.operands.size());
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const Operand& o = program.operands[i];
    if (o.place != Place::arena) continue;
    const auto root = static_cast<std::size_t>(o.index);
    const Operand& r = program.operands[root];
    buffers[root] = {std::max(buffers[root].bytes, plan.bytes[i]), r.first, r.last};
  }
  std::int64_t sum = 0;  // of all, so that no offset overflows
  for (LiveBuffer& b : buffers) {
    // Whole units: so every buffer begins at a multiple of the alignment.
    b.bytes = round_up(b.bytes, program.alignment);
    sum = require(checked_add(sum, b.bytes), "buffers");
  }
  const Placement placement = place_buffers(buffers, prologue_roots(program));
#ifndef NDEBUG
  check_placement(buffers, placement);
#endif
  plan.arena_bytes = placement.arena_bytes;
  plan.offsets.assign(program.operands.size(), -1);
  for (std::size_t i = 0; i < program.operands.size(); ++i)
    if (program.operands[i].place == Place::arena)
      plan.offsets[i] = placement.offsets[static_cast<std::size_t>(program.operands[i].index)];
}

void check_budget(const Program& program, const Plan& plan) {
  if (program.budget == 0) return;
  const std::int64_t scratch = plan.scratch_bytes(), need = require(checked_add(plan.arena_bytes, scratch), "memory");
  if (need <= program.budget) return;
  fail(ErrorCode::limit,
       "{}: {} needs {} bytes (arena {}, scratch {} with {} threads), above the budget of {}; expected smaller sizes "
       "or a larger budget",
       program.name, plan.upper.text(), need, plan.arena_bytes, scratch, plan.threads, program.budget);
}

// Ranges that calls since the last barrier read and wrote: arena bytes as they are, states by
// number in a space of their own.
struct Range {
  std::int64_t from, to;
  bool write;
};

class BarrierPlacer {
 public:
  BarrierPlacer(const Program& program, Plan& plan) : program_(program), plan_(plan) {}

  // A call that conflicts with one since the last barrier puts a barrier before itself.
  void run() {
    for (std::size_t c = 0; c < program_.calls.size(); ++c) {
      const std::vector<Range> mine = ranges(program_.calls[c]);
      // A jump is analysed in the order of the list only: it begins and ends with nothing open.
      const bool jumps = program_.calls[c].flow.jumps() || (c > 0 && program_.calls[c - 1].flow.jumps());
      if (c > 0) plan_.calls[c - 1].barrier_after = jumps || uses_shared(c - 1) || conflicts(mine);
      clear_shared(c);
      if (c > 0 && plan_.calls[c - 1].barrier_after) open_.clear();
      open_.insert(open_.end(), mine.begin(), mine.end());
    }
    // The last barrier is the end of the step.
    if (!plan_.calls.empty()) plan_.calls.back().barrier_after = true;
  }

 private:
  bool uses_shared(std::size_t c) const { return plan_.calls[c].scratch.shared > 0; }

  // The shared area is one for all calls and must be clear when a call begins that uses it: the
  // first call after a barrier behind its last user clears it, so that no barrier is spent on
  // clearing unless two users follow each other.
  void clear_shared(std::size_t c) {
    if (c > 0 && plan_.calls[c - 1].barrier_after) clearing_ = false;
    if (dirty_) {
      plan_.calls[c].zero_before = true;
      plan_.calls[c].barrier_before = uses_shared(c);
      clearing_ = !uses_shared(c);
    } else if (uses_shared(c) && clearing_) {
      plan_.calls[c - 1].barrier_after = true;
      clearing_ = false;
    }
    dirty_ = uses_shared(c);
  }

  void add(std::vector<Range>& out, std::int32_t operand, bool write) const {
    const auto i = static_cast<std::size_t>(operand);
    const Operand& o = program_.operands[i];
    if (o.place == Place::arena)
      out.push_back({plan_.offsets[i], plan_.offsets[i] + plan_.bytes[i], write});
    // States lie beyond every arena offset.
    if (o.place == Place::state) out.push_back({-2 - o.index, -1 - o.index, write});
  }

  std::vector<Range> ranges(const Call& call) const {
    std::vector<Range> out;
    for (std::int32_t o : call.in) add(out, o, false);
    for (std::int32_t o : call.out) add(out, o, true);
    return out;
  }

  bool conflicts(const std::vector<Range>& mine) const {
    return std::any_of(mine.begin(), mine.end(), [&](const Range& a) {
      return std::any_of(open_.begin(), open_.end(), [&](const Range& b) {
        return (a.write || b.write) && a.from < b.to && b.from < a.to;
      });
    });
  }

  const Program& program_;
  Plan& plan_;
  std::vector<Range> open_;
  bool dirty_ = true;      // the step before left counters behind
  bool clearing_ = false;  // a call without a barrier yet clears the area
};

}  // namespace

Plan specialize(const Program& program, const DimBinding& upper, const SpecializeOptions& options) {
  check_sizes(program, upper);
  Plan plan;
  plan.upper = upper;
  plan.threads = options.threads;
  plan.max_context = options.max_context;
  derive_plan(program, plan);
  place(program, plan);
  check_budget(program, plan);
  BarrierPlacer(program, plan).run();
  return plan;
}

}  // namespace rlx
