#include "compiler/lower.h"

#include <algorithm>

#include "compiler/phase.h"
#include "ir/source.h"
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

// Writes one program from one graph.
class Lowering {
 public:
  Lowering(const Graph& graph, const CompileOptions& options, const Backend& backend,
           DispatchReport& report)
      : graph_(graph),
        options_(options),
        backend_(backend),
        report_(report),
        phases_(derive_phases(graph)),
        read_unpacked_(find_read_unpacked()) {}

  Program run() {
    program_.name = graph_.name;
    program_.checks.assign(graph_.checks().begin(), graph_.checks().end());
    operands_.resize(graph_.nodes().size());
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      lower_node(static_cast<std::int32_t>(i));
    for (const Output& o : graph_.outputs()) program_.outputs.push_back({o.name, operand(o.value)});
    set_live_ranges();
    return std::move(program_);
  }

 private:
  std::int32_t operand(Value v) const {
    return operands_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  }

  std::int32_t new_operand(const Shape& shape, Place place, std::int32_t index) {
    program_.operands.push_back({shape, place, index, 0, 0});
    return static_cast<std::int32_t>(program_.operands.size()) - 1;
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
    program_.weights.push_back({param.name, shape.dtype, shape.layout, graph_.shape(stored),
                                graph_.node(stored).is<TransposeWeight>()});
    return new_operand(shape, Place::weight,
                       static_cast<std::int32_t>(program_.weights.size()) - 1);
  }

  void lower_node(std::int32_t i) {
    const Node& n = graph_.node(i);
    auto& mine = operands_[static_cast<std::size_t>(i)];
    if (n.is<Input>()) {
      mine = {new_operand(n.results[0], Place::input,
                          static_cast<std::int32_t>(program_.inputs.size()))};
      program_.inputs.push_back({n.name, mine[0]});
    } else if (n.is<State>()) {
      program_.states.push_back({n.name, n.results[0]});
      mine = {
          new_operand(n.results[0].with(n.results[0].kind == ShapeKind::kv ? backend_.kv_layout()
                                                                           : Layout::plain),
                      Place::state, static_cast<std::int32_t>(program_.states.size()) - 1)};
    } else if (n.is<TransposeWeight>() && param_behind({i, 0}) >= 0 &&
               !read_unpacked_[static_cast<std::size_t>(i)]) {
      mine = {-1};  // packing reads the param itself
    } else if (n.is<Param>() || (n.is<TransposeWeight>() && param_behind({i, 0}) >= 0)) {
      mine = {new_weight({i, 0}, n.results[0])};
    } else if (n.is<Pack>() && param_behind(n.inputs[0]) >= 0) {
      // No call: the weight store packs the entry when it is first bound.
      mine = {new_weight(n.inputs[0], n.results[0])};
    } else if (n.def->has(Trait::view)) {
      const std::int32_t base = operand(n.inputs[0]);
      const Operand& o = program_.operands[static_cast<std::size_t>(base)];
      mine = {new_operand(n.results[0], o.place, o.index)};
      report_.rows.push_back({label(i), std::string(n.def->name), DispatchKind::view, "", ""});
    } else {
      lower_call(i, mine);
    }
  }

  std::string label(std::int32_t i) const {
    const Node& n = graph_.node(i);
    return n.origin.empty() ? fmt::format("%{}", i) : fmt::format("%{} {}", i, n.origin);
  }

  void lower_call(std::int32_t i, std::vector<std::int32_t>& mine) {
    const Node& n = graph_.node(i);
    KernelChoice choice = choose_kernel(graph_, n, options_.dispatch, backend_);
    DispatchRow row{label(i), std::string(n.def->name),
                    choice.common ? DispatchKind::common : DispatchKind::native,
                    choice.kernel != nullptr ? std::string(choice.kernel->name) : "",
                    choice.reason};
    if (choice.kernel == nullptr) {
      row.kind = DispatchKind::reference;
      row.kernel = "reference";
      require_reference(n, choice.reason);
    }
    report_.rows.push_back(std::move(row));
    Call call{n.def,   choice.kernel, n.attrs, {}, {}, phases_.get(i),
              n.origin};
    for (Value v : n.inputs) call.in.push_back(operand(v));
    for (std::size_t k = 0; k < n.results.size(); ++k) {
      // An updated state is the state: the planner gives it the same place.
      const std::int32_t o =
          n.results[k].kind == ShapeKind::kv ? state_operand(n) : arena_operand(n.results[k]);
      mine.push_back(o);
      call.out.push_back(o);
    }
    program_.calls.push_back(std::move(call));
  }

