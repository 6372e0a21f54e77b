#include "compiler/keep_packed.h"

#include <vector>

#include "device/kernel.h"

namespace rlx {
namespace {

KernelQuery query_of(const Program& program, const Call& call, std::vector<Shape>& in, std::vector<Shape>& out) {
  for (std::int32_t o : call.in) in.push_back(program.operands[static_cast<std::size_t>(o)].shape);
  for (std::int32_t o : call.out) out.push_back(program.operands[static_cast<std::size_t>(o)].shape);
  return {call.attrs.data(), in, out};
}

}  // namespace

void keep_packed(Program& program) {
  std::vector<int> uses(program.operands.size());
  for (const Operand& o : program.operands)
    if (o.place == Place::arena) ++uses[static_cast<std::size_t>(o.index)];  // itself and what else lies there
  for (const BoundaryEntry& o : program.outputs) ++uses[static_cast<std::size_t>(o.operand)];
  std::vector<std::vector<const Call*>> readers(program.operands.size());
  for (const Call& call : program.calls)
    for (std::int32_t o : call.in) readers[static_cast<std::size_t>(o)].push_back(&call);
  const auto takes = [&](const Call& call) {
    std::vector<Shape> in, out;
    const KernelQuery query = query_of(program, call, in, out);
    return call.kernel != nullptr && call.kernel->isa == Isa::amx && call.kernel->accepts(query);
  };
  for (const Call& writer : program.calls) {
    if (writer.kernel == nullptr || writer.kernel->isa != Isa::amx || writer.out.size() != 1) continue;
    const auto at = static_cast<std::size_t>(writer.out[0]);
    Operand& o = program.operands[at];
    if (o.place != Place::arena || uses[at] != 1 || readers[at].size() != 1 || readers[at][0]->in[0] != writer.out[0])
      continue;
    const Shape plain = o.shape;
    o.shape = plain.with(Layout::p16);
    if (!takes(writer) || !takes(*readers[at][0])) o.shape = plain;
  }
}

}  // namespace rlx
