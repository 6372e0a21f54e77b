// Mixtures of experts: what the ops mean, on literal values and against plain products.
#include "ops/arithmetic.h"
#include "ops/elementwise.h"
#include "ops/materialize.h"
#include "ops/matmul.h"
#include "ops/moe.h"
#include "ops/select.h"
#include "ops/support.h"

namespace rlx {
namespace {

Tensor ids_of(std::vector<std::int64_t> dims, std::vector<std::int32_t> values) {
  return Tensor::from(std::move(dims), std::span<const std::int32_t>(values));
}

// Both results of a router.
std::vector<Tensor> routed(const MoeRoute& op, const Tensor& logits, const Tensor* bias = nullptr) {
  Graph graph;
  Builder b(graph);
  std::vector<Value> in = {b.input("logits", logits.shape())};
  std::vector<NamedTensor> named = {{"logits", logits}};
  if (bias != nullptr) {
    in.push_back(b.input("bias", bias->shape()));
    named.push_back({"bias", *bias});
  }
  const Value ids = b.emit(op, in);
  graph.set_outputs({{"ids", ids}, {"weights", b.result(ids, 1)}});
  std::vector<Tensor> results;
  for (NamedTensor& t : Interpreter(std::move(graph)).run(named)) results.push_back(t.tensor);
  return results;
}

std::vector<float> floats_of(const Tensor& t) { return t.to_floats(); }

const float kLog2 = std::log(2.0f);

TEST(section12_Moe, SoftmaxOverAllExpertsKeepsItsShares) {
  // Shares 1/8, 4/8, 1/8, 2/8.
  const Tensor logits = f32({1, 4}, {0, 2 * kLog2, 0, kLog2});
  const auto plain = routed({.k = 2}, logits);
  EXPECT_EQ(floats_of(plain[0]), (std::vector<float>{1, 3}));
  expect_near(plain[1], {0.5, 0.25});
  expect_near(routed({.k = 2, .normalize = true}, logits)[1], {2.0 / 3, 1.0 / 3});
  expect_near(routed({.k = 2, .factor = 3.0f}, logits)[1], {1.5, 0.75});
}

TEST(section12_Moe, SoftmaxOfTheSelectedIsTheNormalisedShare) {
  const Tensor logits = f32({1, 4}, {0, 2 * kLog2, 0, kLog2});
  const auto r = routed({.k = 2, .scoring = Scoring::softmax_selected}, logits);
  EXPECT_EQ(floats_of(r[0]), (std::vector<float>{1, 3}));
  expect_near(r[1], {2.0 / 3, 1.0 / 3});
}

TEST(section12_Moe, ABiasMovesTheChoiceAndNotTheWeights) {
  const Tensor logits = f32({1, 3}, {0, kLog2, 3 * kLog2});  // sigmoids 1/2, 2/3, 8/9
  const Tensor bias = f32({3}, {1, 0, 0});
  const auto r = routed({.k = 2, .scoring = Scoring::sigmoid, .normalize = true, .bias = true},
                        logits, &bias);
  EXPECT_EQ(floats_of(r[0]), (std::vector<float>{0, 2}));
  expect_near(r[1], {0.5 / (0.5 + 8.0 / 9), 8.0 / 9 / (0.5 + 8.0 / 9)});
}

TEST(section12_Moe, OnlyExpertsOfTheBestGroupsAreChosen) {
  // Groups of three; by their two best: 1.9 of the second beats 1.8 of the first, whose expert 0 is
  // the best of all. By the one best the first group wins.
  const Tensor logits = f32({1, 6}, {1.0f, 0.8f, 0.0f, 0.95f, 0.95f, 0.1f});
  MoeRoute op{.k = 2, .scoring = Scoring::softmax_selected, .groups = 2};
  EXPECT_EQ(floats_of(routed(op, logits)[0]), (std::vector<float>{3, 4}));
  op.group_top = 1;
  EXPECT_EQ(floats_of(routed(op, logits)[0]), (std::vector<float>{0, 1}));
  op.group_limit = 2;
  EXPECT_EQ(floats_of(routed(op, logits)[0]), (std::vector<float>{0, 3}));
}

TEST(section12_Moe, AGroupedProductIsALinearForEachPair) {
  Sample s = find_op("expert_linear")->samples()[2];
  ASSERT_EQ(s.operands.size(), 4u) << "the third sample has a bias";
  const std::vector<Tensor> v = materialize(s, 5);
  const Tensor got = run_sample(*find_op("expert_linear"), s, v)[0];
  const auto ids = v[1].as<std::int32_t>();
  const std::int64_t slots = v[1].dims()[1], experts = v[2].dims()[0], n = v[2].dims()[1],
                     k = v[2].dims()[2];
  const std::vector<float> x = v[0].to_floats(), w = v[2].to_floats(), bias = v[3].to_floats(),
                           y = got.to_floats();
  int compared = 0;
  for (std::size_t p = 0; p < ids.size(); ++p) {
    if (ids[p] < 0 || ids[p] >= experts) continue;
    const std::int64_t row = v[0].dims().size() == 3 ? static_cast<std::int64_t>(p)
                                                     : static_cast<std::int64_t>(p) / slots;
    const auto part = [&](const std::vector<float>& from, std::int64_t at, std::int64_t count) {
      return std::vector<float>(from.begin() + at, from.begin() + at + count);
    };
    const Tensor want = run_op(Linear{.bias = true},
                               {f32({1, k}, part(x, row * k, k)),
                                f32({n, k}, part(w, ids[p] * n * k, n * k)),
                                f32({n}, part(bias, ids[p] * n, n))});
    EXPECT_EQ(part(y, static_cast<std::int64_t>(p) * n, n), want.to_floats()) << "pair " << p;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST(section12_Moe, AnIdOutsideGivesZeros) {
  const Tensor w = f32({2, 1, 2}, {1, 2, 3, 4});
  const Tensor y = run_op(ExpertLinear{}, {f32({1, 2}, {1, 1}), ids_of({1, 4}, {1, -1, 2, 0}), w});
  EXPECT_EQ(y.to_floats(), (std::vector<float>{7, 0, 0, 3}));
}

TEST(section12_Moe, TheBlockIsTheWeightedSumOfGatedExperts) {
  // One hidden value: expert e is relu(x g_e) * (x u_e) * d_e; both experts weigh 1/2.
  const Tensor x = f32({1, 1}, {2}), router = f32({2, 1}, {1, 1});
  const Tensor gate = f32({2, 1, 1}, {1, 3}), up = f32({2, 1, 1}, {1, 1}), down = f32({2, 1, 1}, {1, 10});
  const Tensor y = run_op(MoeMlp{.act = Act::relu, .k = 2}, {x, router, gate, up, down});
  expect_near(y, {0.5 * 4 + 0.5 * 120});
}

TEST(section12_Moe, MessagesNameTheOperands) {
  EXPECT_EQ(shape_error(ExpertLinear{}, {"f32[5, 64]", "i32[4, 2]", "f32[8, 16, 64]"}),
            "expert_linear: x [5, 64] and ids [4, 2] must agree: 5 and 4 differ");
  EXPECT_EQ(shape_error(ExpertLinear{}, {"f32[5, 64]", "i32[5, 2]", "f32[8, 16, 32]"}),
            "expert_linear: x has 64 columns but w [8, 16, 32] expects 32");
  EXPECT_EQ(shape_error(MoeRoute{.k = 9}, {"f32[5, 8]"}).substr(0, 13), "moe_route: k:");
  EXPECT_EQ(shape_error(MoeRoute{.groups = 3}, {"f32[5, 8]"}),
            "moe_route: groups: expected a divisor of the 8 experts, found 3");
}

TEST(section12_Select, TakeAlongAxisReadsEachLineByItsOwnIndices) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_op(TakeAlongAxis{}, {x, ids_of({2, 2}, {2, 0, 1, 1})}).to_floats(),
            (std::vector<float>{3, 1, 5, 5}));
  EXPECT_EQ(run_op(TakeAlongAxis{0}, {x, ids_of({1, 3}, {1, 0, 1})}).to_floats(),
            (std::vector<float>{4, 2, 6}));
  EXPECT_THROW(run_op(TakeAlongAxis{}, {x, ids_of({2, 1}, {3, 0})}), Error);
  EXPECT_EQ(shape_error(TakeAlongAxis{}, {"f32[2, 3]", "i32[3, 1]"}),
            "take_along_axis: x [2, 3] and index [3, 1] must agree but in axis -1: 2 and 3 differ");
}

TEST(section12_Select, OneHotOfAnIndexOutsideIsZero) {
  EXPECT_EQ(run_op(OneHot{3}, {i32({2, 0, -1, 3})}).to_floats(),
            (std::vector<float>{0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace rlx
