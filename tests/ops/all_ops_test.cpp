// What holds for every op over its samples.
#include <cmath>
#include <set>

#include "ir/sample.h"
#include "ir/source.h"
#include "ops/access.h"
#include "ops/materialize.h"
#include "ops/norm.h"
#include "ops/support.h"

namespace rlx {
namespace {

std::vector<const OpDef*> ops_with_samples() {
  std::vector<const OpDef*> ops;
  for (const OpDef& def : all_ops())
    if (!def.has(Trait::source) && def.control == nullptr) ops.push_back(&def);  // tests/ir has control flow
  return ops;
}

TEST(AllOps, AreFoundByNameAndId) {
  EXPECT_GE(all_ops().size(), 50u);
  for (const OpDef& def : all_ops()) {
    EXPECT_EQ(find_op(def.name), &def);
    EXPECT_EQ(find_op(def.id), &def);
  }
  EXPECT_EQ(find_op("no_such_op"), nullptr);
  EXPECT_EQ(find_op(std::uint64_t{1}), nullptr);
  EXPECT_EQ(&op_def<RmsNorm>(), find_op("rms_norm"));
  EXPECT_THROW(op_def_by_id(1, "no_such_op"), Error);
}

TEST(AllOps, HaveSamplesWithNamesOfTheirOwn) {
  for (const OpDef* def : ops_with_samples()) {
    std::set<std::string> names;
    for (const Sample& s : def->samples())
      EXPECT_TRUE(names.insert(s.name).second) << def->name << " " << s.name;
    EXPECT_GE(names.size(), 5u) << def->name;
  }
}

// Every attribute of every op has a sample with another value than the default: a kernel that
// ignores it is caught.
TEST(AllOps, SamplesChangeEveryAttribute) {
  for (const OpDef* def : ops_with_samples()) {
    std::string printed;
    for (const Sample& s : def->samples()) printed += def->print(s.op) + " ";
    AttrBlob blob = def->defaults();
    for (const std::string key : {"eps",         "weight_offset",
                                  "group",       "act",
                                  "bias",        "residual",
                                  "scale",       "softcap",
                                  "window",      "style",
                                  "magnitude",   "head_dim",
                                  "rotary_dim",  "heads",
                                  "norm",        "rope",
                                  "qkv_bias",    "out_bias",
                                  "qk_norm",     "factor",
                                  "cap",         "to",
                                  "dtype",       "relation",
                                  "low",         "high",
                                  "fn",          "dims",
                                  "axes",        "axis",
                                  "start",       "stop",
                                  "step",        "before",
                                  "after",       "value",
                                  "kind",        "k",
                                  "keep_dims",   "exclusive",
                                  "reverse",     "transpose_a",
                                  "transpose_b", "a_contract",
                                  "b_contract",  "a_batch",
                                  "b_batch",     "replace",
                                  "largest",     "descending",
                                  "scoring",     "normalize",
                                  "groups",      "group_limit",
                                  "group_top",   "per_row",
                                  "temperature", "top_k",
                                  "top_p",       "min_p",
                                  "seed",        "streams",
                                  "depth"}) {
      bool known = false;
      for (const char* value : {"1", "2", "true", "half", "silu", "f16", "ne", "exp", "max", "sigmoid"})
        known = known || def->set(blob, key, value);
      if (known) {
        EXPECT_NE(printed.find(" " + key + "="), std::string::npos) << def->name << " " << key;
      }
    }
  }
}

TEST(AllOps, AttributesPrintAndReadBack) {
  for (const OpDef* def : ops_with_samples())
    for (const Sample& s : def->samples()) {
      const std::string text = def->print(s.op);
      AttrBlob blob = def->defaults();
      std::size_t at = 0;
      while (at < text.size()) {
        ASSERT_EQ(text[at], ' ') << text;
        const std::size_t equals = text.find('=', at),
                          end = std::min(text.find(' ', at + 1), text.size());
        ASSERT_TRUE(def->set(blob, text.substr(at + 1, equals - at - 1),
                             text.substr(equals + 1, end - equals - 1)))
            << text;
        at = end;
      }
      EXPECT_TRUE(def->equal(blob, s.op)) << def->name << text;
    }
}

TEST(Attributes, BadTextIsRefused) {
  const OpDef& norm = op_def<RmsNorm>();
  AttrBlob blob = norm.defaults();
  for (const char* bad : {"", "1e", "1 ", " 1", "abc", "0x10", "1e999"})
    EXPECT_FALSE(norm.set(blob, "eps", bad)) << bad;
  for (const char* bad : {"1.5", "2147483648", "-2147483649", ""})
    EXPECT_FALSE(norm.set(blob, "group", bad)) << bad;
  EXPECT_FALSE(norm.set(blob, "epsilon", "1"));
  EXPECT_TRUE(norm.equal(blob, norm.defaults()));
  EXPECT_EQ(norm.print(to_blob(RmsNorm{.eps = 0.1f, .group = 64})), " eps=0.1 group=64");
  EXPECT_EQ(norm.print(norm.defaults()), "");
}

// Replaces the sizes of the rows, sequences and wanted rows by symbols; weights keep their sizes.
Graph with_symbols(const OpDef& def, const Sample& sample, DimBinding& binding) {
  std::map<std::int64_t, Dim> names;
  Graph graph("symbolic");
  Builder b(graph);
  std::vector<Value> operands;
  for (const SampleOperand& o : sample.operands) {
    Shape shape = o.shape;
    const bool step_value = operands.empty() || o.fill == Fill::given;
    for (int axis = 0; step_value && !shape.is_state() && axis < shape.rank(); ++axis) {
      const std::int64_t size = *shape.dim(axis).constant();
      if (axis + 1 == shape.rank() && shape.dtype != DType::i32 && shape.rank() > 1) continue;
      if (size == 1 || (shape.rank() == 1 && shape.dtype != DType::i32))
        continue;  // 1 may stand for a repeated axis
      const Symbol symbol = Symbol::named(fmt::format("n{}_{}", operands.size(), axis));
      binding.set(symbol, size);
      shape = shape.with_dim(axis, symbol);
    }
    const std::string source = fmt::format("operand{}", operands.size());
    operands.push_back(o.shape.is_state() ? b.state(source, shape) : b.input(source, shape));
  }
  const Value v = graph.add(def, sample.op, operands);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < graph.node(v).results.size(); ++i)
    outputs.push_back({fmt::format("y{}", i), b.result(v, static_cast<int>(i))});
  graph.set_outputs(std::move(outputs));
  return graph;
}

TEST(AllOps, InferThenBindIsBindThenInfer) {
  int symbolic = 0;
  for (const OpDef* def : ops_with_samples())
    for (const Sample& s : def->samples()) {
      DimBinding binding;
      const Graph graph = with_symbols(*def, s, binding);
      symbolic += has_symbols(graph) ? 1 : 0;
      const Graph infer_then_bind = bind(graph, binding), bind_then_infer = sample_graph(*def, s);
      ASSERT_FALSE(has_symbols(infer_then_bind)) << def->name << " " << s.name;
      for (std::size_t i = 0; i < bind_then_infer.outputs().size(); ++i) {
        const Value y = bind_then_infer.outputs()[i].value;
        EXPECT_EQ(infer_then_bind.shape(y).text(), bind_then_infer.shape(y).text())
            << def->name << " " << s.name;
        EXPECT_EQ(graph.shape(y).bind(binding).text(), bind_then_infer.shape(y).text())
            << def->name << " " << s.name;
      }
    }
  EXPECT_GT(symbolic, 200);
}

// A binding under which two operands disagree is an error, also when the sizes were symbols at
// first.
TEST(AllOps, SizesThatDisagreeAreFoundWhenBound) {
  for (const char* op : {"rope", "kv_append", "rope_append", "self_attention"}) {
    const OpDef& def = *find_op(op);
    for (const Sample& s : def.samples()) {
      DimBinding binding;
      const Graph graph = with_symbols(def, s, binding);
      for (const auto& [symbol, size] : binding.sizes()) {
        DimBinding wrong = binding;
        wrong.set(symbol, size + 1);
        EXPECT_THROW(bind(graph, wrong), Error) << op << " " << s.name << " " << symbol.name();
      }
    }
  }
}

TEST(AllOps, OracleRunsEverySample) {
  for (const OpDef* def : ops_with_samples())
    for (const Sample& s : def->samples()) {
      const std::vector<Tensor> values = materialize(s, 1);
      const std::vector<Tensor> results = run_sample(*def, s, values);
      bool found = results.empty() || results[0].elements() <= 1;
      for (const Tensor& t : results)
        for (float v : t.to_floats()) {
          ASSERT_FALSE(std::isnan(v)) << def->name << " " << s.name;
          found = found || v != 0.0f || s.name.find("zero") != std::string::npos ||
                  s.name.find("relu") != std::string::npos ||
                  s.name.find("scale_0") != std::string::npos ||
                  s.name.find("by_0") != std::string::npos;
        }
      EXPECT_TRUE(found) << def->name << " " << s.name << ": only zeros";
    }
}

TEST(Materialize, SameSeedSameBytes) {
  const Sample s = find_op("self_attention")->samples().front();
  const std::vector<Tensor> a = materialize(s, 7), b = materialize(s, 7), c = materialize(s, 8);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(std::equal(a[i].data(), a[i].data() + a[i].byte_size(), b[i].data())) << i;
  EXPECT_NE(a[0].to_floats(), c[0].to_floats());
}

// References do a worker's part: three workers write the same bytes as one (row-wise ops and
// products alike).
TEST(AllOps, ReferencesDivideTheWork) {
  for (const OpDef* def : ops_with_samples()) {
    if (def->reference == nullptr || def->has(Trait::state)) continue;
    const Sample s = def->samples()[2];
    const std::vector<Tensor> values = materialize(s, 3), whole = run_sample(*def, s, values);
    std::vector<Tensor> parts;
    std::vector<TensorView> in, out;
    for (const Tensor& t : values) in.push_back(access::view_of(t));
    for (const Tensor& t : whole) parts.push_back(Tensor::zeros(t.dims(), t.dtype()));
    for (const Tensor& t : parts) out.push_back(access::view_of(t));
    KernelArgs args;
    args.in = in.data();
    args.out = out.data();
    args.inputs = static_cast<int>(in.size());
    args.outputs = static_cast<int>(out.size());
    args.threads = 3;
    for (args.thread = 0; args.thread < 3; ++args.thread) def->reference(s.op, args);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_EQ(parts[i].to_floats(), whole[i].to_floats()) << def->name << " result " << i;
  }
}

// What an op promises the planner: the result may lie where the operand lies that it names.
TEST(AllOps, ReferencesWorkInPlace) {
  std::set<std::string_view> ran;
  for (const OpDef* def : ops_with_samples()) {
    if (def->in_place == nullptr || def->reference == nullptr) continue;
    for (const Sample& s : def->samples()) {
      const int k = def->in_place(s.op);
      if (k < 0) continue;
      ASSERT_LT(k, static_cast<int>(s.operands.size())) << def->name << " " << s.name;
      const std::vector<Tensor> values = materialize(s, 3), want = run_sample(*def, s, values);
      const Tensor& taken = values[static_cast<std::size_t>(k)];
      if (!std::ranges::equal(taken.dims(), want[0].dims()) || taken.dtype() != want[0].dtype()) continue;
      Tensor y = Tensor::zeros(taken.dims(), taken.dtype());
      std::copy_n(taken.data(), taken.byte_size(), y.mutable_data());
      std::vector<TensorView> in;
      for (const Tensor& t : values) in.push_back(access::view_of(t));
      in[static_cast<std::size_t>(k)] = access::view_of(y);
      const TensorView out = access::view_of(y);
      KernelArgs args;
      args.in = in.data();
      args.out = &out;
      args.inputs = static_cast<int>(in.size());
      args.outputs = 1;
      def->reference(s.op, args);
      EXPECT_TRUE(std::equal(y.data(), y.data() + y.byte_size(), want[0].data())) << def->name << " " << s.name;
      ran.insert(def->name);
    }
  }
  EXPECT_GE(ran.size(), 8u);
}

}  // namespace
}  // namespace rlx
