#include "device/program.h"

#include <fmt/format.h>

namespace rlx {

std::string_view name(Flow f) {
  constexpr std::string_view names[] = {"",             "jump",        "jump_if_not", "count_start", "count_next",
                                        "jump_if_done", "check_count", "copy",        "read",        "write"};
  return names[static_cast<std::size_t>(f)];
}

namespace {

std::string operand_text(const Program& p, std::int32_t i) {
  const Operand& o = p.operands[static_cast<std::size_t>(i)];
  const auto k = static_cast<std::size_t>(o.index);
  switch (o.place) {
    case Place::input:
      return "input:" + p.inputs[k].name;
    case Place::weight:
      return "weight:" + p.weights[k].param;
    case Place::state:
      return "state:" + p.states[k].name;
    case Place::arena:
      return fmt::format("%{}", i);
    case Place::constant:
      return fmt::format("constant:{}", k);
  }
  return {};
}

std::string call_text(const Program& p, const Call& c, const Plan* plan) {
  std::string text;
  for (std::int32_t o : c.out) {
    text += (text.empty() ? "" : ", ") + operand_text(p, o);
    if (plan != nullptr && p.operands[static_cast<std::size_t>(o)].place == Place::arena)
      text += fmt::format("@{}+{}", plan->offsets[static_cast<std::size_t>(o)],
                          plan->bytes[static_cast<std::size_t>(o)]);
  }
  const std::string_view form = c.flow.kind != Flow::none ? name(c.flow.kind)
                                : c.kernel != nullptr      ? c.kernel->name
                                                           : "reference";
  text += fmt::format("{}{}<{}>(", text.empty() ? "" : " = ", c.def->name, form);
  for (std::size_t i = 0; i < c.in.size(); ++i)
    text += (i > 0 ? ", " : "") + operand_text(p, c.in[i]);
  text += ")" + c.def->print(c.attrs);
  if (c.flow.target >= 0) text += fmt::format(" target={}", c.flow.target);
  text += " :";
  for (std::size_t i = 0; i < c.out.size(); ++i)
    text += (i > 0 ? ", " : " ") + p.operands[static_cast<std::size_t>(c.out[i])].shape.text();
  return text + fmt::format(" phase={}", name(c.phase)) +
         (c.origin.empty() ? "" : fmt::format(" @\"{}\"", c.origin));
}

std::string body(const Program& p, const Plan* plan) {
  std::string text;
  for (const BoundaryEntry& e : p.inputs)
    text += fmt::format("  input \"{}\" : {}\n", e.name,
                        p.operands[static_cast<std::size_t>(e.operand)].shape.text());
  for (const WeightEntry& w : p.weights)
    text += fmt::format("  weight \"{}\" : {} as {}@{}\n", w.param, w.shape.text(), name(w.dtype),
                        name(w.layout));
  for (const StateEntry& s : p.states)
    text += fmt::format("  state \"{}\" : {}\n", s.name, s.shape.text());
  for (std::size_t i = 0; i < p.constants.size(); ++i)
    text += fmt::format("  constant {} : {}\n", i, p.constants[i].shape.text());
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    text += "  " + call_text(p, p.calls[i], plan) + "\n";
    if (plan != nullptr && plan->calls[i].barrier_after) text += "  barrier\n";
  }
  for (const BoundaryEntry& e : p.outputs)
    text += fmt::format("  output \"{}\" {}\n", e.name, operand_text(p, e.operand));
  return text;
}

}  // namespace

std::string Program::text() const {
  return fmt::format("program \"{}\"\n", name) + body(*this, nullptr);
}

std::string Plan::text(const Program& program) const {
  return fmt::format("program \"{}\" for {} threads={} arena={} scratch={}x{} shared={}\n",
                     program.name, upper.text(), threads, arena_bytes, threads, scratch_per_worker,
                     shared_bytes) +
         body(program, this);
}

}  // namespace rlx
