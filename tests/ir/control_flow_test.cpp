// Control flow: if, while and scan over sub-graphs, by the interpreter and by both backends.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/stage.h"
#include "ops/control.h"
#include "ops/interpret.h"
#include "runtime/model_pipeline.h"

namespace rlx {
namespace {

Tensor f32s(std::vector<std::int64_t> dims, std::vector<float> values) {
  return Tensor::from(std::move(dims), std::span<const float>(values));
}
Tensor truth(bool value) {
  Tensor t = Tensor::zeros({}, DType::boolean);
  t.mutable_as<std::uint8_t>()[0] = value ? 1 : 0;
  return t;
}

// All outputs, one after the other, of the interpreter; every backend must give the same.
std::vector<std::vector<float>> outputs(const std::string& text, const std::vector<NamedTensor>& inputs,
                                        const DimBinding& sizes = {}) {
  const Graph graph = parse_graph(text, "text");
  EXPECT_NO_THROW(verify(graph, "parse"));
  EXPECT_EQ(print(parse_graph(print(graph), "again")), print(graph));
  std::vector<std::vector<float>> want;
  for (const NamedTensor& t : Interpreter(bind(graph, sizes)).run(inputs)) want.push_back(t.tensor.to_floats());
  for (const Device& device : {Device::cpu(), Device::reference()})
    for (const bool fusion : {true, false}) {
      CompileOptions options;
      options.fusion = fusion;
      const auto compiled = Session(device).compile(graph, options, sizes);
      for (int run = 0; run < 2; ++run) {  // the second finds what the first left in the arena
        const std::vector<NamedTensor> got = compiled->run(inputs);
        for (std::size_t i = 0; i < want.size(); ++i)
          EXPECT_EQ(got[i].tensor.to_floats(), want[i]) << device.text() << " output " << i << "\n"
                                                        << compiled->compiled().lir.program->text();
      }
    }
  return want;
}

const std::string kIf = R"(graph "choose" stage=hir
  graph @0 "double"
    %0 = input "x" : f32[rows, 2]
    %1 = scale(%0) factor=2 : f32[rows, 2]
  return "y" %1, "same" %0
  graph @1 "negate"
    %0 = input "x" : f32[rows, 2]
    %1 = scale(%0) factor=-1 : f32[rows, 2]
    %2 = scale(%1) factor=3 : f32[rows, 2]
  return "y" %1, "three" %2
  %0 = input "c" : boolean[]
  %1 = input "x" : f32[rows, 2]
  %2, %3 = if(%0, %1) then=@0 else=@1 : f32[rows, 2], f32[rows, 2]
  %4 = add(%2, %1) : f32[rows, 2]
return "a" %4, "b" %3
)";

TEST(section12_ControlFlow, IfRunsOneBranch) {
  const DimBinding one{{sym::rows, 1}};
  const Tensor x = f32s({1, 2}, {1, 5});
  using Rows = std::vector<std::vector<float>>;
  EXPECT_EQ(outputs(kIf, {{"c", truth(true)}, {"x", x}}, one), (Rows{{3, 15}, {1, 5}}));
  EXPECT_EQ(outputs(kIf, {{"c", truth(false)}, {"x", x}}, one), (Rows{{0, 0}, {-3, -15}}));
}

// a, b = b, a + b while a < limit: the carried values change places, all at once.
const std::string kWhile = R"(graph "fibonacci" stage=hir
  graph @0 "below"
    %0 = input "a" : f32[1]
    %1 = input "b" : f32[1]
    %2 = input "limit" : f32[1]
    %3 = compare(%0, %2) relation=lt : boolean[1]
  return "more" %3
  graph @1 "next"
    %0 = input "a" : f32[1]
    %1 = input "b" : f32[1]
    %2 = input "limit" : f32[1]
    %3 = add(%0, %1) : f32[1]
  return "a" %1, "b" %3, "limit" %2
  %0 = input "limit" : f32[1]
  %1 = constant {0} : f32[1]
  %2 = constant {1} : f32[1]
  %3, %4, %5 = while(%1, %2, %0) condition=@0 body=@1 : f32[1], f32[1], f32[1]
return "a" %3, "b" %4
)";

TEST(section12_ControlFlow, WhileRunsUntilTheConditionFails) {
  using Rows = std::vector<std::vector<float>>;
  EXPECT_EQ(outputs(kWhile, {{"limit", f32s({1}, {100})}}), (Rows{{144}, {233}}));
  EXPECT_EQ(outputs(kWhile, {{"limit", f32s({1}, {-1})}}), (Rows{{0}, {1}})) << "not even once";
}

