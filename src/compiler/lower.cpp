#include "compiler/lower.h"

#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "compiler/in_place.h"
#include "compiler/keep_packed.h"
#include "compiler/phase.h"
#include "ir/source.h"
#include "ops/access.h"
#include "ops/control.h"
#include "ops/quant.h"

namespace rlx {
namespace {

bool listed(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string operand_types(const Graph& graph, const Node& node) {
  std::string text;
  for (Value v : node.inputs) text += (text.empty() ? "" : ", ") + graph.shape(v).text();
  return text;
}

// The program under construction, and what all graphs that go into it share.
struct Target {
  const CompileOptions& options;
  const Backend& backend;
  DispatchReport& report;
  Program program;
  std::vector<std::pair<std::int32_t, std::int32_t>> loops;  // first and last call; an inner one before the outer

  std::int32_t new_operand(const Shape& shape, Place place, std::int32_t index) {
    program.operands.push_back({shape, place, index, 0, 0});
    return static_cast<std::int32_t>(program.operands.size()) - 1;
  }
  std::int32_t new_buffer(const Shape& shape) {
    return new_operand(shape, Place::arena, static_cast<std::int32_t>(program.operands.size()));
  }
  std::int32_t new_constant(const Shape& shape, std::shared_ptr<const std::byte[]> data, std::int64_t bytes) {
    program.constants.push_back({shape, std::move(data), bytes});
    return new_operand(shape, Place::constant, static_cast<std::int32_t>(program.constants.size()) - 1);
  }
  std::int32_t new_constant(const Shape& shape, Tensor value) {
    const auto keep = std::make_shared<const Tensor>(std::move(value));
    return new_constant(shape, {keep, keep->data()}, keep->byte_size());
  }
  std::int32_t next_call() const { return static_cast<std::int32_t>(program.calls.size()); }
  // The operand whose buffer this is.
  std::int32_t root(std::int32_t operand) const {
    const Operand& o = program.operands[static_cast<std::size_t>(operand)];
    return o.place == Place::arena ? o.index : operand;
  }
};

// A weight that stands in the graph, as the weight store would make it.
std::int32_t pack_constant(Target& target, const Node& pack, const Tensor& value) {
  const Shape& shape = pack.results[0];
  if (shape.layout == Layout::plain) {
    Tensor out = Tensor::zeros(value.dims(), shape.dtype);
    const TensorView from = access::view_of(value), to = access::view_of(out);
    KernelArgs args;
    args.in = &from;
    args.out = &to;
    args.inputs = args.outputs = 1;
    pack.def->reference(pack.attrs, args);
    return target.new_constant(shape, std::move(out));
  }
  const std::int64_t n = value.dims()[0], k = value.dims()[1];
  const std::int64_t bytes = target.backend.packed_bytes(shape.dtype, n, k);
  const auto panels = std::make_shared<Tensor>(Tensor::zeros({bytes}, DType::u8));
  target.backend.pack({value.data(), value.dtype(), shape.dtype, n, k, panels->mutable_data()}, 0,
                      ceil_div(n, std::int64_t{16}));
  return target.new_constant(shape, {panels, panels->data()}, bytes);
}

// Writes the calls of one graph: of the whole, or of a sub-graph in the middle of it.
class Lowering {
 public:
  Lowering(const Graph& graph, Target& target)
      : graph_(graph),
        target_(target),
        phases_(derive_phases(graph)),
        read_unpacked_(find_read_unpacked()),
        operands_(graph.nodes().size()) {}
  // A sub-graph of a node: its inputs are these operands, and it runs when the node does.
  Lowering(const Graph& graph, Target& target, std::vector<std::int32_t> inputs, Phase phase, std::string prefix)
      : Lowering(graph, target) {
    given_ = std::move(inputs);
    is_subgraph_ = true;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) phases_.set(static_cast<std::int32_t>(i), phase);
    prefix_ = std::move(prefix);
  }

  // The operands of the graph's outputs.
  std::vector<std::int32_t> run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      lower_node(static_cast<std::int32_t>(i));
    std::vector<std::int32_t> outputs;
    for (const Output& o : graph_.outputs()) outputs.push_back(operand(o.value));
    return outputs;
  }

