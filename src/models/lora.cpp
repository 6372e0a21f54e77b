#include "models/lora.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <system_error>

#include "base/error.h"
#include "base/nearest.h"
#include "ir/rewrite.h"
#include "ir/source.h"
#include "models/architecture.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace rlx {
namespace {

constexpr std::string_view kRoles[][2] = {{"q", "wq"},       {"k", "wk"},   {"v", "wv"},      {"o", "wo"},
                                          {"gate", "gate"}, {"up", "up"}, {"down", "down"}};

const Architecture& family_of(const LoadedModel& model) {
  for (const Architecture* family : all_architectures())
    if (family->name == model.model.info.architecture) return *family;
  RLX_CHECK(false, model.model.info.architecture);
  return *all_architectures()[0];
}

std::string_view table_role(const std::string& role) {
  std::vector<std::string> known;
  for (const auto& [name, tensor] : kRoles) {
    if (name == role) return tensor;
    known.emplace_back(name);
  }
  fail(ErrorCode::invalid_argument, "lora: expected products among q, k, v, o, gate, up, down, found \"{}\"{}", role,
       did_you_mean(role, known));
}

bool has_role(const Architecture& family, std::string_view role) {
  return std::any_of(family.tensors.begin(), family.tensors.end(), [&](const TensorName& t) { return t.role == role; });
}

// Lane i of half s of a head, in the hub's order [half][lane] and in that of adjacent pairs [lane][half].
Tensor exchanged_rows(const LoraTarget& target, const Tensor& b, bool to_model) {
  if (target.paired_head == 0) return b;
  const std::int64_t d = target.paired_head, bytes = b.byte_size() / std::max<std::int64_t>(b.dims()[0], 1);
  Tensor moved = Tensor::zeros(b.dims());
  for (std::int64_t row = 0; row < b.dims()[0]; ++row) {
    const std::int64_t head = row / d * d, half = row % d / (d / 2), lane = row % (d / 2);
    const std::int64_t pair = head + 2 * lane + half;
    const std::int64_t from = to_model ? row : pair, to = to_model ? pair : row;
    std::memcpy(moved.mutable_data() + to * bytes, b.data() + from * bytes, static_cast<std::size_t>(bytes));
  }
  return moved;
}

// The products of a graph with factors beside them.
class Adapting {
 public:
  Adapting(std::span<const LoraNames> names, std::int64_t rank, float scale, bool trainable)
      : rank_(rank), scale_(scale), trainable_(trainable) {
    for (const LoraNames& n : names) names_.emplace(n.param, n);
  }

  // Bodies around the products, until each stands alone.
  bool expand_around(Graph& graph) const {
    Rewriter rewriter(graph);
    return rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
      if (s.node.def->decompose == nullptr) return {};
      const bool holds = std::any_of(s.inputs.begin(), s.inputs.end(),
                                     [&](Value v) { return find(s.b.graph(), v) != nullptr; });
      return holds ? expand(s.node, s.inputs, s.b) : Rewriter::Answer{};
    });
  }

  void add_factors(Graph& graph) const {
    Rewriter rewriter(graph);
    rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
      const auto op = s.node.as<Linear>();
      const LoraNames* names = op ? find(s.b.graph(), s.inputs[1]) : nullptr;
      if (names == nullptr) return {};
      return {adapted(s.b, *op, s.inputs, *names)};
    });
  }

 private:
  const LoraNames* find(const Graph& graph, Value v) const {
    const Node& n = graph.node(v);
    const auto at = n.is<Param>() ? names_.find(n.name) : names_.end();
    return at == names_.end() ? nullptr : &at->second;
  }

  Value source(Builder& b, const std::string& name, const Shape& shape) const {
    if (const Value known = b.graph().find_source(name)) return known;
    return trainable_ ? b.input(name, shape) : b.param(name, shape);
  }

  Value adapted(Builder& b, const Linear& op, std::span<const Value> in, const LoraNames& names) const {
    const Dim out = b.shape(in[1]).dim(0), width = b.shape(in[1]).dim(1);
    const Value factor_a = source(b, names.a, Shape({rank_, width}, DType::f32));
    const Value factor_b = source(b, names.b, Shape({out, rank_}, DType::f32));
    const Linear inner{.bias = op.bias};
    const Value base = op.bias ? b(inner, in[0], in[1], in[2]) : b(inner, in[0], in[1]);
    const Value low = b(Linear{}, b(Linear{}, in[0], factor_a), factor_b);
    Value y = b(Add{}, base, scale_ == 1.0f ? low : b(Scale{.factor = scale_}, low));
    if (op.act != Act::none) y = b(Activation{.act = op.act}, y);
    return op.residual ? b(Add{}, y, in[static_cast<std::size_t>(op.residual_at())]) : y;
  }

  std::map<std::string, LoraNames, std::less<>> names_;
  std::int64_t rank_;
  float scale_;
  bool trainable_;
};