TEST(section12_ControlFlow, ALoopWithoutAnEndIsAnError) {
  std::string text = kWhile;
  text.replace(text.find(" body=@1"), 8, " body=@1 limit=5");
  const Graph graph = parse_graph(text, "text");
  const std::vector<NamedTensor> inputs = {{"limit", f32s({1}, {100})}};
  for (const Device& device : {Device::cpu(), Device::reference()}) {
    const auto compiled = Session(device).compile(graph);
    for (int run = 0; run < 2; ++run) try {
        compiled->run(inputs);
        ADD_FAILURE() << "no error";
      } catch (const Error& e) {
        EXPECT_STREQ(e.what(), "while: the condition still holds after 5 runs of the body");
      }
    EXPECT_EQ(compiled->run({{"limit", f32s({1}, {2})}})[0].tensor.to_floats(), std::vector<float>{2});
  }
  EXPECT_THROW(Interpreter(graph).run(inputs), Error);
}

// h = decay * h + x_t; y_t = h, and the inputs as they come: a carried value, a scanned one, one for all iterations.
std::string scan_text(const std::string& attributes) {
  return R"(graph "recurrence" stage=hir
  graph @0 "step"
    %0 = input "h" : f32[2]
    %1 = input "x" : f32[2]
    %2 = input "decay" : f32[2]
    %3 = mul(%0, %2) : f32[2]
    %4 = add(%3, %1) : f32[2]
  return "h" %4, "y" %4, "before" %0, "x" %1
  %0 = input "x" : f32[seq, 2]
  %1 = input "h" : f32[2]
  %2 = input "decay" : f32[2]
  %3, %4, %5, %6 = scan(%1, %0, %2) body=@0 carried=1 scanned=1 length=seq)" +
         attributes + R"( : f32[2], f32[seq, 2], f32[seq, 2], f32[seq, 2]
return "h" %3, "y" %4, "before" %5, "x" %6
)";
}

TEST(section12_ControlFlow, ScanCarriesAndStacks) {
  using Rows = std::vector<std::vector<float>>;
  const std::vector<NamedTensor> three = {{"x", f32s({3, 2}, {1, 10, 2, 20, 3, 30})},
                                          {"h", f32s({2}, {8, 0})},
                                          {"decay", f32s({2}, {0.5f, 1})}};
  EXPECT_EQ(outputs(scan_text(""), three, {{sym::seq, 3}}),
            (Rows{{5.25f, 60}, {5, 10, 4.5f, 30, 5.25f, 60}, {8, 0, 5, 10, 4.5f, 30}, {1, 10, 2, 20, 3, 30}}));
  EXPECT_EQ(outputs(scan_text(" reverse=true"), three, {{sym::seq, 3}}),
            (Rows{{3.75f, 60}, {3.75f, 60, 5.5f, 50, 7, 30}, {5.5f, 50, 7, 30, 8, 0}, {1, 10, 2, 20, 3, 30}}));
}

TEST(section12_ControlFlow, ScanOfNoElements) {
  using Rows = std::vector<std::vector<float>>;
  const std::vector<NamedTensor> none = {
      {"x", Tensor::zeros({0, 2})}, {"h", f32s({2}, {8, 1})}, {"decay", f32s({2}, {1, 1})}};
  EXPECT_EQ(outputs(scan_text(""), none, {{sym::seq, 0}}), (Rows{{8, 1}, {}, {}, {}}));
}

// A scan whose body has a while and an if: sums of powers, row by row.
const std::string kNested = R"(graph "nested" stage=hir
  graph @0 "row"
    graph @0 "small"
      %0 = input "v" : f32[1]
      %1 = input "limit" : f32[1]
      %2 = compare(%0, %1) relation=lt : boolean[1]
    return "more" %2
    graph @1 "grow"
      %0 = input "v" : f32[1]
      %1 = input "limit" : f32[1]
      %2 = scale(%0) factor=2 : f32[1]
    return "v" %2, "limit" %1
    graph @2 "keep"
      %0 = input "v" : f32[1]
    return "v" %0
    graph @3 "drop"
      %0 = input "v" : f32[1]
      %1 = scale(%0) factor=0 : f32[1]
    return "v" %1
    %0 = input "sum" : f32[1]
    %1 = input "x" : f32[1]
    %2 = input "limit" : f32[1]
    %3, %4 = while(%1, %2) condition=@0 body=@1 : f32[1], f32[1]
    %5 = compare(%3, %1) relation=gt : boolean[1]
    %6 = if(%5, %3) then=@2 else=@3 : f32[1]
    %7 = add(%0, %6) : f32[1]
  return "sum" %7, "grown" %3
  %0 = input "x" : f32[seq, 1]
  %1 = input "limit" : f32[1]
  %2 = constant {0} : f32[1]
  %3, %4 = scan(%2, %0, %1) body=@0 carried=1 scanned=1 length=seq : f32[1], f32[seq, 1]
  %5 = scale(%1) factor=10 : f32[1]
  %6 = add(%3, %5) : f32[1]