 private:
  std::int32_t operand(Value v) const {
    return operands_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }

  // The param behind a value, through an exchange of its axes; -1 for another node.
  std::int32_t param_behind(Value v) const {
    const Node& n = graph_.node(v);
    const Value source = n.is<TransposeWeight>() ? n.inputs[0] : v;
    return graph_.node(source).is<Param>() ? source.node : -1;
  }

  // Nodes whose result something but a packing reads.
  std::vector<bool> find_read_unpacked() const {
    std::vector<bool> read(graph_.nodes().size(), false);
    for (const Node& n : graph_.nodes())
      if (!n.is<Pack>())
        for (Value v : n.inputs) read[static_cast<std::size_t>(v.node)] = true;
    for (const Output& o : graph_.outputs()) read[static_cast<std::size_t>(o.value.node)] = true;
    return read;
  }

  // The entry holds `stored` (a param, perhaps with its axes exchanged) as `shape` has it.
  std::int32_t new_weight(Value stored, const Shape& shape) {
    const Node& param = graph_.node(param_behind(stored));
    target_.program.weights.push_back({param.name, shape.dtype, shape.layout, graph_.shape(stored),
                                       graph_.node(stored).is<TransposeWeight>()});
    return target_.new_operand(shape, Place::weight,
                               static_cast<std::int32_t>(target_.program.weights.size()) - 1);
  }

  std::int32_t new_input(const Node& n) {
    if (is_subgraph_) return given_[next_given_++];
    Program& program = target_.program;
    const std::int32_t o =
        target_.new_operand(n.results[0], Place::input, static_cast<std::int32_t>(program.inputs.size()));
    program.inputs.push_back({n.name, o});
    return o;
  }

  std::int32_t new_state(const Node& n) {
    Program& program = target_.program;
    const Shape& shape = n.results[0];
    program.states.push_back({n.name, shape});
    return target_.new_operand(
        shape.with(shape.kind == ShapeKind::kv ? target_.backend.kv_layout() : Layout::plain), Place::state,
        static_cast<std::int32_t>(program.states.size()) - 1);
  }

  void lower_node(std::int32_t i) {
    const Node& n = graph_.node(i);
    auto& mine = operands_[static_cast<std::size_t>(i)];
    const bool unread = !read_unpacked_[static_cast<std::size_t>(i)];
    if (n.is<Input>()) {
      mine = {new_input(n)};
    } else if (n.is<State>()) {
      mine = {new_state(n)};
    } else if (const ConstantData* data = graph_.constant_of({i, 0})) {
      mine = {unread ? -1 : target_.new_constant(n.results[0], data->value)};
    } else if (n.is<TransposeWeight>() && param_behind({i, 0}) >= 0 && unread) {
      mine = {-1};  // packing reads the param itself
      rewritten(i, "the weight store packs the param with its axes exchanged");
    } else if (n.is<Param>() || (n.is<TransposeWeight>() && param_behind({i, 0}) >= 0)) {
      mine = {new_weight({i, 0}, n.results[0])};
      if (!n.is<Param>()) rewritten(i, "the weight store keeps the param with its axes exchanged");
    } else if (n.is<Pack>() && param_behind(n.inputs[0]) >= 0) {
      // No call: the weight store packs the entry when it is first bound.
      mine = {new_weight(n.inputs[0], n.results[0])};
      rewritten(i, "the weight store packs the param once for all executables");
    } else if (n.is<Pack>() && graph_.constant_of(n.inputs[0]) != nullptr) {
      mine = {pack_constant(target_, n, graph_.constant_of(n.inputs[0])->value)};
      rewritten(i, "the constant is packed in the program");
    } else if (n.def->has(Trait::view)) {
      const Operand o = target_.program.operands[static_cast<std::size_t>(operand(n.inputs[0]))];
      mine = {target_.new_operand(n.results[0], o.place, o.index)};
      target_.report.rows.push_back({label(i), std::string(n.def->name), DispatchKind::view, "", ""});
    } else if (n.def->control != nullptr) {
      mine = lower_control(i);
    } else {
      lower_call(i, mine);
    }
  }