ModelParam param_of(const std::string& name, const Tensor& value) {
  const std::vector<float> values = value.to_floats();
  auto owned = std::make_shared<const std::vector<float>>(values);
  WeightRef weight{name, DType::f32, value.dims(), std::as_bytes(std::span(*owned)), nullptr};
  return {name, std::move(weight), std::move(owned), false};
}

void check_factors(const LoraFactors& f, const LoraTarget& t, std::int64_t rank) {
  const std::vector<std::int64_t> a = {rank, t.in}, b = {t.out, rank};
  if (f.a.dims() != a || f.b.dims() != b)
    fail(ErrorCode::invalid_argument, "lora: {}: expected factors f32[{}, {}] and f32[{}, {}], found {} and {}",
         f.module, rank, t.in, t.out, rank, f.a.text(), f.b.text());
}

}  // namespace

std::vector<LoraTarget> lora_targets(const LoadedModel& model, std::span<const std::string> roles) {
  const Architecture& family = family_of(model);
  const bool gguf = model.config.format == ConfigFormat::gguf;
  const TensorNames hub(family.tensors, ConfigFormat::hub, "model."), file(family.tensors, ConfigFormat::gguf, "");
  std::vector<LoraTarget> targets;
  for (std::int64_t layer = 0; layer < model.model.info.layers; ++layer)
    for (const std::string& role : roles) {
      const std::string_view tensor = table_role(role);
      if (!has_role(family, tensor)) continue;
      const std::string module = hub.name(tensor, layer);
      const std::string wanted = gguf ? file.weight(tensor, layer) : module + ".weight";
      for (const ModelParam& p : model.model.params) {
        const bool is_it = gguf ? p.name == wanted : p.name == wanted || p.name.ends_with("." + wanted);
        if (!is_it || p.weight.shape.size() != 2) continue;
        const bool paired = gguf && model.config.rope_style == RopeStyle::adjacent && (role == "q" || role == "k");
        targets.push_back({p.name, module, p.weight.shape[0], p.weight.shape[1],
                           paired ? model.model.info.head_dim : std::int64_t{0}});
        break;
      }
    }
  return targets;
}

Tensor lora_rows_to_model(const LoraTarget& target, const Tensor& b) { return exchanged_rows(target, b, true); }
Tensor lora_rows_to_hub(const LoraTarget& target, const Tensor& b) { return exchanged_rows(target, b, false); }

Graph with_lora(const Graph& graph, std::span<const LoraNames> names, std::int64_t rank, float scale, bool trainable) {
  const Adapting adapting(names, rank, scale, trainable);
  Graph adapted = graph;
  constexpr int kMaxNesting = 8;  // of blocks in blocks: the ops decide it
  for (int i = 0; i < kMaxNesting && adapting.expand_around(adapted); ++i) {
  }
  adapting.add_factors(adapted);
  return adapted;
}

void apply_lora(LoadedModel& model, const LoraAdapter& adapter) {
  std::vector<std::string> roles;
  for (const auto& role : kRoles) roles.emplace_back(role[0]);
  const std::vector<LoraTarget> targets = lora_targets(model, roles);
  std::vector<LoraNames> names;
  std::vector<ModelParam> params;
  for (const LoraFactors& f : adapter.factors) {
    const auto target = std::find_if(targets.begin(), targets.end(),
                                     [&](const LoraTarget& t) { return t.module == f.module; });
    if (target == targets.end())
      fail(ErrorCode::invalid_argument, "lora: {}: the adapter has factors of {}, which the model lacks",
           model.path.string(), f.module);
    check_factors(f, *target, adapter.rank);
    names.push_back({target->param, f.module + ".lora_A", f.module + ".lora_B"});
    params.push_back(param_of(names.back().a, f.a));
    params.push_back(param_of(names.back().b, lora_rows_to_model(*target, f.b)));
  }
  model.model.graph = with_lora(model.model.graph, names, adapter.rank, adapter.scale, false);
  for (ModelParam& p : params) model.model.params.push_back(std::move(p));
  // In the order of the graph's params.
  std::map<std::string_view, std::size_t> places;
  for (const Node& n : model.model.graph.nodes())
    if (n.is<Param>()) places.emplace(n.name, places.size());
  std::stable_sort(model.model.params.begin(), model.model.params.end(),
                   [&](const ModelParam& x, const ModelParam& y) { return places[x.name] < places[y.name]; });
}

}  // namespace rlx
