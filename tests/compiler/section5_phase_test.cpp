// Phases of a streaming forward pass (compiler.md, section 5).
#include "compiler/phase.h"

#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "base/error.h"
#include "compiler/pipeline.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/product.h"
#include "ops/sample_op.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "runtime/model_pipeline.h"

namespace rlx {
namespace {

constexpr Phase kPro = Phase::prologue, kSteady = Phase::steady, kEpi = Phase::epilogue;

std::vector<Phase> phases_of(const Graph& graph) {
  std::vector<Phase> list;
  for (const PhaseSchedule::Entry& e : derive_phases(graph)) list.push_back(e.phase);
  return list;
}

Shape plain_matrix(std::int64_t rows, std::int64_t columns) { return Shape({rows, columns}, DType::f32); }

TEST(section5_Phases, InputParamProductSample) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", plain_matrix(1, 8)), w = b.param("w", plain_matrix(8, 4));
  const Value token = b(SampleToken{}, b(BatchedMatmul{}, x, w));
  g.set_outputs({{"token", token}});
  EXPECT_EQ(phases_of(g), (std::vector<Phase>{kPro, kPro, kSteady, kEpi}));
  const CompileResult compiled = compile(g, {}, cpu::backend());
  EXPECT_EQ(compiled.lir.program->calls.back().phase, kEpi) << "the plan records the phases";
}

TEST(section5_Phases, AreOrdered) {
  EXPECT_LT(order(kPro), order(kSteady));
  EXPECT_LT(order(kSteady), order(kEpi));
}

TEST(section5_Phases, ARoutersTopKInTheMiddleIsSteady) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", plain_matrix(3, 8)), w = b.param("w", plain_matrix(8, 8));
  const Value top = b(TopK{.k = 8}, b(BatchedMatmul{}, x, w));
  g.set_outputs({{"y", b(BatchedMatmul{}, top, w)}});
  EXPECT_EQ(phases_of(g), (std::vector<Phase>{kPro, kPro, kSteady, kSteady, kSteady}));
}

TEST(section5_Phases, ATopKThatFeedsOnlySamplingOrOutputsIsTheEpilogue) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", plain_matrix(3, 8)), w = b.param("w", plain_matrix(8, 8));
  const Value sampled = b(TopK{.k = 4}, x);                                  // %2: sampling
  const Value given = b(TopK{.k = 2}, x);                                    // %3: an output
  const Value shaped = b(Reshape{.dims = {Dim(6)}}, given);                  // %4: a view of it
  const Value both = b(TopK{.k = 8}, x);                                     // %5: an output and a product
  const Value token = b(SampleToken{}, sampled);                             // %6
  const Value y = b(BatchedMatmul{}, both, w);                               // %7
  g.set_outputs({{"given", shaped}, {"both", both}, {"token", token}, {"y", y}});
  EXPECT_EQ(phases_of(g), (std::vector<Phase>{kPro, kPro, kEpi, kEpi, kEpi, kSteady, kEpi, kSteady}));
}

TEST(section5_Phases, WithoutComputeNothingIsAfterIt) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", plain_matrix(3, 8));
  g.set_outputs({{"y", b(Scale{2.0f}, b(Activation{}, x))}});
  EXPECT_EQ(phases_of(g), (std::vector<Phase>{kPro, kSteady, kSteady}));
}

TEST(section5_Phases, WhatFollowsTheLastProductIsTheEpilogue) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", plain_matrix(3, 8)), w = b.param("w", plain_matrix(8, 8));
  const Value y = b(Scale{2.0f}, b(BatchedMatmul{}, b(Activation{}, x), w));
  g.set_outputs({{"y", y}});
  EXPECT_EQ(phases_of(g), (std::vector<Phase>{kPro, kPro, kSteady, kSteady, kEpi}));
}

// Four numbers from the count of rows on: of no input, but others for other sizes.
TEST(section5_Phases, WhatLooksAtASizeOfTheStepIsNotHoisted) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", Shape({sym::rows, 4}, DType::f32));
  const Value places = b(Iota{.dims = {4}, .start = Dim(sym::rows)}), fixed = b(Iota{.dims = {4}, .start = 7});
  const Value sum = b(Add{}, b(Cast{.to = DType::f32}, places), b(Cast{.to = DType::f32}, fixed));
  g.set_outputs({{"y", b(Add{}, x, sum)}});
  const std::vector<Phase> phases = phases_of(g);
  EXPECT_EQ(phases[1], kSteady);
  EXPECT_EQ(phases[2], kPro);

  Session session(Device::cpu());
  const auto graph = session.compile(g, {}, {{sym::rows, 8}});
  for (const std::int32_t rows : {1, 5, 2}) {
    const auto out = graph->run({{"x", Tensor::zeros({rows, 4})}});
    EXPECT_EQ(out[0].tensor.as<float>()[0], static_cast<float>(rows + 7));
  }
}

TEST(section5_Phases, WhatNoStepChangesIsHoisted) {
  Graph g;
  Builder b(g);
  const Value w = b.param("w", plain_matrix(8, 8)), table = b(Scale{0.5f}, w);
  const Value x = b.input("x", plain_matrix(3, 8));
  g.set_outputs({{"y", b(BatchedMatmul{}, x, table)}});
  EXPECT_EQ(phases_of(g), (std::vector<Phase>{kPro, kPro, kPro, kSteady}));
}

TEST(section5_Phases, SelectedRowsAreTheEpilogueEvenIfProductsFollow) {
  Graph g;
  Builder b(g);
  const Value x = b.input("x", plain_matrix(5, 8)), rows = b.input("rows", Shape({2}, DType::i32));
  const Value w = b.param("w", plain_matrix(8, 8));
  const Value h = b(BatchedMatmul{}, x, w);
  const Value y = b(BatchedMatmul{}, b(SelectRows{}, h, rows), w);
  g.set_outputs({{"y", y}, {"h", b(Activation{}, h)}});
  EXPECT_EQ(phases_of(g), (std::vector<Phase>{kPro, kPro, kPro, kSteady, kEpi, kEpi, kSteady}));
}

TEST(section5_PhaseSchedule, IsSetReadAndListed) {
  PhaseSchedule s(4);
  EXPECT_EQ(s.size(), 4u);
  s.set(0, kPro);
  s.set(3, kEpi);
  EXPECT_EQ(s.get(0), kPro);
  EXPECT_EQ(s.get(2), kSteady);
  EXPECT_EQ(s.nodes(kSteady), (std::vector<std::int32_t>{1, 2}));
  const std::vector<std::int32_t> schedule = {3, 2, 0, 1};
  EXPECT_EQ(s.nodes(kSteady, schedule), (std::vector<std::int32_t>{2, 1}));
  std::int32_t next = 0;
  for (const PhaseSchedule::Entry& e : s) EXPECT_EQ(e.node, next++);
  EXPECT_EQ(next, 4);
  EXPECT_THROW(s.get(4), Error);
  EXPECT_THROW(s.set(-1, kEpi), Error);
  EXPECT_THROW(s.nodes(kSteady, std::vector<std::int32_t>{9}), Error);
}

}  // namespace
}  // namespace rlx