  std::string label(std::int32_t i) const {
    const Node& n = graph_.node(i);
    return prefix_ + (n.origin.empty() ? fmt::format("%{}", i) : fmt::format("%{} {}", i, n.origin));
  }

  void rewritten(std::int32_t i, std::string_view reason) {
    target_.report.rows.push_back(
        {label(i), std::string(graph_.node(i).def->name), DispatchKind::rewritten, "", std::string(reason)});
  }

  // Control flow (program.h, Flow). A value that leaves a branch or an iteration is copied to the place that the next
  // part reads.
  std::int32_t flow(std::int32_t i, FlowStep step, std::vector<std::int32_t> in, std::vector<std::int32_t> out) {
    const Node& n = graph_.node(i);
    target_.program.calls.push_back(
        {n.def, nullptr, n.attrs, std::move(in), std::move(out), phases_.get(i), n.origin, step});
    return target_.next_call() - 1;
  }
  void copy(std::int32_t i, std::int32_t to, std::int32_t from) {
    if (to != from) flow(i, {Flow::copy, -1, {}, false}, {from}, {to});
  }
  std::vector<std::int32_t> nested(std::int32_t i, GraphRef ref, std::string_view what,
                                   std::vector<std::int32_t> inputs) {
    return Lowering(graph_.subgraph(ref), target_, std::move(inputs), phases_.get(i),
                    fmt::format("{} {} ", label(i), what))
        .run();
  }
  FlowStep& step_of(std::int32_t call) { return target_.program.calls[static_cast<std::size_t>(call)].flow; }

  std::vector<std::int32_t> lower_control(std::int32_t i) {
    const Node& n = graph_.node(i);
    target_.report.rows.push_back({label(i), std::string(n.def->name), DispatchKind::native, "flow", ""});
    if (const auto op = n.as<If>()) return lower_if(i, *op);
    if (const auto op = n.as<While>()) return lower_while(i, *op);
    if (const auto op = n.as<Scan>()) return lower_scan(i, *op);
    fail(ErrorCode::unsupported, "{}: {} has no form that {} can run", n.origin.empty() ? graph_.name : n.origin,
         n.def->name, target_.backend.device().text());
  }

  std::vector<std::int32_t> lower_if(std::int32_t i, const If& op) {
    const Node& n = graph_.node(i);
    std::vector<std::int32_t> inputs = operands_of(n, 1, n.inputs.size()), results;
    for (const Shape& s : n.results) results.push_back(target_.new_buffer(s));
    const std::int32_t branch = flow(i, {Flow::jump_if_not, -1, {}, false}, {operand(n.inputs[0])}, {});
    const std::vector<std::int32_t> yes = nested(i, op.then_graph, "then", inputs);
    for (std::size_t k = 0; k < results.size(); ++k) copy(i, results[k], yes[k]);
    const std::int32_t over = flow(i, {Flow::jump, -1, {}, false}, {}, {});
    step_of(branch).target = target_.next_call();
    const std::vector<std::int32_t> no = nested(i, op.else_graph, "else", std::move(inputs));
    for (std::size_t k = 0; k < results.size(); ++k) copy(i, results[k], no[k]);
    step_of(over).target = target_.next_call();
    return results;
  }

