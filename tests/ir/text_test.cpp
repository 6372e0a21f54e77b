// The text form: exact round trip of graphs, and messages for text that is wrong.
#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/stage.h"
#include "ops/attention.h"
#include "ops/block.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace rlx {
namespace {

Graph small_decoder() {
  Graph g("small \"decoder\"\n");
  Builder b(g);
  const Dim rows(sym::rows);
  const Value tokens = b.input("tokens", Shape({rows}, DType::i32));
  const Value positions = b.input("positions", Shape({rows}, DType::i32));
  const Value seq_start = b.input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32));
  const Value past = b.input("past", Shape({sym::batch}, DType::i32));
  const Value slot = b.input("slot", Shape({sym::batch}, DType::i32));
  const Value out_rows = b.input("out_rows", Shape({sym::out_rows}, DType::i32));
  const Value pages = b.state("pages", Shape::page_table());
  const Value cache = b.state("kv.0", Shape::kv_state(2, 16, DType::f32));
  const Value table = b.param("embedding", Shape({160, 64}, DType::q8_0));
  const Value norm = b.param("norm", Shape({64}, DType::f32));
  const Value wq = b.param("wq", Shape({64, 64}, DType::q4_0));
  const Value wk = b.param("wk", Shape({32, 64}, DType::q4_0));
  const Value wv = b.param("wv", Shape({32, 64}, DType::q4_0));
  const Value inv_freq = b.param("inv_freq", Shape({8}, DType::f32));
  b.set_origin("layers.0");
  const Value x = b(Embedding{.scale = 1.5f}, table, tokens);
  const Value h = b(RmsNorm{.eps = 1e-5f}, x, norm);
  const SelfAttention attention{.heads = 4, .head_dim = 16, .rotary_dim = 16, .scale = 0.25f};
  const Value y = b.emit(
      attention, {h, cache, seq_start, past, slot, pages, positions, inv_freq, wq, wk, wv, wq});
  const Value sum = b(Add{}, x, y);
  b.set_origin("head \\ \"x\"");
  const Value logits = b(LmHead{.eps = 1e-5f, .softcap = 30.0f}, sum, norm, table, out_rows);
  g.set_outputs({{"logits", logits}, {"hidden", sum}});
  return g;
}

TEST(IrText, RoundTripIsExact) {
  const std::string text = print(small_decoder());
  const Graph again = parse_graph(text, "text");
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(again.outputs().size(), 2u);
  EXPECT_NO_THROW(verify(again, "parse"));
}

struct BadText {
  const char* name;
  const char* text;
  const char* message;
};

const BadText kBad[] = {
    {"NoHeader", "%0 = input \"x\" : f32[2]\n", "t:1:1: expected \"graph\""},
    {"UnknownStage", "graph \"g\" stage=lir\n", "unknown stage \"lir\": expected hir or mir"},
    {"UnknownOp", "graph \"g\" stage=hir\n %0 = frobnicate() : f32[2]\n",
     "t:2:17: unknown op \"frobnicate\""},
    {"UnknownAttribute",
     "graph \"g\" stage=hir\n%0 = input \"x\" : f32[2]\n%1 = scale(%0) facto=2 : f32[2]\n",
     "scale: no attribute \"facto\": did you mean \"factor\"?"},
    {"UseBeforeMade", "graph \"g\" stage=hir\n%0 = scale(%3) : f32[2]\n",
     "%3 is used before it is made"},
    {"WrongNumber", "graph \"g\" stage=hir\n%7 = input \"x\" : f32[2]\n", "expected %0, found %7"},
    {"WrongShape", "graph \"g\" stage=hir\n%0 = input \"x\" : f32[2]\n%1 = scale(%0) : f32[3]\n",
     "scale gives f32[2], found f32[3]"},
    {"BadDtype", "graph \"g\" stage=hir\n%0 = input \"x\" : f33[2]\n", "unknown dtype \"f33\""},
    {"BadSize", "graph \"g\" stage=hir\n%0 = input \"x\" : f32[2 +]\n", "expected a size"},
    {"HugeSize", "graph \"g\" stage=hir\n%0 = input \"x\" : f32[99999999999999999999]\n",
     "expected an integer"},
    {"NoReturn", "graph \"g\" stage=hir\n%0 = input \"x\" : f32[2]\n",
     "expected a line \"return ...\""},
    {"AfterReturn", "graph \"g\" stage=hir\nreturn\n%0 = input \"x\" : f32[2]\n",
     "expected the end after \"return\""},
    {"TwoOutputs", "graph \"g\" stage=hir\n%0 = input \"x\" : f32[2]\nreturn \"y\" %0, \"y\" %0\n",
     "a second output named \"y\""},
    {"SecondInput", "graph \"g\" stage=hir\n%0 = input \"x\" : f32[2]\n%1 = input \"x\" : f32[2]\n",
     "a second input named \"x\""},
    {"OpenString", "graph \"g\n", "a string without its closing quote"},
    {"DeepSize",
     "graph \"g\" stage=hir\n%0 = input \"x\" : "
     "f32[ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div("
     "ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div("
     "ceil_div("
     "ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(ceil_div("
     "ceil_div("
     "ceil_div(ceil_div(ceil_div(ceil_div(ceil_div(rows]\n",
     "nested too deeply"},
};

class IrTextErrors : public testing::TestWithParam<BadText> {};

TEST_P(IrTextErrors, NamesLineAndFault) {
  try {
    parse_graph(GetParam().text, "t");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(GetParam().message), std::string::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Table, IrTextErrors, testing::ValuesIn(kBad),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace rlx
