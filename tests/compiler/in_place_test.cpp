// Results that lie in the buffer of an operand: where the planner does that, and where it must not.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cpu/backend.h"
#include "compiler/pipeline.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace rlx {
namespace {

constexpr std::int64_t kWidth = 64;

// A graph of rows of 64 floats, of which nothing is fused.
struct Case {
  Graph graph{"in_place"};
  Builder b{graph};
  Value x = b.input("x", Shape({sym::rows, kWidth}, DType::f32));

  std::shared_ptr<const Program> program(Value y) {
    graph.set_outputs({{"y", y}});
    CompileOptions options;
    options.fusion = false;
    return compile(graph, options, cpu::backend()).lir.program;
  }
};

const Call& call_of(const Program& p, std::string_view op) {
  const auto found = std::find_if(p.calls.begin(), p.calls.end(), [&](const Call& c) { return c.def->name == op; });
  RLX_CHECK(found != p.calls.end(), std::string(op));
  return *found;
}

// Whether result 0 of the op's call lies in the buffer of operand k.
bool in_place(const Program& p, std::string_view op, std::size_t k = 0) {
  const Call& call = call_of(p, op);
  const Operand &from = p.operands[static_cast<std::size_t>(call.in[k])],
                &to = p.operands[static_cast<std::size_t>(call.out[0])];
  return from.place == Place::arena && from.index == to.index;
}

TEST(InPlace, AChainOfElementwiseOpsTakesOneBuffer) {
  Case c;
  const Value h = c.b(Scale{.factor = 2.0f}, c.x);
  const auto p = c.program(c.b(Softcap{.cap = 3.0f}, c.b(Activation{.act = Act::silu}, h)));
  EXPECT_FALSE(in_place(*p, "scale")) << "the caller's input stays as it is";
  EXPECT_TRUE(in_place(*p, "activation"));
  EXPECT_TRUE(in_place(*p, "softcap"));
  EXPECT_EQ(specialize(*p, {{sym::rows, 5}}, {1, 0}).arena_bytes, 5 * kWidth * 4);
}

TEST(InPlace, WhatIsReadLaterStays) {
  Case c;
  const Value h = c.b(Scale{.factor = 2.0f}, c.x), cap = c.b(Softcap{.cap = 3.0f}, h);
  const auto p = c.program(c.b(Mul{}, cap, h));
  EXPECT_FALSE(in_place(*p, "softcap")) << "mul reads what softcap read";
  EXPECT_TRUE(in_place(*p, "mul"));
}

TEST(InPlace, OutputsStay) {
  Case c;
  const Value h = c.b(Scale{.factor = 2.0f}, c.x), y = c.b(Softcap{.cap = 3.0f}, h);
  c.graph.set_outputs({{"h", h}, {"y", y}});
  CompileOptions options;
  options.fusion = false;
  EXPECT_FALSE(in_place(*compile(c.graph, options, cpu::backend()).lir.program, "softcap"));
}

TEST(InPlace, ABufferThatAnotherOperandReadsStays) {
  Case c;
  const Value h = c.b(Scale{.factor = 2.0f}, c.x);
  EXPECT_FALSE(in_place(*c.program(c.b(Mul{}, h, h)), "mul"));
}

TEST(InPlace, ABroadcastOperandHasNoRoomForTheResult) {
  Case c;
  const Value row = c.b(Scale{.factor = 2.0f}, c.b.input("row", Shape({1, kWidth}, DType::f32)));
  EXPECT_FALSE(in_place(*c.program(c.b(Mul{}, row, c.x)), "mul"));
}

TEST(InPlace, AProductIsAddedToItsResidual) {
  Case c;
  const Value w = c.b.param("w", Shape({kWidth, kWidth}, DType::q8_0)), h = c.b(Scale{.factor = 2.0f}, c.x);
  const auto p = c.program(c.b(Linear{.residual = true}, c.x, w, h));
  EXPECT_TRUE(in_place(*p, "linear", 2));
}

TEST(InPlace, AProductIsNotWrittenOverItsInput) {
  Case c;
  const Value w = c.b.param("w", Shape({kWidth, kWidth}, DType::f32)), h = c.b(Scale{.factor = 2.0f}, c.x);
  const auto p = c.program(c.b(Linear{.residual = true}, h, w, h));
  EXPECT_FALSE(in_place(*p, "linear", 2)) << "every thread reads the whole row of h";
}

}  // namespace
}  // namespace rlx