  std::vector<std::int32_t> lower_while(std::int32_t i, const While& op) {
    const Node& n = graph_.node(i);
    const std::vector<std::int32_t> values = begin_loop(i, n.inputs.size());
    const std::int32_t counter = new_counter(i);
    const std::int32_t begin = target_.next_call();
    const std::vector<std::int32_t> test = nested(i, op.condition, "condition", values);
    const std::int32_t leave = flow(i, {Flow::jump_if_not, -1, {}, false}, {test[0]}, {});
    flow(i, {Flow::check_count, -1, Dim(op.limit), false}, {counter}, {});
    assign(i, values, nested(i, op.body, "body", values));
    end_loop(i, begin, leave, counter);
    return values;
  }

  std::vector<std::int32_t> lower_scan(std::int32_t i, const Scan& op) {
    const Node& n = graph_.node(i);
    const auto carried = static_cast<std::size_t>(op.carried), scanned = static_cast<std::size_t>(op.scanned);
    const std::vector<std::int32_t> values = begin_loop(i, carried);
    std::vector<std::int32_t> stacks;
    for (std::size_t k = carried; k < n.results.size(); ++k) stacks.push_back(target_.new_buffer(n.results[k]));
    const std::int32_t counter = new_counter(i);
    const std::int32_t begin = target_.next_call();
    const std::int32_t leave = flow(i, {Flow::jump_if_done, -1, op.length, false}, {counter}, {});
    std::vector<std::int32_t> inputs = values;
    for (std::size_t k = carried; k < carried + scanned; ++k) {
      const Shape& s = graph_.shape(n.inputs[k]);
      inputs.push_back(target_.new_buffer(Shape(s.dims().subspan(1), s.dtype)));
      flow(i, {Flow::read, -1, op.length, op.reverse}, {operand(n.inputs[k]), counter}, {inputs.back()});
    }
    for (std::int32_t o : operands_of(n, carried + scanned, n.inputs.size())) inputs.push_back(o);
    std::vector<std::int32_t> next = nested(i, op.body, "body", std::move(inputs));
    // Before the carried values change: an element may be one of them.
    for (std::size_t k = 0; k < stacks.size(); ++k)
      flow(i, {Flow::write, -1, op.length, op.reverse}, {next[carried + k], counter}, {stacks[k]});
    next.resize(carried);
    assign(i, values, std::move(next));
    end_loop(i, begin, leave, counter);
    std::vector<std::int32_t> results = values;
    results.insert(results.end(), stacks.begin(), stacks.end());
    return results;
  }

  std::vector<std::int32_t> operands_of(const Node& n, std::size_t begin, std::size_t end) const {
    std::vector<std::int32_t> list;
    for (std::size_t k = begin; k < end; ++k) list.push_back(operand(n.inputs[k]));
    return list;
  }

  // Buffers of the carried values, with the first values in them.
  std::vector<std::int32_t> begin_loop(std::int32_t i, std::size_t carried) {
    const Node& n = graph_.node(i);
    std::vector<std::int32_t> values;
    for (std::size_t k = 0; k < carried; ++k) {
      values.push_back(target_.new_buffer(n.results[k]));
      copy(i, values.back(), operand(n.inputs[k]));
    }
    return values;
  }
  std::int32_t new_counter(std::int32_t i) {
    const std::int32_t counter = target_.new_buffer(Shape({}, DType::i32));
    flow(i, {Flow::count_start, -1, {}, false}, {}, {counter});
    return counter;
  }
  // All carried values change at once: one that is read from the place of another is moved out of the way first.
  void assign(std::int32_t i, const std::vector<std::int32_t>& values, std::vector<std::int32_t> next) {
    for (std::size_t k = 0; k < values.size(); ++k) {
      const bool from_values = std::find(values.begin(), values.end(), target_.root(next[k])) != values.end();
      if (next[k] == values[k] || !from_values) continue;
      const std::int32_t moved = target_.new_buffer(graph_.node(i).results[k]);
      copy(i, moved, next[k]);
      next[k] = moved;
    }
    for (std::size_t k = 0; k < values.size(); ++k) copy(i, values[k], next[k]);
  }
  void end_loop(std::int32_t i, std::int32_t begin, std::int32_t leave, std::int32_t counter) {
    flow(i, {Flow::count_next, -1, {}, false}, {counter}, {counter});
    const std::int32_t last = flow(i, {Flow::jump, begin, {}, false}, {}, {});
    step_of(leave).target = target_.next_call();
    target_.loops.emplace_back(begin, last);
  }

