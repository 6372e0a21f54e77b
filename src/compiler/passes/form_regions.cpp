#include "compiler/passes/form_regions.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "compiler/lower.h"
#include "compiler/passes/fusion_notes.h"
#include "ops/reduction.h"
#include "ops/region.h"

namespace rlx {
namespace {

using Dims = std::vector<Dim>;

Dims dims_of(const Shape& s) { return {s.dims().begin(), s.dims().end()}; }

bool region_dtype_ok(DType d) {
  return d == DType::f32 || d == DType::f16 || d == DType::bf16 || d == DType::boolean;
}

// An op along one axis, which a region writes as -1.
template <typename Op>
void normalise_axis(const Node& n, AttrBlob& attrs) {
  auto op = n.as<Op>();
  if (!op || op->axis < 0 || op->axis != n.results[0].rank() - 1) return;
  op->axis = -1;
  attrs = to_blob(*op);
}

// A node as a region may take it.
struct Member {
  bool fits = false;
  AttrBlob attrs{};
  Dims domain;          // the shape of the rows that it works on
};

Member member_of(const Graph& graph, const Node& n) {
  Member m;
  if (n.results.size() != 1 || n.inputs.empty() || n.inputs.size() > 3) return m;
  m.attrs = n.attrs;
  normalise_axis<Softmax>(n, m.attrs);
  normalise_axis<LogSoftmax>(n, m.attrs);
  if (auto r = n.as<Reduce>(); r && r->axis == graph.shape(n.inputs[0]).rank() - 1) {
    r->axis = -1;
    m.attrs = to_blob(*r);
  }
  if (!region_member(*n.def, m.attrs)) return m;
  const auto plain = [](const Shape& s) {
    return !s.is_state() && s.layout == Layout::plain && region_dtype_ok(s.dtype);
  };
  if (!plain(n.results[0])) return m;
  for (Value v : n.inputs)
    if (!plain(graph.shape(v))) return m;
  m.domain = dims_of(n.is<Reduce>() ? graph.shape(n.inputs[0]) : n.results[0]);
  m.fits = !m.domain.empty();
  return m;
}

bool is_one(Dim d) { return d == Dim(1); }

// Nodes that become one region.
struct Group {
  std::vector<std::int32_t> nodes;  // in program order
  Dims domain;
};

class RegionFinder {
 public:
  RegionFinder(const Graph& graph, const PassContext& context)
      : graph_(graph), context_(context), notes_(context, "form_regions"), group_of_(graph.nodes().size(), -1),
        readers_(graph.nodes().size()), after_(graph.nodes().size()), is_output_(graph.nodes().size(), false) {
    for (const Output& o : graph.outputs()) is_output_[static_cast<std::size_t>(o.value.node)] = true;
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      members_.push_back(member_of(graph, graph.nodes()[i]));
      for (Value v : graph.nodes()[i].inputs)
        readers_[static_cast<std::size_t>(v.node)].push_back(static_cast<std::int32_t>(i));
    }
    order_states();
  }

  void run() {
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (members_[i].fits) place(static_cast<std::int32_t>(i));
    drop_useless();
  }

  const std::vector<Group>& groups() const { return groups_; }
  std::int32_t group_of(std::int32_t node) const { return group_of_[static_cast<std::size_t>(node)]; }
  const Member& member(std::int32_t node) const { return members_[static_cast<std::size_t>(node)]; }

  // Nodes that must stand before a node: its operands, and what touched its states before.
  template <typename F>
  void each_before(std::int32_t node, F f) const {
    for (Value v : graph_.node(node).inputs) f(v.node);
    for (std::int32_t n : after_[static_cast<std::size_t>(node)]) f(n);
  }

  // Whether an output or a node that is not `inside` reads a node.
  template <typename F>
  bool read_outside(std::int32_t node, F inside) const {
    const auto& r = readers_[static_cast<std::size_t>(node)];
    return is_output_[static_cast<std::size_t>(node)] || !std::all_of(r.begin(), r.end(), inside);
  }

 private:
  // A node that updates a state stays behind all that read it before.
  void order_states() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int32_t>> touched;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      for (Value v : graph_.nodes()[i].inputs) {
        if (!graph_.shape(v).is_state()) continue;
        auto& before = touched[{v.node, v.index}];
        auto& mine = after_[i];
        mine.insert(mine.end(), before.begin(), before.end());
        before.push_back(static_cast<std::int32_t>(i));
      }
  }