return "sum" %6, "grown" %4
)";

TEST(section12_ControlFlow, NestsAndKeepsWhatTheLoopReads) {
  using Rows = std::vector<std::vector<float>>;
  // 1 grows to 16, 3 to 12, 20 stays and is dropped.
  EXPECT_EQ(outputs(kNested, {{"x", f32s({3, 1}, {1, 3, 20})}, {"limit", f32s({1}, {9})}}, {{sym::seq, 3}}),
            (Rows{{16 + 12 + 90}, {16, 12, 20}}));
}

TEST(section12_ControlFlow, SymbolsAreFoundAndBoundInSubGraphs) {
  const Graph g = parse_graph(kNested, "text");
  EXPECT_EQ(collect_symbols(g), std::vector<Symbol>{sym::seq});
  const Graph choose = parse_graph(kIf, "text");
  EXPECT_TRUE(has_symbols(choose.subgraph({0})));
  const Graph bound = bind(choose, {{sym::rows, 4}});
  EXPECT_FALSE(has_symbols(bound));
  EXPECT_EQ(bound.subgraph({1}).shape({2, 0}).text(), "f32[4, 2]");
  EXPECT_NE(digest(bound), digest(choose));
}

TEST(section12_ControlFlow, TheReportNamesTheStepsAndTheirNodes) {
  CompileOptions options;
  options.disabled_passes = {"form_regions"};  // its ops by their own names
  const auto compiled = Session(Device::cpu()).compile(parse_graph(kNested, "text"), options, {{sym::seq, 2}});
  const DispatchReport& report = compiled->compiled().dispatch;
  const auto has = [&](const std::string& op, const std::string& node) {
    return std::any_of(report.rows.begin(), report.rows.end(), [&](const DispatchRow& r) {
      return r.op == op && r.node.find(node) != std::string::npos;
    });
  };
  EXPECT_TRUE(has("scan", "%3"));
  EXPECT_TRUE(has("while", "body"));
  EXPECT_TRUE(has("scale", "body %3 body"));
}

struct BadControl {
  const char* name;
  const char* change;
  const char* to;
  const char* message;
};
const BadControl kBadControl[] = {
    {"Missing", " else=@1", "", "if: the sub-graph \"else\" is missing"},
    {"Unknown", " else=@1", " else=@2", "if: the sub-graph \"else\" is missing"},
    {"Condition", "boolean[]", "f32[]", "if: condition: expected boolean[] or boolean[1], found f32[]"},
    {"InputCount", "if(%0, %1)", "if(%0, %1, %1)", "if: the sub-graph \"then\" has 1 inputs: expected 2"},
    {"InputType", "%1 = input \"x\" : f32[rows, 2]", "%1 = input \"x\" : f32[rows, 3]",
     "if: input \"x\" of the sub-graph \"then\": expected f32[rows, 2], found f32[rows, 3]"},
    {"OutputCount", ", \"three\" %2", "", "if: the sub-graph \"else\" has 1 outputs: expected 2"},
    {"Param", "%0 = input \"x\" : f32[rows, 2]\n    %1 = scale(%0) factor=2",
     "%0 = param \"x\" : f32[rows, 2]\n    %1 = scale(%0) factor=2",
     "sub-graph \"double\": expected inputs and constants as its only sources, found param \"x\""},
    {"Number", "graph @1", "graph @2", "expected @1, found @2: sub-graphs are numbered in order"},
};
class ControlFlowErrors : public testing::TestWithParam<BadControl> {};
TEST_P(ControlFlowErrors, NamesTheFault) {
  std::string text = kIf;
  text.replace(text.find(GetParam().change), std::string(GetParam().change).size(), GetParam().to);
  try {
    parse_graph(text, "t");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(GetParam().message), std::string::npos) << e.what();
  }
}
INSTANTIATE_TEST_SUITE_P(Table, ControlFlowErrors, testing::ValuesIn(kBadControl),
                         [](const auto& i) { return std::string(i.param.name); });

TEST(section12_ControlFlow, NestingIsBounded) {
  std::string text = "graph \"g\" stage=hir\n";
  for (int i = 0; i < 9; ++i) text += "graph @0 \"g\"\n";
  try {
    parse_graph(text, "t");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("more than 8 levels of sub-graphs"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace rlx
