// Passes rebuild a graph from their first change on: before it nothing is copied, and a rule sees the same either way.
#include "ir/rewrite.h"

#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/stage.h"
#include "ops/elementwise.h"

namespace rlx {
namespace {

constexpr std::string_view kText = R"(graph "g" stage=mir
  %0 = input "x" : f32[rows, 4]
  %1 = input "y" : f32[rows, 4]
  %2 = add(%0, %1) : f32[rows, 4] @"first"
  %3 = mul(%2, %1) : f32[rows, 4] @"second"
  %4 = add(%3, %2) : f32[rows, 4] @"third"
return "z" %4
)";

TEST(Rewriter, ARuleWithoutAnswersLeavesTheGraphAsItLies) {
  Graph graph = parse_graph(kText, "test");
  const Node* nodes = graph.nodes().data();
  std::vector<std::size_t> built;
  const bool changed = Rewriter(graph).run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    built.push_back(s.b.graph().nodes().size());
    EXPECT_TRUE(std::equal(s.inputs.begin(), s.inputs.end(), s.node.inputs.begin()));
    return {};
  });
  EXPECT_FALSE(changed);
  EXPECT_EQ(built, (std::vector<std::size_t>{0, 1, 2, 3, 4})) << "a rule sees the nodes in front of its own";
  EXPECT_EQ(graph.nodes().data(), nodes);
  EXPECT_EQ(print(graph), kText);
}

TEST(Rewriter, TheNodesInFrontOfAChangeKeepTheirNumbers) {
  Graph graph = parse_graph(kText, "test");
  Rewriter rewriter(graph);
  const bool changed = rewriter.run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (!s.node.is<Mul>()) return {};
    EXPECT_EQ(rewriter.now(s.node.inputs[0]), s.node.inputs[0]);
    EXPECT_FALSE(rewriter.single_use(s.node.inputs[0]));
    return {s.b(Add{}, s.inputs[0], s.inputs[1])};
  });
  EXPECT_TRUE(changed);
  verify(graph, "test");
  EXPECT_EQ(graph.node(3).def->name, "add");
  EXPECT_EQ(graph.node(3).origin, "second");
  EXPECT_EQ(graph.node(4).inputs, (std::vector<Value>{{3, 0}, {2, 0}}));
}

// A rule may emit nodes and then decline: they are dead, and the graph is as before.
TEST(Rewriter, NodesThatNoAnswerUsesAreDropped) {
  Graph graph = parse_graph(kText, "test");
  const bool changed = Rewriter(graph).run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    if (s.node.def->has(Trait::source)) return {};
    s.b(Mul{}, s.inputs[0], s.inputs[1]);
    EXPECT_TRUE(s.b.graph().find_source("x"));
    return {};
  });
  EXPECT_FALSE(changed);
  EXPECT_EQ(print(graph), kText);
}

TEST(Rewriter, ABorrowingGraphKnowsTheSourcesInFrontOnly) {
  Graph graph = parse_graph(kText, "test");
  Rewriter(graph).run([&](const Rewriter::Site& s) -> Rewriter::Answer {
    EXPECT_EQ(static_cast<bool>(s.b.graph().find_source("x")), s.index > 0);
    EXPECT_EQ(static_cast<bool>(s.b.graph().find_source("y")), s.index > 1);
    const Graph copy = s.b.graph();  // owns its nodes
    EXPECT_EQ(copy.nodes().size(), static_cast<std::size_t>(s.index));
    EXPECT_TRUE(s.index == 0 || copy.nodes().data() != s.b.graph().nodes().data());
    return {};
  });
}

TEST(Rewriter, AnAnswerOfOldValuesNeedsNoNewNode) {
  Graph graph = parse_graph(kText, "test");
  const bool changed = Rewriter(graph).run([](const Rewriter::Site& s) -> Rewriter::Answer {
    return s.node.is<Mul>() ? Rewriter::Answer{s.inputs[0]} : Rewriter::Answer{};
  });
  EXPECT_TRUE(changed);
  verify(graph, "test");
  EXPECT_EQ(graph.nodes().size(), 4u);
  EXPECT_EQ(graph.node(3).inputs, (std::vector<Value>{{2, 0}, {2, 0}}));
}

}  // namespace
}  // namespace rlx