  void lower_call(std::int32_t i, std::vector<std::int32_t>& mine) {
    const Node& n = graph_.node(i);
    KernelChoice choice = choose_kernel(graph_, n, target_.options.dispatch, target_.backend);
    DispatchRow row{label(i), std::string(n.def->name),
                    choice.common ? DispatchKind::common : DispatchKind::native,
                    choice.kernel != nullptr ? std::string(choice.kernel->name) : "",
                    choice.reason};
    if (choice.kernel == nullptr) {
      row.kind = DispatchKind::reference;
      row.kernel = "reference";
      require_reference(n, choice.reason);
    }
    target_.report.rows.push_back(std::move(row));
    Call call{n.def, choice.kernel, n.attrs, {}, {}, phases_.get(i), n.origin, {}};
    for (Value v : n.inputs) call.in.push_back(operand(v));
    for (std::size_t k = 0; k < n.results.size(); ++k) {
      // An updated state is the state: the planner gives it the same place.
      const std::int32_t o =
          n.results[k].is_updated() ? state_operand(n) : target_.new_buffer(n.results[k]);
      mine.push_back(o);
      call.out.push_back(o);
    }
    target_.program.calls.push_back(std::move(call));
  }

  std::int32_t state_operand(const Node& n) const {
    for (Value v : n.inputs)
      if (graph_.shape(v).is_updated()) return operand(v);
    RLX_CHECK(false, "a state result without a state operand");
    return -1;
  }

  // The interpreter's kernel on the host reads plain layouts only.
  void require_reference(const Node& n, const std::string& reason) const {
    const bool plain = std::all_of(n.inputs.begin(), n.inputs.end(), [&](Value v) {
      const Shape& s = graph_.shape(v);
      return s.layout == Layout::plain &&
             (s.kind != ShapeKind::kv || target_.backend.kv_layout() == Layout::plain);
    });
    if (n.def->reference != nullptr && target_.backend.reference_allowed() && plain) return;
    fail(ErrorCode::unsupported, "{}: {} has no form that {} can run: {}({})",
         n.origin.empty() ? graph_.name : n.origin, n.def->name, target_.backend.device().text(), reason,
         operand_types(graph_, n));
  }

  const Graph& graph_;
  Target& target_;
  PhaseSchedule phases_;
  std::vector<bool> read_unpacked_;
  std::vector<std::vector<std::int32_t>> operands_;
  bool is_subgraph_ = false;
  std::vector<std::int32_t> given_;  // of a sub-graph: the operands of its inputs
  std::size_t next_given_ = 0;
  std::string prefix_;
};

// A buffer lives from the call that writes it to the last that reads it, over all its aliases.
// Outputs live to the end.
void set_live_ranges(Target& target) {
  Program& program = target.program;
  auto& all = program.operands;
  const auto calls = static_cast<std::int32_t>(program.calls.size());
  for (Operand& o : all) o.first = calls, o.last = -1;
  const auto touch = [&](std::int32_t operand, std::int32_t at) {
    if (all[static_cast<std::size_t>(operand)].place != Place::arena) return;
    Operand& root = all[static_cast<std::size_t>(all[static_cast<std::size_t>(operand)].index)];
    root.first = std::min(root.first, at);
    root.last = std::max(root.last, at);
  };
  for (std::int32_t c = 0; c < calls; ++c) {
    for (std::int32_t o : program.calls[static_cast<std::size_t>(c)].in) touch(o, c);
    for (std::int32_t o : program.calls[static_cast<std::size_t>(c)].out) touch(o, c);
  }
  for (const BoundaryEntry& o : program.outputs) touch(o.operand, calls);
  // What enters or leaves a loop must last as long as the loop does: the list shows one iteration of it.
  for (const auto& [begin, end] : target.loops)
    for (Operand& o : all)
      if (o.first <= end && o.last >= begin && (o.first < begin || o.last > end)) {
        o.first = std::min(o.first, begin);
        o.last = std::max(o.last, end);
      }
  // Results of the prologue are read by every later step: nothing else may take their place, not
  // even before they are first read.
  for (const Call& c : program.calls)
    if (c.phase == Phase::prologue)
      for (std::int32_t o : c.out) {
        touch(o, 0);
        touch(o, calls);
      }
}
}  // namespace

