#include "ops/interpret.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "ir/control_args.h"
#include "ir/source.h"
#include "ops/access.h"

namespace rlx {
namespace {

// A value while a graph runs: a tensor, or a cache or recurrent state that it stands for.
struct Slot {
  std::optional<Tensor> tensor;
  KvPool* pool = nullptr;
  const Tensor* recurrent = nullptr;
};
using NodeSlots = std::vector<std::vector<Slot>>;  // [node][result]

constexpr int kMaxNesting = 8;  // of bodies in bodies: the ops decide it, not the input

// A graph with the bodies of its composite nodes, each expanded once.
struct Plan {
  Graph graph;
  std::vector<Value> sources, results;
  std::vector<std::unique_ptr<Plan>> bodies;  // per node; null where the op has a reference
  std::map<std::int32_t, std::unique_ptr<Plan>> subgraphs;  // by the place in the graph's table
};

std::unique_ptr<Plan> make_plan(Graph graph, std::vector<Value> sources, std::vector<Value> results,
                                int nesting);

// The body of a node as a graph of its own, whose sources are the node's operands in order.
std::unique_ptr<Plan> expand(const Graph& graph, const Node& node, int nesting) {
  RLX_CHECK(nesting < kMaxNesting, std::string(node.def->name));
  Graph body_graph(std::string(node.def->name), Stage::hir);
  Builder b(body_graph);
  b.set_origin(node.origin);
  std::vector<Value> sources;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Shape& shape = graph.shape(node.inputs[i]);
    const std::string source = fmt::format("operand{}", i);
    sources.push_back(shape.is_state() ? b.state(source, shape) : b.input(source, shape));
  }
  Body body(b, sources);
  node.def->decompose(node.attrs, body);
  RLX_CHECK(body.results().size() == node.results.size(), std::string(node.def->name));
  std::vector<Value> results = body.results();
  return make_plan(std::move(body_graph), std::move(sources), std::move(results), nesting + 1);
}

// A graph whose inputs, params and states are given in the order of its nodes.
std::unique_ptr<Plan> plan_whole(Graph graph, int nesting) {
  std::vector<Value> sources, results;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (graph.nodes()[i].def->has(Trait::source) && !graph.nodes()[i].is<Constant>())
      sources.push_back({static_cast<std::int32_t>(i), 0});
  for (const Output& o : graph.outputs()) results.push_back(o.value);
  return make_plan(std::move(graph), std::move(sources), std::move(results), nesting);
}

std::unique_ptr<Plan> make_plan(Graph graph, std::vector<Value> sources, std::vector<Value> results,
                                int nesting) {
  auto plan = std::make_unique<Plan>(
      Plan{std::move(graph), std::move(sources), std::move(results), {}, {}});
  for (const Node& n : plan->graph.nodes()) {
    plan->bodies.push_back(n.def->decompose != nullptr ? expand(plan->graph, n, nesting) : nullptr);
    for (GraphRef ref : subgraphs_of(n))
      if (!plan->subgraphs.contains(ref.index))
        plan->subgraphs.emplace(ref.index, plan_whole(plan->graph.subgraph(ref), nesting));
  }
  return plan;
}

TensorView view(const Slot& slot, const Shape& shape) {
  if (slot.recurrent != nullptr) return access::view_of(*slot.recurrent);
  if (slot.pool == nullptr) return access::view_of(*slot.tensor);
  TensorView v;
  v.data = slot.pool;
  v.dtype = shape.dtype;
  v.rank = 2;
  for (int i : {0, 1}) v.dims[i] = shape.dim(i).evaluate({});
  return v;
}

// The dtype that values of a dtype are kept in.
DType kept_dtype(DType d, Arithmetic arithmetic) {
  return arithmetic == Arithmetic::f64 && is_float(d) ? DType::f64 : d;
}

// Room for a result; the state that an op returns is the state that it got.
Slot make_result(const Shape& shape, std::span<const Slot> inputs, Arithmetic arithmetic) {
  if (shape.is_updated()) {
    const auto at = std::find_if(inputs.begin(), inputs.end(), [](const Slot& s) {
      return s.pool != nullptr || s.recurrent != nullptr;
    });
    RLX_CHECK(at != inputs.end(), "a state result needs a state operand");
    return *at;
  }
  std::vector<std::int64_t> dims;
  for (Dim d : shape.dims()) dims.push_back(d.evaluate({}));
  return {Tensor::zeros(std::move(dims), kept_dtype(shape.dtype, arithmetic))};
}

std::vector<Slot> call_reference(const Graph& graph, const Node& n, std::span<const Slot> inputs,
                                 Arithmetic arithmetic) {
  std::vector<Slot> results;
  std::vector<TensorView> in, out;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    in.push_back(view(inputs[i], graph.shape(n.inputs[i])));
  for (const Shape& shape : n.results) {
    results.push_back(make_result(shape, inputs, arithmetic));
    out.push_back(view(results.back(), shape));
  }
  KernelArgs args;
  args.in = in.data();
  args.out = out.data();
  args.inputs = static_cast<int>(in.size());
  args.outputs = static_cast<int>(out.size());
  n.def->reference(n.attrs, args);
  return results;
}

std::vector<Slot> execute(const Plan& plan, std::vector<Slot> sources, Arithmetic arithmetic);

// An op whose meaning is given by runs of its sub-graphs.
std::vector<Slot> call_control(const Plan& plan, const Node& n, std::span<const Slot> inputs, Arithmetic arithmetic) {
  std::vector<Tensor> values;
  for (const Slot& s : inputs) values.push_back(*s.tensor);
  const auto run = [&](GraphRef ref, std::vector<Tensor> given) {
    std::vector<Slot> sources;
    for (Tensor& t : given) sources.push_back({std::move(t)});
    std::vector<Tensor> results;
    for (Slot& s : execute(*plan.subgraphs.at(ref.index), std::move(sources), arithmetic))
      results.push_back(std::move(*s.tensor));
    return results;
  };
  std::vector<Slot> results;
  for (Tensor& t : n.def->control(n.attrs, ControlArgs{values, n.results, run})) results.push_back({std::move(t)});
  return results;
}

std::vector<Slot> execute(const Plan& plan, std::vector<Slot> sources, Arithmetic arithmetic) {
  const Graph& graph = plan.graph;
  NodeSlots slots(graph.nodes().size());
  std::vector<std::vector<std::int32_t>> left = graph.uses();
  for (Value v : plan.results)
    ++left[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  const auto slot_of = [&](Value v) -> Slot& {
    return slots[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  for (std::size_t i = 0; i < plan.sources.size(); ++i)
    slots[static_cast<std::size_t>(plan.sources[i].node)] = {std::move(sources[i])};
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& n = graph.nodes()[i];
    if (const ConstantData* data = graph.constant_of({static_cast<std::int32_t>(i), 0}))
      slots[i] = {{data->value}};
    if (n.def->has(Trait::source)) continue;
    std::vector<Slot> inputs;
    for (Value v : n.inputs) {
      inputs.push_back(slot_of(v));
      if (--left[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)] == 0)
        slot_of(v).tensor.reset();
    }
    slots[i] = plan.bodies[i]             ? execute(*plan.bodies[i], std::move(inputs), arithmetic)
               : n.def->control != nullptr ? call_control(plan, n, inputs, arithmetic)
                                           : call_reference(graph, n, inputs, arithmetic);
  }
  std::vector<Slot> results;
  for (Value v : plan.results) results.push_back(slot_of(v));
  return results;
}

void check_value(const Node& source, const Tensor& value, Arithmetic arithmetic) {
  const Shape expected = source.results[0].with(Layout::plain);
  const bool is_kept = value.dtype() == kept_dtype(expected.dtype, arithmetic);
  if (!(value.shape() == expected) && !(is_kept && value.shape() == expected.with(value.dtype())))
    fail(ErrorCode::shape, "{} \"{}\": expected {}, found {}", source.def->name, source.name,
         expected.text(), value.text());
}

Tensor widened(const Tensor& value) {
  Tensor wide = Tensor::zeros(value.dims(), DType::f64);
  const TensorView from = access::view_of(value);
  auto to = wide.mutable_as<double>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = access::load_at(from, static_cast<std::int64_t>(i));
  return wide;
}

}  // namespace

struct Interpreter::Impl {
  Arithmetic arithmetic = Arithmetic::rounded;
  std::unique_ptr<Plan> plan;
  std::map<std::string, Tensor, std::less<>> params;