  // Joins a node with the groups of its operands as far as that is legal.
  void place(std::int32_t node) {
    const Member& m = member(node);
    const auto fresh = static_cast<std::int32_t>(groups_.size());
    groups_.push_back({{node}, m.domain});
    group_of_[static_cast<std::size_t>(node)] = fresh;
    for (Value v : graph_.node(node).inputs) {
      const std::int32_t other = group_of(v.node);
      if (other < 0 || other == fresh) continue;
      std::string why = obstacle(fresh, other);
      if (why.empty())
        merge(fresh, other);
      else
        notes_.missed(graph_.node(node), node, [&] { return std::move(why); });
    }
  }

  // Whether a group works on one value per row of another's rows, without reductions of its own.
  bool columns_of(const Group& columns, const Group& rows) const {
    if (columns.domain.size() != rows.domain.size() || !is_one(columns.domain.back())) return false;
    if (!std::equal(columns.domain.begin(), columns.domain.end() - 1, rows.domain.begin())) return false;
    return std::none_of(columns.nodes.begin(), columns.nodes.end(),
                        [&](std::int32_t n) { return graph_.node(n).def->has(Trait::reduction); });
  }

  // A reduction without its axis lies otherwise than the rows that it came from.
  bool reads_dropped(const std::set<std::int32_t>& nodes) const {
    for (std::int32_t n : nodes)
      for (Value v : graph_.node(n).inputs)
        if (const auto r = graph_.node(v).as<Reduce>(); r && !r->keep_dims && nodes.contains(v.node)) return true;
    return false;
  }

  // Whether an op that reads whole rows would read one value per row.
  bool reduces_columns(const std::set<std::int32_t>& nodes, const Dims& domain) const {
    std::set<std::int32_t> columns;
    const auto is_column = [&](Value v) {
      if (nodes.contains(v.node)) return columns.contains(v.node);
      const Shape& s = graph_.shape(v);
      return (s.rank() == 0 || is_one(s.dim(-1))) && !is_one(domain.back());
    };
    for (std::int32_t n : nodes) {
      const Node& node = graph_.node(n);
      const bool reads_row = node.def->has(Trait::reduction);
      if (reads_row && is_column(node.inputs[0])) return true;
      if (node.is<Reduce>() || (!reads_row && std::all_of(node.inputs.begin(), node.inputs.end(), is_column)))
        columns.insert(n);
    }
    return false;
  }

  std::string obstacle(std::int32_t a, std::int32_t b) const {
    const Group &x = groups_[static_cast<std::size_t>(a)], &y = groups_[static_cast<std::size_t>(b)];
    if (x.domain != y.domain && !columns_of(x, y) && !columns_of(y, x)) return "rows of two shapes";
    if (x.nodes.size() + y.nodes.size() > kRegionInstructions / 2) return "the region would be too long";
    std::set<std::int32_t> set(x.nodes.begin(), x.nodes.end());
    set.insert(y.nodes.begin(), y.nodes.end());
    if (reads_dropped(set)) return "a reduction that drops its axis";
    if (reduces_columns(set, is_one(x.domain.back()) ? y.domain : x.domain)) return "a reduction of a reduction";
    if (inputs_of(set) > kRegionInputs) return "the region would read too many values";
    if (outputs_of(set) > kRegionOutputs) return "the region would have too many results";
    return passes_outside(a, b, set) ? "a value between them is made by another op" : std::string();
  }

  std::size_t inputs_of(const std::set<std::int32_t>& nodes) const {
    std::set<std::pair<std::int32_t, std::int32_t>> in;
    for (std::int32_t n : nodes)
      for (Value v : graph_.node(n).inputs)
        if (!nodes.contains(v.node)) in.insert({v.node, v.index});
    return in.size();
  }
  std::size_t outputs_of(const std::set<std::int32_t>& nodes) const {
    const auto read = [&](std::int32_t n) {
      return read_outside(n, [&](std::int32_t i) { return nodes.contains(i); });
    };
    return static_cast<std::size_t>(std::count_if(nodes.begin(), nodes.end(), read));
  }

