// LIR: a flat list of kernel calls over operands, with symbolic sizes; and the plan that places it
// for bound sizes. A program runs without the compiler.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/kernel.h"
#include "ir/infer.h"
#include "ir/op.h"

namespace rlx {

/// When a call runs (compiler.md, section 5): once per session, once per step, for wanted rows
/// only.
enum class Phase : std::uint8_t { prologue, steady, epilogue };
constexpr int order(Phase p) { return static_cast<int>(p); }
std::string_view name(Phase p);

/// Bounds of Program::alignment: what kernels rely on, and a page.
inline constexpr std::int64_t kLeastAlignment = 64, kMostAlignment = 4096;

/// Where the bytes of an operand lie. constant: in the program. arena: planned memory of the executable.
enum class Place : std::uint8_t { input, weight, state, arena, constant };

struct Operand {
  Shape shape;  ///< symbolic
  Place place = Place::arena;
  std::int32_t index = 0;  ///< number of the input, weight, state or constant; arena: the operand whose
                           ///< buffer this is (itself, or its alias root)
  std::int32_t first =
      0;  ///< arena roots: first and last call that touch the buffer, aliases included
  std::int32_t last = 0;
};

/// What a call of control flow does. Branches and loops are flat, too: the executor itself follows jumps, counts
/// iterations and copies values; a barrier stands on both sides of every jump (`jumps`).
enum class Flow : std::uint8_t {
  none,          ///< no control flow: a kernel or a reference
  jump,          ///< goes on at the call `target`
  jump_if_not,   ///< the same when in[0] is false
  count_start,   ///< out[0] = 0; counters are i32[]
  count_next,    ///< out[0] += 1
  jump_if_done,  ///< goes on at `target` when the counter in[0] has reached `count`
  check_count,   ///< the step fails when the counter in[0] has reached `count`: a loop without an end
  copy,          ///< out[0] = in[0]
  read,          ///< out[0] = element in[1] of the first axis of in[0]
  write,         ///< element in[1] of the first axis of out[0] = in[0]
};
std::string_view name(Flow f);
struct FlowStep {
  Flow kind = Flow::none;
  std::int32_t target = -1;
  Dim count;             ///< of jump_if_done and check_count; of read and write: elements of the axis
  bool reverse = false;  ///< read and write count from the last element
  bool jumps() const {
    return kind == Flow::jump || kind == Flow::jump_if_not || kind == Flow::jump_if_done || kind == Flow::check_count;
  }
};

struct Call {
  const OpDef* def = nullptr;
  const Kernel* kernel = nullptr;  ///< nullptr: the op's reference on the host
  AttrBlob attrs{};
  std::vector<std::int32_t> in, out;  ///< operands
  Phase phase = Phase::steady;
  std::string origin;
  FlowStep flow;  ///< of an op with sub-graphs: one step of it
};

/// An entry of the weight store that the program reads.
struct WeightEntry {
  std::string param;
  DType dtype = DType::f32;  ///< of the entry; differs from the stored one when packing converts
  Layout layout = Layout::plain;
  Shape shape;              ///< of the param, as stored but for `transposed`
  bool transposed = false;  ///< the param's two axes are exchanged before anything else
};
/// A constant as calls read it: shared by all executables of the program.
struct ConstantEntry {
  Shape shape;  ///< with the dtype and layout of the bytes
  std::shared_ptr<const std::byte[]> data;  ///< 64-byte aligned
  std::int64_t bytes = 0;
};
struct StateEntry {
  std::string name;
  Shape shape;
};
struct BoundaryEntry {
  std::string name;
  std::int32_t operand = 0;
};

struct Program {
  std::string name;
  std::vector<Operand> operands;
  std::vector<Call> calls;
  std::vector<BoundaryEntry> inputs, outputs;
  std::vector<WeightEntry> weights;
  std::vector<StateEntry> states;
  std::vector<ConstantEntry> constants;
  std::vector<DimCheck> checks;
  std::int64_t alignment = 64;  ///< of arena offsets: CompileOptions::alignment
  std::int64_t budget = 0;      ///< CompileOptions::budget
  std::string text() const;
};

/// A program placed for upper sizes.
struct Plan {
  DimBinding upper;
  std::vector<std::int64_t> offsets;  ///< per operand, bytes in the arena; -1 outside the arena
  std::vector<std::int64_t> bytes;    ///< per operand, at the upper sizes
  std::int64_t arena_bytes = 0;
  struct CallPlan {
    ScratchNeed scratch;
    bool zero_before = false;     ///< thread 0 clears the zeroed part of the shared area first
    bool barrier_before = false;  ///< after that clearing, when this call itself uses the area
    bool barrier_after =
        true;  ///< a later call needs what calls since the last barrier wrote, or the reverse
  };
  std::vector<CallPlan> calls;
  std::int64_t scratch_per_worker = 0;  ///< largest need of a call; so are the next two
  std::int64_t shared_bytes = 0, shared_zeroed_bytes = 0;
  int threads = 1;
  std::int64_t max_context = 0;
  std::int64_t scratch_bytes() const { return threads * scratch_per_worker + shared_bytes; }
  std::string text(const Program& program) const;
};

}  // namespace rlx
