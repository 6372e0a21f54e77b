#include "compiler/manifest.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "device/view.h"

namespace rlx {
namespace {

// Whether a call makes this operand; the others in the arena read what a call made in another shape.
bool is_result(const Program& program, std::int32_t operand) {
  return std::any_of(program.calls.begin(), program.calls.end(), [&](const Call& c) {
    return std::find(c.out.begin(), c.out.end(), operand) != c.out.end();
  });
}

BindingEntry make_entry(const Lir& lir, std::string name, std::int32_t operand, const Shape& shape) {
  const Operand& o = lir.program->operands[static_cast<std::size_t>(operand)];
  BindingEntry e;
  e.name = std::move(name);
  e.node = operand;
  e.shape = shape.bind(lir.plan->upper);
  e.place = o.place;
  e.index = o.place == Place::arena ? lir.plan->offsets[static_cast<std::size_t>(operand)] : o.index;
  e.is_view = o.place == Place::arena && !is_result(*lir.program, operand);
  if (shape.kind == ShapeKind::pages) return e;
  e.elements = shape.elements().evaluate(lir.plan->upper);
  e.bytes = view_bytes(shape, lir.plan->upper);
  return e;
}

// The param as it is set: the entry without the exchange of axes.
Shape param_shape(const WeightEntry& w) {
  if (!w.transposed) return w.shape;
  return Shape({w.shape.dim(1), w.shape.dim(0)}, w.shape.dtype);
}

// The first operand of each entry of a place, by number.
std::vector<std::int32_t> operands_of(const Program& program, Place place, std::size_t entries) {
  std::vector<std::int32_t> first(entries, -1);
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const Operand& o = program.operands[i];
    if (o.place != place) continue;
    std::int32_t& mine = first[static_cast<std::size_t>(o.index)];
    if (mine < 0) mine = static_cast<std::int32_t>(i);
  }
  return first;
}

const BindingEntry* find(const std::vector<BindingEntry>& list, std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(), [&](const BindingEntry& e) { return e.name == name; });
  return at == list.end() ? nullptr : &*at;
}

std::string prefix_of(const std::string& name, int depth) {
  std::size_t end = 0;
  for (int i = 0; i < depth; ++i) {
    const std::size_t dot = name.find('.', end == 0 ? 0 : end + 1);
    if (dot == std::string::npos) break;
    end = dot;
  }
  return name.substr(0, end);
}

void append_table(std::string& text, std::string_view kind, const std::vector<BindingEntry>& list) {
  for (const BindingEntry& e : list)
    text += fmt::format("{:<6} {:<40} {:<28} {:>12} B  {} {}{}\n", kind, e.name, e.shape.text(), e.bytes,
                        e.place == Place::arena ? "arena at" : "number", e.index, e.is_view ? " (view)" : "");
}

}  // namespace

BindingManifest BindingManifest::from_lir(const Lir& lir) {
  if (lir.plan == nullptr)
    fail(ErrorCode::invalid_argument, "{}: a manifest needs a specialised program, found a template",
         lir.program->name);
  const Program& p = *lir.program;
  BindingManifest m;
  m.graph = p.name;
  m.arena_bytes = lir.plan->arena_bytes;
  m.alignment = p.alignment;
  const auto shape_of = [&](std::int32_t o) { return p.operands[static_cast<std::size_t>(o)].shape; };
  for (const BoundaryEntry& e : p.inputs) m.inputs.push_back(make_entry(lir, e.name, e.operand, shape_of(e.operand)));
  for (const BoundaryEntry& e : p.outputs) m.outputs.push_back(make_entry(lir, e.name, e.operand, shape_of(e.operand)));
  const std::vector<std::int32_t> weights = operands_of(p, Place::weight, p.weights.size()),
                                  states = operands_of(p, Place::state, p.states.size());
  // A param that is read packed and as it is has two entries in the store and one here.
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < p.weights.size(); ++i)
    if (seen.insert(p.weights[i].param).second)
      m.params.push_back(make_entry(lir, p.weights[i].param, weights[i], param_shape(p.weights[i])));
  for (std::size_t i = 0; i < p.states.size(); ++i)
    m.states.push_back(make_entry(lir, p.states[i].name, states[i], p.states[i].shape));
  return m;
}

const BindingEntry* BindingManifest::input(std::string_view name) const { return find(inputs, name); }
const BindingEntry* BindingManifest::param(std::string_view name) const { return find(params, name); }
const BindingEntry* BindingManifest::output(std::string_view name) const { return find(outputs, name); }
const BindingEntry* BindingManifest::state(std::string_view name) const { return find(states, name); }

std::int64_t BindingManifest::total_param_bytes() const {
  std::int64_t sum = 0;
  for (const BindingEntry& e : params) sum += e.bytes;
  return sum;
}

std::vector<WeightBlock> BindingManifest::weight_blocks(int depth) const {
  std::vector<WeightBlock> blocks;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::string prefix = prefix_of(params[i].name, depth);
    auto at = std::find_if(blocks.begin(), blocks.end(), [&](const WeightBlock& b) { return b.prefix == prefix; });
    if (at == blocks.end()) at = blocks.insert(blocks.end(), {prefix, {}, 0});
    at->params.push_back(static_cast<std::int32_t>(i));
    at->bytes += params[i].bytes;
  }
  return blocks;
}

std::string BindingManifest::text() const {
  std::string text = fmt::format("{}: arena {} B, params {} B\n", graph, arena_bytes, total_param_bytes());
  append_table(text, "input", inputs);
  append_table(text, "param", params);
  append_table(text, "state", states);
  append_table(text, "output", outputs);
  return text;
}

}  // namespace rlx