  // Checks a named value against its source and keeps it.
  void take(const NamedTensor& value, std::map<std::string, Tensor, std::less<>>& into) const {
    const Graph& graph = plan->graph;
    const Value v = graph.find_source(value.name);
    if (!v || graph.shape(v).is_state())
      fail(ErrorCode::invalid_argument, "{}: no input or param is named \"{}\"", graph.name,
           value.name);
    check_value(graph.node(v), value.tensor, arithmetic);
    const bool widen = kept_dtype(value.tensor.dtype(), arithmetic) != value.tensor.dtype();
    if (params.contains(value.name) ||
        !into.emplace(value.name, widen ? widened(value.tensor) : value.tensor).second)
      fail(ErrorCode::invalid_argument, "{}: \"{}\" is given twice", graph.name, value.name);
  }

  Slot source(const Node& n, const std::map<std::string, Tensor, std::less<>>& values,
              InterpreterState* state) const {
    const Shape& shape = n.results[0];
    if (shape.is_state()) {
      if (state == nullptr)
        fail(ErrorCode::invalid_argument, "{}: state \"{}\": the run has no states",
             plan->graph.name, n.name);
      if (shape.kind == ShapeKind::pages) return {state->page_table()};
      if (shape.kind == ShapeKind::recurrent)
        return {std::nullopt, nullptr, &state->recurrent(n.name, shape)};
      return {std::nullopt, &state->pool(n.name, shape)};
    }
    for (const auto* map : {&values, &params})
      if (const auto at = map->find(n.name); at != map->end()) return {at->second};
    fail(ErrorCode::invalid_argument, "{}: {} \"{}\" is missing: expected {}", plan->graph.name,
         n.def->name, n.name, shape.text());
  }

