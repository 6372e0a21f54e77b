// Sizes from concrete inputs, and binding of graphs.
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ops/elementwise.h"
#include "ops/index.h"

namespace rlx {
namespace {

Graph two_inputs() {
  Graph g("two");
  Builder b(g);
  const Value x = b.input("x", Shape({sym::rows, 4}, DType::f32));
  const Value y = b.input("y", Shape({sym::rows, 4}, DType::f32));
  const Value i = b.input("i", Shape({Dim(sym::out_rows) * Dim(2) + Dim(1)}, DType::i32));
  g.set_outputs({{"z", b(SelectRows{}, b(Add{}, x, y), i)}});
  return g;
}

std::string message(const std::vector<NamedDims>& inputs) {
  try {
    return infer_bindings(two_inputs(), inputs).text();
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(InferBindings, SolvesForEachSymbol) {
  EXPECT_EQ(message({{"x", {5, 4}}, {"y", {5, 4}}, {"i", {7}}}), "out_rows=3,rows=5");
}

TEST(InferBindings, ErrorsNameTheInputs) {
  EXPECT_EQ(
      message({{"x", {5, 4}}, {"y", {6, 4}}, {"i", {7}}}),
      "input \"y\" axis 0: expected rows = 5, found 6 (\"rows\" was fixed by input \"x\" axis 0)");
  EXPECT_EQ(message({{"x", {5, 4}}, {"i", {8}}}), "input \"i\" axis 0: 2*out_rows + 1 cannot be 8");
  EXPECT_EQ(message({{"x", {5}}}), "input \"x\": expected rank 2, found 1");
  EXPECT_EQ(message({{"w", {5}}}), "two: no input named \"w\"");
  EXPECT_EQ(message({{"x", {5, 3}}}), "input \"x\" axis 1: expected 4, found 3");
}

TEST(Bind, KeepsNodesAndNamesWhatIsLeft) {
  const Graph g = bind(two_inputs(), {{sym::rows, 5}});
  EXPECT_EQ(g.nodes().size(), two_inputs().nodes().size());
  EXPECT_EQ(g.shape(g.find_source("x")).text(), "f32[5, 4]");
  try {
    require_bound(g);
    FAIL() << "nothing was left";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "two: the symbol \"out_rows\" is not bound; first needed by input \"i\"");
  }
  EXPECT_FALSE(has_symbols(bind(g, {{sym::out_rows, 2}})));
}

}  // namespace
}  // namespace rlx