bool asks_for_common(const KernelDispatchConfig& config, std::string_view op) {
  if (listed(config.force_native, op)) return false;
  return listed(config.force_common, op) || config.policy == DispatchPolicy::force_common;
}

KernelChoice choose_kernel(const Graph& graph, const Node& node, const KernelDispatchConfig& config,
                           const Backend& backend) {
  KernelChoice choice;
  choice.common = asks_for_common(config, node.def->name);
  const bool native_forced = listed(config.force_native, node.def->name) ||
                             (config.policy == DispatchPolicy::force_native && !choice.common);
  std::vector<Shape> in;
  for (Value v : node.inputs) {
    const Shape& s = graph.shape(v);
    in.push_back(s.kind == ShapeKind::kv ? s.with(backend.kv_layout()) : s);
  }
  const KernelQuery query{node.attrs.data(), in, node.results};
  bool any = false;
  for (const Kernel& row : backend.kernels()) {
    if (row.op != node.def->name) continue;
    if (row.isa == Isa::amx && !config.fast) continue;
    any = true;
    if (row.accepts != nullptr && !row.accepts(query)) continue;
    choice.kernel = &row;
    break;
  }
  if (choice.common)
    choice.reason = "the dispatch config asks for the common form";
  else if (choice.kernel == nullptr)
    choice.reason =
        any ? fmt::format("no row of {} takes ({})", node.def->name, operand_types(graph, node))
            : fmt::format("{} has no kernel for {}", backend.device().text(), node.def->name);
  if (choice.kernel == nullptr && native_forced) {
    const DispatchRow row{node.origin.empty() ? graph.name : node.origin, std::string(node.def->name),
                          DispatchKind::unsupported, "", choice.reason};
    fail(ErrorCode::unsupported, "{}: native kernels are forced, but {} (report: {})", row.node, choice.reason,
         row.text());
  }
  return choice;
}

namespace {

void check_memory_options(const CompileOptions& options) {
  if (options.alignment < kLeastAlignment || options.alignment > kMostAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(options.alignment)))
    fail(ErrorCode::invalid_argument, "alignment: expected a power of two from {} to {}, found {}", kLeastAlignment,
         kMostAlignment, options.alignment);
  if (options.budget < 0)
    fail(ErrorCode::invalid_argument, "budget: expected bytes, or 0 for no limit, found {}", options.budget);
}

}  // namespace

Program lower(const Graph& graph, const CompileOptions& options, const Backend& backend,
              DispatchReport& report) {
  check_memory_options(options);
  Target target{options, backend, report, {}, {}};
  target.program.name = graph.name;
  target.program.alignment = options.alignment;
  target.program.budget = options.budget;
  target.program.checks.assign(graph.checks().begin(), graph.checks().end());
  const std::vector<std::int32_t> outputs = Lowering(graph, target).run();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    target.program.outputs.push_back({graph.outputs()[i].name, outputs[i]});
  keep_packed(target.program);
  set_live_ranges(target);
  share_in_place(target.program);
  return std::move(target.program);
}

}  // namespace rlx
