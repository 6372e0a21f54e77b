// What the page and the trace are made of: groups, data flow of a program, costs.
#include <gtest/gtest.h>

#include "base/error.h"
#include "compiler/inspection.h"
#include "ir/parse.h"
#include "runtime/backends.h"

namespace rlx {
namespace {

using Path = std::vector<std::string>;

TEST(section6_inspection, GroupsFollowTheOrigin) {
  EXPECT_EQ(group_path("layers.3.attention"), (Path{"layers.3", "layers.3.attention"}));
  EXPECT_EQ(group_path("encoder.layers.12"), (Path{"encoder", "encoder.layers.12"}));
  EXPECT_EQ(group_path("lm_head"), Path{"lm_head"});
  EXPECT_EQ(group_path("7.x"), (Path{"7", "7.x"}));
  EXPECT_EQ(group_path(""), Path{});
}

const char* kText =
    "graph \"g\" stage=mir\n"
    "  %0 = input \"x\" : f32[rows, 8] @\"a\"\n"
    "  %1 = param \"w\" : f32[4, 8] @\"a\"\n"
    "  %2 = activation(%0) : f32[rows, 8] @\"a\"\n"
    "  %3 = linear(%2, %1) : f32[rows, 4] @\"b\"\n"
    "  %4 = activation(%3) : f32[rows, 4] @\"b\"\n"
    "  %5 = add(%4, %4) : f32[rows, 4] @\"b\"\n"
    "return \"y\" %5\n";

Inspection look(std::vector<DimBinding> sizes) {
  const Graph graph = parse_graph(kText, "test");
  return inspect(graph, compile(graph, CompileOptions{}, find_backend(Device::cpu())), sizes, {1, 0});
}

TEST(section6_inspection, AProgramIsDrawnByWhoWroteWhat) {
  const Inspection all = look({DimBinding{{sym::rows, 3}}});
  ASSERT_EQ(all.graphs.size(), 2u) << "MIR was compiled: there is no HIR";
  const InspectedGraph& lir = all.graphs[1];
  std::int32_t calls = 0;
  for (std::size_t i = 0; i < lir.nodes.size(); ++i) {
    const InspectedNode& n = lir.nodes[i];
    for (const Value v : n.inputs) EXPECT_LT(v.node, static_cast<std::int32_t>(i)) << "values precede readers";
    EXPECT_EQ(n.source, n.call < 0);
    if (n.call >= 0) {
      EXPECT_EQ(n.call, calls++);
    }
  }
  EXPECT_EQ(static_cast<std::size_t>(calls), all.calls.size());
  const InspectedNode& last = lir.nodes[static_cast<std::size_t>(lir.outputs.at(0).value.node)];
  EXPECT_EQ(last.call, calls - 1);
}

TEST(section6_inspection, CostsFollowTheShapes) {
  const Graph graph = parse_graph(kText, "test");
  const std::vector<OpCost> costs = node_costs(graph, DimBinding{{sym::rows, 3}}, 0);
  EXPECT_EQ(costs[0].bytes, 0) << "a source is read by its readers";
  EXPECT_EQ(costs[2].bytes, 2 * 3 * 8 * 4);
  EXPECT_EQ(costs[2].ops, 3 * 8);
  EXPECT_EQ(costs[3].weight_bytes, 4 * 8 * 4);
  EXPECT_EQ(costs[3].bytes, 3 * 8 * 4 + 4 * 8 * 4 + 3 * 4 * 4);
  EXPECT_EQ(costs[3].ops, 2 * 3 * 8 * 4);
}

TEST(section6_inspection, ASizeThatIsLeftOutIsOne) {
  const Inspection all = look({DimBinding{}, DimBinding{{sym::rows, 100}}});
  EXPECT_EQ(all.variants[0].sizes.get(sym::rows), 1);
  EXPECT_EQ(all.variants[1].sizes.get(sym::rows), 100);
  EXPECT_GE(all.variants[1].arena_bytes, all.variants[1].arena_bound);
  EXPECT_GT(all.variants[1].arena_bound, all.variants[0].arena_bound);
}

}  // namespace
}  // namespace rlx
