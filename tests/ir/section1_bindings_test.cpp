// Symbols over graphs: binding commutes with inference for every op, and every error of the section by its words.
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "error_text.h"
#include "ir/graph.h"
#include "ir/sample.h"
#include "ir/source.h"
#include "ops/elementwise.h"
#include "ops/materialize.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

// Which axes of a sample's operands are symbols.
enum class Symbolic {
  first_axis,  // axis 0 of the first operand
  each_axis,   // one symbol per operand and axis: equal ones meet in checks
  equal_sizes  // one symbol per size: equal ones are equal by name
};

// A graph of the op alone over symbolic inputs; nothing when the op cannot be inferred for these symbols (it asks for a
// constant size, as the packed axis of a weight).
std::optional<Graph> symbolic_graph(const OpDef& def, const Sample& sample, Symbolic how, std::size_t skip,
                                    DimBinding& binding) {
  Graph graph("symbolic");
  Builder b(graph);
  std::vector<Value> operands;
  std::size_t place = 0;
  for (const SampleOperand& o : sample.operands) {
    Shape shape = o.shape;
    for (int axis = 0; !shape.is_state() && axis < shape.rank(); ++axis, ++place) {
      const std::int64_t size = *shape.dim(axis).constant();
      // 1 may stand for a repeated axis, which a symbol never is.
      if (size == 1 || place == skip || (how == Symbolic::first_axis && place > 0)) continue;
      const Symbol s = how == Symbolic::equal_sizes ? Symbol::named(fmt::format("size{}", size))
                                                    : Symbol::named(fmt::format("n{}", place));
      binding.set(s, size);
      shape = shape.with_dim(axis, s);
    }
    const std::string name = fmt::format("operand{}", operands.size());
    operands.push_back(o.shape.is_state() ? b.state(name, shape) : b.input(name, shape));
  }
  try {
    const Value v = graph.add(def, sample.op, operands);
    std::vector<Output> outputs;
    for (std::size_t i = 0; i < graph.node(v).results.size(); ++i)
      outputs.push_back({fmt::format("y{}", i), b.result(v, static_cast<int>(i))});
    graph.set_outputs(std::move(outputs));
  } catch (const Error&) {
    return std::nullopt;
  }
  return graph;
}

// The shapes of the results, bound.
std::vector<std::string> bound_shapes(const Graph& graph, const DimBinding& binding) {
  const Graph bound = bind(graph, binding);
  std::vector<std::string> shapes;
  for (const Output& o : bound.outputs()) {
    EXPECT_EQ(graph.shape(o.value).bind(binding), bound.shape(o.value)) << "the shape and the graph bind alike";
    shapes.push_back(bound.shape(o.value).text());
  }
  return shapes;
}

TEST(section1_EveryOp, InferThenBindIsBindThenInfer) {
  std::map<std::string_view, int> tried;
  for (const OpDef& def : all_ops()) {
    if (def.has(Trait::source)) continue;
    for (const Sample& sample : def.samples()) {
      std::vector<std::string> want;
      const Graph plain = sample_graph(def, sample);
      for (const Output& o : plain.outputs()) want.push_back(plain.shape(o.value).text());
      std::size_t axes = 1;  // of all operands, and one that is none
      for (const SampleOperand& o : sample.operands) axes += static_cast<std::size_t>(o.shape.rank());
      for (const Symbolic how : {Symbolic::first_axis, Symbolic::each_axis, Symbolic::equal_sizes})
        // All axes are symbols, or all but one: ops differ in which one they want to know.
        for (std::size_t skip = 0; skip < axes; ++skip) {
          DimBinding binding;
          const std::optional<Graph> graph = symbolic_graph(def, sample, how, axes - 1 - skip, binding);
          if (!graph || binding.empty()) continue;
          EXPECT_EQ(collect_symbols(*graph).size(), binding.sizes().size());
          EXPECT_EQ(bound_shapes(*graph, binding), want) << def.name << " " << sample.name;
          ++tried[def.name];
          break;
        }
    }
  }
  for (const OpDef& def : all_ops()) {
    const std::vector<Sample> samples = def.samples();
    const bool sized = std::any_of(samples.begin(), samples.end(), [](const Sample& s) { return !s.operands.empty(); });
    if (!def.has(Trait::source) && def.control == nullptr && sized) {
      EXPECT_GT(tried[def.name], 0) << def.name << " was never symbolic";
    }
  }
}

const Dim kRows(sym::rows), kSeq(sym::seq), kBatch(sym::batch);

TEST(section1_Errors, AnUnboundSymbolIsNamedWithTheFirstNodeThatNeedsIt) {
  Graph g("model");
  Builder b(g);
  const Value x = b.input("x", Shape({4, 8}, DType::f32)), y = b.input("y", Shape({kRows, 8}, DType::f32));
  g.set_outputs({{"z", b(RmsNorm{}, y, b.param("w", Shape({8}, DType::f32)))}, {"x", x}});
  EXPECT_EQ(test::error_text(ErrorCode::shape, [&] { require_bound(g); }),
            "model: the symbol \"rows\" is not bound; first needed by input \"y\"");
  // In an attribute, by a node without a name.
  Graph h("model");
  Builder c(h);
  h.set_outputs({{"z", c(Reshape{.dims = DimList{kSeq, Dim(2)}}, c.input("x", Shape({4, 2}, DType::f32)))}});
  EXPECT_EQ(test::error_text(ErrorCode::shape, [&] { require_bound(h); }),
            "model: the symbol \"seq\" is not bound; first needed by reshape %1");
  EXPECT_EQ(test::error_text(ErrorCode::shape, [&] { require_bound(bind(h, {{sym::seq, 4}})); }), "no error");
}