  // Whether a path leaves the nodes and comes back: then they cannot run as one call. Other groups count as one node.
  bool passes_outside(std::int32_t a, std::int32_t b, const std::set<std::int32_t>& nodes) const {
    // A node before the set leads back only through a group that spans it.
    std::int32_t first = *nodes.begin();
    for (bool lower = true; lower;) {
      lower = false;
      for (const Group& g : groups_) {
        if (g.nodes.empty() || g.nodes.front() >= first || g.nodes.back() <= first) continue;
        first = g.nodes.front();
        lower = true;
      }
    }
    std::vector<std::int32_t> open;
    std::set<std::int32_t> seen;
    const auto visit = [&](std::int32_t n) {
      const std::int32_t g = group_of(n);
      if (g == a || g == b) return true;
      if (g < 0) {
        if (n > first && seen.insert(n).second) open.push_back(n);
        return false;
      }
      for (std::int32_t k : groups_[static_cast<std::size_t>(g)].nodes)
        if (seen.insert(k).second) open.push_back(k);
      return false;
    };
    for (std::int32_t n : nodes)
      each_before(n, [&](std::int32_t k) {
        if (!nodes.contains(k)) visit(k);
      });
    while (!open.empty()) {
      const std::int32_t n = open.back();
      open.pop_back();
      bool back = false;
      each_before(n, [&](std::int32_t k) { back |= visit(k); });
      if (back) return true;
    }
    return false;
  }

  void merge(std::int32_t into, std::int32_t from) {
    Group &x = groups_[static_cast<std::size_t>(into)], &y = groups_[static_cast<std::size_t>(from)];
    for (std::int32_t n : y.nodes) group_of_[static_cast<std::size_t>(n)] = into;
    if (is_one(x.domain.back())) x.domain = y.domain;
    x.nodes.insert(x.nodes.end(), y.nodes.begin(), y.nodes.end());
    std::sort(x.nodes.begin(), x.nodes.end());
    y.nodes.clear();
  }

  // One node with a kernel of its own gains nothing; one without runs as a region rather than on the reference.
  void drop_useless() {
    for (Group& g : groups_) {
      if (g.nodes.size() != 1) continue;
      const Node& n = graph_.node(g.nodes[0]);
      if (choose_kernel(graph_, n, {}, context_.backend).kernel == nullptr) continue;
      group_of_[static_cast<std::size_t>(g.nodes[0])] = -1;
      g.nodes.clear();
    }
  }

  const Graph& graph_;
  const PassContext& context_;
  FusionNotes notes_;
  std::vector<Member> members_;
  std::vector<std::int32_t> group_of_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::int32_t>> readers_, after_;
  std::vector<bool> is_output_;
};

// A group as a program over its inputs, and which old values it reads and gives.
struct Written {
  RegionProgram program;
  std::vector<Value> inputs, outputs;
};

Written write_program(const Graph& graph, const RegionFinder& finder, const Group& group) {
  Written w;
  std::map<std::pair<std::int32_t, std::int32_t>, int> number;
  const auto inside = [&](std::int32_t n) { return std::binary_search(group.nodes.begin(), group.nodes.end(), n); };
  for (std::int32_t n : group.nodes)
    for (Value v : graph.node(n).inputs) {
      if (inside(v.node) || !number.try_emplace({v.node, v.index}, static_cast<int>(w.inputs.size())).second) continue;
      const Shape& s = graph.shape(v);
      const bool column = (s.rank() == 0 || is_one(s.dim(-1))) && !is_one(group.domain.back());
      w.program.inputs.push_back({s.dtype, column});
      w.inputs.push_back(v);
    }
  int next = static_cast<int>(w.inputs.size());
  for (std::int32_t n : group.nodes) {
    RegionInstr i{graph.node(n).def, finder.member(n).attrs, {}};
    for (Value v : graph.node(n).inputs) i.in.push_back(number.at({v.node, v.index}));
    w.program.code.push_back(std::move(i));
    number[{n, 0}] = next;
    if (finder.read_outside(n, inside)) {
      w.program.outputs.push_back(next);
      w.outputs.push_back({n, 0});
    }
    ++next;
  }
  return w;
}

