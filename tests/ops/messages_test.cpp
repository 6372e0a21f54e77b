// What a model author reads when shapes disagree, word by word.
#include "ops/attention.h"
#include "ops/block.h"
#include "ops/control.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/quant.h"
#include "ops/support.h"

namespace rlx {
namespace {

TEST(Messages, Elementwise) {
  EXPECT_EQ(shape_error(Add{}, {"f32[5, 64]", "f32[63]"}),
            "add: a [5, 64] and b [63] do not broadcast: 64 and 63 differ");
  EXPECT_EQ(shape_error(Mul{}, {"f32[5, 64]", "f16[64]"}), "mul: b: expected f32, found f16[64]");
  EXPECT_EQ(shape_error(Add{}, {"f32[rows, 64]", "f32[rows + 1, 64]"}),
            "add: a [rows, 64] and b [rows + 1, 64] do not broadcast: rows and rows + 1 differ");
  EXPECT_EQ(shape_error(Softcap{0.0f}, {"f32[5, 64]"}),
            "softcap: cap: expected a value above 0, found 0");
  EXPECT_EQ(shape_error(Cast{DType::i32}, {"f32[5]"}),
            "cast: to: expected f32, f16 or bf16, found i32");
  EXPECT_EQ(shape_error(Cast{}, {"i64[5]"}), "cast: x: expected f32 or f16 or bf16 or i32, found i64[5]");
  EXPECT_EQ(shape_error(Activation{}, {"kv<f32>[1, 64]"}),
            "activation: x: expected f32, found kv<f32>[1, 64]");
}

TEST(Messages, Loops) {
  EXPECT_EQ(shape_error(While{}, {}), "while: expected at least 1 operand, found 0");
  Scan over_blocks;  // a block may reach over several elements
  over_blocks.scanned = 1;
  over_blocks.length = 64;
  EXPECT_EQ(shape_error(over_blocks, {"q8_0[64]"}),
            "scan: scanned operand 0: expected [length, ...] of a dtype without blocks, found q8_0[64]");
}

TEST(Messages, Linear) {
  EXPECT_EQ(shape_error(Linear{}, {"f32[5, 64]", "f32[96, 80]"}),
            "linear: x has 64 columns but w [96, 80] expects 80");
  EXPECT_EQ(shape_error(Linear{}, {"f16[5, 80]", "f32[96, 80]"}),
            "linear: x: expected f32 or xq8 or bf16, found f16[5, 80]");
  EXPECT_EQ(shape_error(Linear{}, {"f32[5, 80]", "f32[96]"}),
            "linear: w: expected rank 2, found f32[96]");
  EXPECT_EQ(shape_error(Linear{}, {"f32[5, 64]", "i32[96, 64]"}),
            "linear: w: expected a dtype that weights are stored in, found i32[96, 64]");
  EXPECT_EQ(shape_error(Linear{.bias = true}, {"f32[5, 64]", "f32[96, 64]"}),
            "linear: expected 3 operands (x, w, bias), found 2");
  EXPECT_EQ(shape_error(Linear{}, {"f32[5, 64]", "f32[96, 64]", "f32[96]"}),
            "linear: expected 2 operands (x, w), found 3");
  EXPECT_EQ(shape_error(Linear{.bias = true}, {"f32[5, 64]", "f32[96, 64]", "f32[95]"}),
            "linear: bias has 95 values but w [96, 64] gives 96 columns");
  EXPECT_EQ(shape_error(Linear{.residual = true}, {"f32[5, 64]", "f32[96, 64]", "f32[5, 95]"}),
            "linear: residual [5, 95] must have the shape of the result [5, 96]");
  EXPECT_EQ(shape_error(Linear{.residual = true}, {"f32[5, 64]", "f32[96, 64]", "f32[96]"}),
            "linear: residual: expected rank 2, found f32[96]");
}

TEST(Messages, GatedLinear) {
  EXPECT_EQ(shape_error(GatedLinear{}, {"f32[5, 64]", "f32[96, 64]", "f32[96, 80]"}),
            "gated_linear: x has 64 columns but up [96, 80] expects 80");
  EXPECT_EQ(
      shape_error(GatedLinear{}, {"f32[5, 64]", "f32[96, 64]", "f16[96, 64]"}),
      "gated_linear: gate f32[96, 64] and up f16[96, 64] must have one storage type and layout");
  EXPECT_EQ(shape_error(GatedLinear{}, {"f32[5, 64]", "f32[96, 64]", "f32[97, 64]"}),
            "gated_linear: gate [96, 64] and up [97, 64] must have as many rows: 96 and 97 differ");
}

TEST(Messages, Norms) {
  EXPECT_EQ(shape_error(RmsNorm{}, {"f32[5, 64]", "f32[63]"}),
            "rms_norm: x has 64 columns but weight [63] expects 63");
  EXPECT_EQ(shape_error(RmsNorm{.group = 32}, {"f32[5, 64]", "f32[64]"}),
            "rms_norm: weight: expected group = 32 values, found f32[64]");
  EXPECT_EQ(shape_error(RmsNorm{.group = 48}, {"f32[5, 64]", "f32[48]"}),
            "rms_norm: x [5, 64]: groups need a multiple of 48 columns, found 64");
  EXPECT_EQ(shape_error(RmsNorm{.group = -1}, {"f32[5, 64]", "f32[64]"}),
            "rms_norm: group: expected a value from 0 to 2147483647, found -1");
  EXPECT_EQ(shape_error(RmsNorm{.eps = -1}, {"f32[5, 64]", "f32[64]"}),
            "rms_norm: eps: expected a value of at least 0, found -1");
  EXPECT_EQ(shape_error(RmsNormQuantize{}, {"f32[5, 100]", "f32[100]"}),
            "rms_norm_quantize: x [5, 100]: int8 groups need a multiple of 32 columns, found 100");
}

TEST(Messages, IndicesAndPacks) {
  EXPECT_EQ(shape_error(Embedding{}, {"f32[5, 64]", "f32[7]"}),
            "embedding: tokens: expected i32, found f32[7]");
  EXPECT_EQ(shape_error(Embedding{}, {"q4_0[5, 64]@p16", "i32[7]"}),
            "embedding: table: expected the plain layout, found q4_0[5, 64]@p16");
  EXPECT_EQ(shape_error(SelectRows{}, {"f16[5, 64]", "i32[7]"}),
            "select_rows: x: expected f32 or xq8, found f16[5, 64]");
  EXPECT_EQ(shape_error(Pack{.dtype = DType::f32}, {"q4_0[5, 64]"}),
            "pack: dtype: q4_0[5, 64] can become q4_0 or bf16, not f32");
  EXPECT_EQ(shape_error(Pack{.dtype = DType::q3_K}, {"f16[5, 64]"}),
            "pack: dtype: f16[5, 64] can become f32, f16, bf16 or a block format that has an encoder, not q3_K");
  EXPECT_EQ(shape_error(QuantizeRows{}, {"f32[5, 48]"}),
            "quantize_rows: x [5, 48]: int8 groups need a multiple of 32 columns, found 48");
}

TEST(Messages, Attention) {
  const std::vector<std::string> rest = {"i32[3]", "i32[2]", "i32[2]", "pages"};
  const auto with = [&](std::vector<std::string> first) {
    first.insert(first.end(), rest.begin(), rest.end());
    return first;
  };
  EXPECT_EQ(shape_error(Attention{.heads = 3}, with({"f32[5, 192]", "kv<f16>[2, 64]"})),
            "attention: heads: expected a multiple of the cache's 2 KV heads, found 3");
  EXPECT_EQ(shape_error(Attention{.heads = 4}, with({"f32[5, 192]", "kv<f16>[2, 64]"})),
            "attention: q [5, 192]: expected heads * head_dim = 256 columns, found 192");
  EXPECT_EQ(shape_error(Attention{.heads = 4}, with({"f32[5, 256]", "f16[2, 64]"})),
            "attention: cache: expected a kv state, found f16[2, 64]");
  EXPECT_EQ(shape_error(Attention{.heads = 2}, with({"f32[5, 40]", "kv<q8_0>[2, 20]"})),
            "attention: cache: q8_0 needs a head_dim that is a multiple of 32, found 20");
  EXPECT_EQ(shape_error(Attention{.heads = 4},
                        {"f32[5, 256]", "kv<f16>[2, 64]", "i32[2]", "i32[2]", "i32[2]", "pages"}),
            "attention: seq_start: expected batch + 1 = 3 values, found i32[2]");
  EXPECT_EQ(
      shape_error(Rope{.head_dim = 64, .rotary_dim = 31}, {"f32[5, 64]", "f32[16]", "i32[5]"}),
      "rope: rotary_dim: expected an even number, found 31");
  EXPECT_EQ(
      shape_error(Rope{.head_dim = 64, .rotary_dim = 66}, {"f32[5, 64]", "f32[33]", "i32[5]"}),
      "rope: rotary_dim: expected a value from 2 to 64, found 66");
  EXPECT_EQ(shape_error(Rope{}, {"f32[5, 64]", "f32[32]", "i32[6]"}),
            "rope: positions: expected the rows of x = 5 values, found i32[6]");
  EXPECT_EQ(shape_error(KvAppend{}, {"kv<f32>[2, 64]", "f32[5, 128]", "f32[5, 64]", "i32[2]",
                                     "i32[1]", "i32[1]", "pages"}),
            "kv_append: v [5, 64]: expected kv_heads * head_dim = 128 columns, found 64");
  EXPECT_EQ(shape_error(RopeAppend{.norm = true},
                        {"kv<f32>[1, 64]", "f32[5, 64]", "f32[5, 64]", "f32[5, 64]", "i32[2]",
                         "i32[1]", "i32[1]", "pages", "f32[32]", "i32[5]"}),
            "rope_append: expected 12 operands (with q_norm, k_norm), found 10");
}

std::vector<std::string> self_attention_operands() {
  return {"f32[5, 96]",    "kv<f16>[1, 64]", "i32[2]",       "i32[1]",
          "i32[1]",        "pages",          "i32[5]",       "f32[32]",
          "q4_0[128, 96]", "q4_0[64, 96]",   "q4_0[64, 96]", "q4_0[96, 128]"};
}

TEST(Messages, SelfAttentionNamesTheOperand) {
  const SelfAttention op{.heads = 2};
  EXPECT_EQ(shape_error(op, self_attention_operands()), "no error");
  const auto with = [](std::size_t i, std::string shape) {
    auto operands = self_attention_operands();
    operands[i] = std::move(shape);
    return operands;
  };
  EXPECT_EQ(shape_error(op, with(8, "q4_0[100, 96]")),
            "self_attention: wq [100, 96]: expected heads * head_dim = 128 rows, found 100");
  EXPECT_EQ(shape_error(op, with(9, "q4_0[64, 64]")),
            "self_attention: wk [64, 64]: expected the columns of x = 96 columns, found 64");
  EXPECT_EQ(shape_error(op, with(10, "q4_0[128, 96]")),
            "self_attention: wv [128, 96]: expected kv_heads * head_dim = 64 rows, found 128");
  EXPECT_EQ(shape_error(op, with(11, "q4_0[96, 64]")),
            "self_attention: wo [96, 64]: expected heads * head_dim = 128 columns, found 64");
  EXPECT_EQ(shape_error(op, with(7, "f32[64]")),
            "self_attention: inv_freq: expected rotary_dim / 2 = 32 values, found f32[64]");
  EXPECT_EQ(shape_error(op, with(1, "kv<f16>[1, 32]")),
            "self_attention: head_dim: expected the cache's 32, found 64");
  auto operands = self_attention_operands();
  operands.insert(operands.end(), {"f32[96]", "f32[64]", "f32[63]"});
  EXPECT_EQ(shape_error(SelfAttention{.heads = 2, .out_bias = true, .qk_norm = true}, operands),
            "self_attention: k_norm: expected head_dim = 64 values, found f32[63]");
  EXPECT_EQ(shape_error(SelfAttention{.heads = 2, .qkv_bias = true}, self_attention_operands()),
            "self_attention: expected 15 operands (with bq, bk, bv), found 12");
}

TEST(Messages, Blocks) {
  EXPECT_EQ(shape_error(GatedMlp{}, {"f32[5, 64]", "f32[96, 64]", "f32[96, 64]", "f32[64, 80]"}),
            "gated_mlp: down [64, 80]: expected the rows of gate = 96 columns, found 80");
  EXPECT_EQ(shape_error(LmHead{}, {"f32[5, 64]", "f32[64]", "f32[96, 63]", "i32[1]"}),
            "lm_head: w [96, 63]: expected the columns of x = 64 columns, found 63");
}

// What cannot be decided is kept, and says the same when the sizes are bound.
TEST(Messages, UndecidedSizesAreCheckedWhenBound) {
  Graph graph;
  Builder b(graph);
  const Symbol seq = Symbol::named("width");
  const Value x = b.input("x", Shape({sym::rows, seq}, DType::f32)),
              w = b.param("w", Shape({96, 80}, DType::f32));
  graph.set_outputs({{"y", b(Linear{}, x, w)}});
  EXPECT_EQ(graph.checks().size(), 1u);
  EXPECT_NO_THROW(bind(graph, {{sym::rows, 3}, {seq, 80}}));
  try {
    bind(graph, {{sym::rows, 3}, {seq, 64}});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 60),
              "linear: x has width columns but w [96, 80] expects 80: width");
  }
}

}  // namespace
}  // namespace rlx