Graph inputs_of(std::initializer_list<std::pair<const char*, Shape>> sources) {
  Graph g("model");
  Builder b(g);
  for (const auto& [name, shape] : sources) b.input(name, shape);
  return g;
}

TEST(section1_Errors, AContradictionNamesBothInputs) {
  const Graph g = inputs_of({{"ids", Shape({kBatch, kSeq}, DType::i32)}, {"mask", Shape({kBatch * kSeq}, DType::i32)}});
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               infer_bindings(g, std::vector<NamedDims>{{"ids", {2, 8}}, {"mask", {15}}});
                             }),
            "input \"mask\" axis 0: expected batch*seq = 16, found 15 (\"batch\" was fixed by input \"ids\" axis 0)");
  const Graph same = inputs_of({{"x", Shape({kRows}, DType::f32)}, {"y", Shape({kRows}, DType::f32)}});
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               infer_bindings(same, std::vector<NamedDims>{{"x", {3}}, {"y", {4}}});
                             }),
            "input \"y\" axis 0: expected rows = 3, found 4 (\"rows\" was fixed by input \"x\" axis 0)");
}

TEST(section1_Errors, ASizeThatTheExpressionCannotHave) {
  const Graph g = inputs_of({{"x", Shape({kRows * Dim(4) + Dim(2)}, DType::f32)}});
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               infer_bindings(g, std::vector<NamedDims>{{"x", {9}}});
                             }),
            "input \"x\" axis 0: 4*rows + 2 cannot be 9");
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               infer_bindings(g, std::vector<NamedDims>{{"x", {0}}});
                             }),
            "input \"x\" axis 0: 4*rows + 2 cannot be 0");
  EXPECT_EQ(infer_bindings(g, std::vector<NamedDims>{{"x", {14}}}).text(), "rows=3");
}

TEST(section1_Errors, SymbolsThatCannotBeToldApart) {
  const Graph g = inputs_of({{"x", Shape({kBatch * kSeq}, DType::f32)}, {"y", Shape({kBatch + kSeq}, DType::f32)}});
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               infer_bindings(g, std::vector<NamedDims>{{"x", {12}}, {"y", {7}}});
                             }),
            "input \"x\" axis 0: batch*seq = 12 does not tell its symbols apart (\"batch\" stays open)");
  // One of them known from another input tells the other, in any order of the inputs.
  const Graph h = inputs_of({{"x", Shape({kBatch * kSeq}, DType::f32)}, {"z", Shape({kSeq}, DType::f32)}});
  EXPECT_EQ(infer_bindings(h, std::vector<NamedDims>{{"x", {12}}, {"z", {4}}}).text(), "batch=3,seq=4");
}

TEST(section1_Errors, ASliceOutsideItsAxisIsNeverClamped) {
  Graph g("model");
  Builder b(g);
  const Value x = b.input("x", Shape({kRows, 4}, DType::f32));
  g.set_outputs({{"y", b(Slice{.axis = 0, .start = Dim(2), .stop = Dim(6)}, x)}});
  EXPECT_EQ(test::error_text(ErrorCode::shape, [&] { bind(g, {{sym::rows, 6}}); }), "no error");
  const std::string outside = test::error_text(ErrorCode::shape, [&] { bind(g, {{sym::rows, 5}}); });
  EXPECT_NE(outside.find("slice: "), std::string::npos) << outside;
  EXPECT_NE(outside.find("rows=5"), std::string::npos) << outside;
  const std::string at_once =
      test::error_text(ErrorCode::shape, [&] { b(Slice{.axis = 1, .start = Dim(0), .stop = Dim(5)}, x); });
  EXPECT_NE(at_once.find("slice: "), std::string::npos) << at_once;
}

TEST(section1_Errors, AReshapeKeepsTheCount) {
  Graph g("model");
  Builder b(g);
  const Value x = b.input("x", Shape({kRows, 6}, DType::f32));
  g.set_outputs({{"y", b(Reshape{.dims = DimList{kSeq, Dim(4)}}, x)}});
  EXPECT_EQ(test::error_text(ErrorCode::shape, [&] { bind(g, {{sym::rows, 2}, {sym::seq, 3}}); }), "no error");
  const std::string wrong = test::error_text(ErrorCode::shape, [&] { bind(g, {{sym::rows, 2}, {sym::seq, 4}}); });
  EXPECT_NE(wrong.find("reshape: "), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("12"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("16"), std::string::npos) << wrong;
}

TEST(section1_Bind, KeepsNodesAndIds) {
  Graph g("model");
  Builder b(g);
  const Value x = b.input("x", Shape({kRows, 8}, DType::f32)), w = b.param("w", Shape({4, 8}, DType::f32));
  b.set_origin("layers.0");
  const Value y = b(Linear{}, x, w);
  g.set_outputs({{"y", y}});
  const Graph bound = bind(g, {{sym::rows, 3}, {sym::seq, 9}});
  ASSERT_EQ(bound.nodes().size(), g.nodes().size());
  for (std::size_t i = 0; i < g.nodes().size(); ++i) {
    const auto k = static_cast<std::int32_t>(i);
    EXPECT_EQ(bound.node(k).def, g.node(k).def);
    EXPECT_EQ(bound.node(k).inputs, g.node(k).inputs);
    EXPECT_EQ(bound.node(k).origin, g.node(k).origin);
  }
  EXPECT_EQ(bound.shape(y).text(), "f32[3, 4]");
  EXPECT_EQ(bind(g, {{sym::seq, 9}}).shape(y).text(), "f32[rows, 4]") << "an unbound symbol stays";
}

}  // namespace
}  // namespace rlx