  std::vector<NamedTensor> run(std::span<const NamedTensor> given, InterpreterState* state) const {
    std::map<std::string, Tensor, std::less<>> values;
    for (const NamedTensor& value : given) take(value, values);
    std::vector<Slot> sources;
    for (Value v : plan->sources) sources.push_back(source(plan->graph.node(v), values, state));
    std::vector<Slot> results = execute(*plan, std::move(sources), arithmetic);
    std::vector<NamedTensor> outputs;
    const auto declared = plan->graph.outputs();
    for (std::size_t i = 0; i < declared.size(); ++i)  // a state is no output: it stays in `state`
      if (results[i].tensor) outputs.push_back({declared[i].name, std::move(*results[i].tensor)});
    return outputs;
  }
};

Interpreter::Interpreter(Graph graph, std::vector<NamedTensor> given, Arithmetic arithmetic)
    : impl_(std::make_unique<Impl>()) {
  impl_->arithmetic = arithmetic;
  require_bound(graph);
  impl_->plan = plan_whole(std::move(graph), 0);
  std::map<std::string, Tensor, std::less<>> params;
  for (const NamedTensor& p : given) impl_->take(p, params);
  impl_->params = std::move(params);
}

Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

std::vector<NamedTensor> Interpreter::run(std::span<const NamedTensor> values,
                                          InterpreterState& state) {
  return impl_->run(values, &state);
}
std::vector<NamedTensor> Interpreter::run(std::span<const NamedTensor> values) {
  return impl_->run(values, nullptr);
}

}  // namespace rlx
