#include "compiler/in_place.h"

#include <algorithm>
#include <numeric>

namespace rlx {
namespace {

class InPlace {
 public:
  explicit InPlace(Program& program) : p_(program), buffer_(program.operands.size()) {
    for (std::size_t i = 0; i < buffer_.size(); ++i) buffer_[i] = p_.operands[i].index;
  }

  void run() {
    for (std::size_t c = 0; c < p_.calls.size(); ++c) {
      const std::int32_t from = taken_by(static_cast<std::int32_t>(c));
      if (from < 0) continue;
      const std::int32_t result = p_.calls[c].out[0];
      // Calls come in order, so what is taken over has its final buffer already.
      buffer_[static_cast<std::size_t>(result)] = from;
      at(from).last = std::max(at(from).last, at(result).last);
    }
    for (Operand& o : p_.operands)
      if (o.place == Place::arena) o.index = buffer_[static_cast<std::size_t>(o.index)];
  }

 private:
  Operand& at(std::int32_t operand) { return p_.operands[static_cast<std::size_t>(operand)]; }

  // The buffer of an operand in the arena; -1 elsewhere.
  std::int32_t buffer_of(std::int32_t operand) {
    return at(operand).place == Place::arena ? buffer_[static_cast<std::size_t>(at(operand).index)] : -1;
  }

  // The buffer that result 0 of a call may lie in instead of its own; -1: none.
  std::int32_t taken_by(std::int32_t c) {
    const Call& call = p_.calls[static_cast<std::size_t>(c)];
    if (call.flow.kind != Flow::none || call.def->in_place == nullptr || call.out.empty()) return -1;
    const int k = call.def->in_place(call.attrs);
    if (k < 0 || k >= static_cast<int>(call.in.size())) return -1;
    const std::int32_t operand = call.in[static_cast<std::size_t>(k)], result = call.out[0];
    const std::int32_t buffer = buffer_of(operand);
    if (buffer < 0 || buffer_of(result) != result || at(buffer).last != c || at(operand).shape != at(result).shape)
      return -1;
    const auto in_buffer = [&](std::int32_t o) { return buffer_of(o) == buffer; };
    return std::count_if(call.in.begin(), call.in.end(), in_buffer) == 1 ? buffer : -1;
  }

  Program& p_;
  std::vector<std::int32_t> buffer_;  // per operand that was a buffer: the one that it lies in now
};

}  // namespace

void share_in_place(Program& program) { InPlace(program).run(); }

}  // namespace rlx