  std::int32_t state_operand(const Node& n) const {
    for (Value v : n.inputs)
      if (graph_.shape(v).kind == ShapeKind::kv) return operand(v);
    RLX_CHECK(false, "a state result without a state operand");
    return -1;
  }

  std::int32_t arena_operand(const Shape& shape) {
    const auto self = static_cast<std::int32_t>(program_.operands.size());
    return new_operand(shape, Place::arena, self);
  }

  // The interpreter's kernel on the host reads plain layouts only.
  void require_reference(const Node& n, const std::string& reason) const {
    const bool plain = std::all_of(n.inputs.begin(), n.inputs.end(), [&](Value v) {
      const Shape& s = graph_.shape(v);
      return s.layout == Layout::plain &&
             (s.kind != ShapeKind::kv || backend_.kv_layout() == Layout::plain);
    });
    if (n.def->reference != nullptr && backend_.reference_allowed() && plain) return;
    fail(ErrorCode::unsupported, "{}: {} has no form that {} can run: {}({})",
         n.origin.empty() ? graph_.name : n.origin, n.def->name, backend_.device().text(), reason,
         operand_types(graph_, n));
  }

  // A buffer lives from the call that writes it to the last that reads it, over all its
  // aliases. Outputs live to the end.
  void set_live_ranges() {
    auto& all = program_.operands;
    const auto calls = static_cast<std::int32_t>(program_.calls.size());
    for (Operand& o : all) o.first = calls, o.last = -1;
    const auto touch = [&](std::int32_t operand, std::int32_t at) {
      if (all[static_cast<std::size_t>(operand)].place != Place::arena) return;
      Operand& root = all[static_cast<std::size_t>(all[static_cast<std::size_t>(operand)].index)];
      root.first = std::min(root.first, at);
      root.last = std::max(root.last, at);
    };
    for (std::int32_t c = 0; c < calls; ++c) {
      for (std::int32_t o : program_.calls[static_cast<std::size_t>(c)].in) touch(o, c);
      for (std::int32_t o : program_.calls[static_cast<std::size_t>(c)].out) touch(o, c);
    }
    for (const BoundaryEntry& o : program_.outputs) touch(o.operand, calls);
    // Results of the prologue are read by every later step: nothing else may take their place, not
    // even before they are first read.
    for (const Call& c : program_.calls)
      if (c.phase == Phase::prologue)
        for (std::int32_t o : c.out) {
          touch(o, 0);
          touch(o, calls);
        }
  }

  const Graph& graph_;
  const CompileOptions& options_;
  const Backend& backend_;
  DispatchReport& report_;
  PhaseSchedule phases_;
  std::vector<bool> read_unpacked_;
  std::vector<std::vector<std::int32_t>> operands_;
  Program program_;
};

}  // namespace

KernelChoice choose_kernel(const Graph& graph, const Node& node, const KernelDispatchConfig& config,
                           const Backend& backend) {
  KernelChoice choice;
  const bool native_forced =
      listed(config.force_native, node.def->name) || config.policy == DispatchPolicy::force_native;
  choice.common = !listed(config.force_native, node.def->name) &&
                  (config.policy == DispatchPolicy::force_common ||
                   listed(config.force_common, node.def->name));
  std::vector<Shape> in;
  for (Value v : node.inputs) {
    const Shape& s = graph.shape(v);
    in.push_back(s.kind == ShapeKind::kv ? s.with(backend.kv_layout()) : s);
  }
  const KernelQuery query{node.attrs.data(), in, node.results};
  bool any = false;
  for (const Kernel& row : backend.kernels()) {
    if (row.op != node.def->name) continue;
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
  if (choice.kernel == nullptr && native_forced)
    fail(ErrorCode::unsupported, "{}: native kernels are forced, but {}",
         node.origin.empty() ? graph.name : node.origin, choice.reason);
  return choice;
}

Program lower(const Graph& graph, const CompileOptions& options, const Backend& backend,
              DispatchReport& report) {
  return Lowering(graph, options, backend, report).run();
}

}  // namespace rlx