// Builds the graph anew with each group as one node, in an order in which every operand comes first.
class RegionWriter {
 public:
  RegionWriter(const Graph& graph, const RegionFinder& finder, const FusionNotes& notes)
      : graph_(graph), finder_(finder), notes_(notes), fresh_(graph.sibling()), b_(fresh_),
        made_(graph.nodes().size()) {}

  Graph run() {
    // Units: nodes, or groups called by their last node. The smallest that is ready goes first, which keeps the order.
    const auto count = graph_.nodes().size();
    std::vector<std::set<std::int32_t>> before(count);
    std::vector<std::vector<std::int32_t>> then(count);
    std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> ready;
    for (std::size_t k = 0; k < count; ++k) {
      const auto i = static_cast<std::int32_t>(k), mine = unit(i);
      finder_.each_before(i, [&](std::int32_t n) {
        if (const std::int32_t u = unit(n); u != mine && before[static_cast<std::size_t>(mine)].insert(u).second)
          then[static_cast<std::size_t>(u)].push_back(mine);
      });
    }
    std::vector<std::size_t> left(count);
    for (std::size_t k = 0; k < count; ++k) {
      left[k] = before[k].size();
      if (unit(static_cast<std::int32_t>(k)) == static_cast<std::int32_t>(k) && left[k] == 0)
        ready.push(static_cast<std::int32_t>(k));
    }
    while (!ready.empty()) {
      const std::int32_t u = ready.top();
      ready.pop();
      emit(u);
      for (std::int32_t n : then[static_cast<std::size_t>(u)])
        if (--left[static_cast<std::size_t>(n)] == 0) ready.push(n);
    }
    std::vector<Output> outputs;
    for (const Output& o : graph_.outputs()) outputs.push_back({o.name, now(o.value)});
    fresh_.set_outputs(std::move(outputs));
    return std::move(fresh_);
  }

 private:
  std::int32_t unit(std::int32_t node) const {
    const std::int32_t g = finder_.group_of(node);
    return g < 0 ? node : finder_.groups()[static_cast<std::size_t>(g)].nodes.back();
  }
  Value now(Value v) const {
    const auto& values = made_[static_cast<std::size_t>(v.node)];
    RLX_CHECK(static_cast<std::size_t>(v.index) < values.size(), graph_.name);
    return values[static_cast<std::size_t>(v.index)];
  }

  void emit(std::int32_t u) {
    const Node& n = graph_.node(u);
    b_.set_origin(n.origin);
    if (const std::int32_t g = finder_.group_of(u); g >= 0) {
      const Written w = write_program(graph_, finder_, finder_.groups()[static_cast<std::size_t>(g)]);
      std::vector<Value> in;
      for (Value v : w.inputs) in.push_back(now(v));
      const Value made = b_.emit(Region{intern_region(w.program)}, std::move(in));
      for (std::size_t k = 0; k < w.outputs.size(); ++k)
        made_[static_cast<std::size_t>(w.outputs[k].node)] = {{made.node, static_cast<std::int32_t>(k)}};
      notes_.fused(Region::name, n, u);
      return;
    }
    std::vector<Value> in;
    for (Value v : n.inputs) in.push_back(now(v));
    const Value v = fresh_.copy(graph_, n, std::move(in));
    for (std::size_t k = 0; k < n.results.size(); ++k)
      made_[static_cast<std::size_t>(u)].push_back({v.node, static_cast<std::int32_t>(k)});
  }

  const Graph& graph_;
  const RegionFinder& finder_;
  const FusionNotes& notes_;
  Graph fresh_;
  Builder b_;
  std::vector<std::vector<Value>> made_;
};

bool runs_regions(const Backend& backend) {
  const auto rows = backend.kernels();
  return std::any_of(rows.begin(), rows.end(), [](const Kernel& k) { return k.op == Region::name; });
}

}  // namespace

bool form_regions(Graph& graph, const PassContext& context) {
  if (!runs_regions(context.backend)) return false;
  const bool dropped = drop_dead(graph);
  RegionFinder finder(graph, context);
  finder.run();
  const auto& groups = finder.groups();
  if (std::all_of(groups.begin(), groups.end(), [](const Group& g) { return g.nodes.empty(); })) return dropped;
  const FusionNotes notes(context, "form_regions");
  graph = RegionWriter(graph, finder, notes).run();
  return true;
}

}  // namespace rlx
