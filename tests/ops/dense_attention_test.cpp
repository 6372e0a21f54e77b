// Section 12 of the design of the compiler: attention over rows, its biases, pooling. Values by hand.
#include "ops/dense_attention.h"

#include "ops/support.h"

namespace rlx::dense_attention_tests {
namespace {

// Keys and values of five rows in two sequences (3 and 2); scale 0 makes every weight that is seen equal.
const std::vector<float> kRows = {1, 2, 4, 10, 20};

Tensor mean_of_seen(DenseAttention op) {
  op.scale = 0.0f;
  return run_op(op, {f32({5, 1}, kRows), f32({5, 1}, kRows), f32({5, 1}, kRows), i32({0, 3, 5}), i32({0, 3, 5})});
}

TEST(section12_dense_attention, EachSequenceSeesItsOwnRows) {
  const double first = 7.0 / 3;
  expect_near(mean_of_seen({}), {first, first, first, 15, 15});
}

TEST(section12_dense_attention, CausalRowsSeeNoLaterKey) {
  expect_near(mean_of_seen({.causal = true}), {1, 1.5, 7.0 / 3, 10, 15});
}

TEST(section12_dense_attention, AWindowIsNearerThanItsSize) {
  expect_near(mean_of_seen({.window = 2}), {1.5, 7.0 / 3, 3, 15, 15});
  expect_near(mean_of_seen({.window = 2, .causal = true}), {1, 1.5, 3, 10, 15});
  expect_near(mean_of_seen({.window = 1}), {1, 2, 4, 10, 20});
}

TEST(section12_dense_attention, NewRowsOfACausalSequenceFollowItsPrefix) {
  const Tensor y = run_op(DenseAttention{.scale = 0.0f, .causal = true},
                          {f32({2, 1}, {0, 0}), f32({5, 1}, kRows), f32({5, 1}, kRows), i32({0, 2}), i32({0, 5})});
  expect_near(y, {17.0 / 4, 37.0 / 5});
}

TEST(section12_dense_attention, KeysOfOtherSequencesAreCrossAttention) {
  const Tensor y = run_op(DenseAttention{.scale = 0.0f}, {f32({3, 1}, {0, 0, 0}), f32({5, 1}, kRows),
                                                          f32({5, 1}, kRows), i32({0, 1, 3}), i32({0, 4, 5})});
  expect_near(y, {17.0 / 4, 20, 20});
}

TEST(section12_dense_attention, AQueryWithoutKeysAndARowOfNoSequenceGiveZeros) {
  const Tensor y = run_op(DenseAttention{}, {f32({3, 1}, {1, 1, 1}), f32({2, 1}, {5, 7}), f32({2, 1}, {5, 7}),
                                             i32({0, 1, 2}), i32({0, 0, 2})});
  EXPECT_EQ(y.to_floats()[0], 0.0f);
  EXPECT_GT(y.to_floats()[1], 5.0f);
  EXPECT_EQ(y.to_floats()[2], 0.0f);
}

TEST(section12_dense_attention, HeadsShareKeysInGroups) {
  // Four query heads over two KV heads: y of heads 0 and 1 is the value of KV head 0, of 2 and 3 that of KV head 1.
  const Tensor y = run_op(DenseAttention{.heads = 4, .kv_heads = 2}, {f32({1, 4}, {1, 2, 3, 4}), f32({1, 2}, {1, 1}),
                                                                      f32({1, 2}, {6, 9}), i32({0, 1}), i32({0, 1})});
  expect_near(y, {6, 6, 9, 9});
}

TEST(section12_dense_attention, ABiasByDistanceIsAddedToTheScores) {
  // One distance is certain: the key after the query, and for the last query, whose distances end there, its own.
  const DenseAttention op{.scale = 0.0f, .bias = AttentionBias::distances};
  const Tensor y = run_op(op, {f32({3, 1}, {0, 0, 0}), f32({3, 1}, {0, 0, 0}), f32({3, 1}, {1, 2, 4}), i32({0, 3}),
                               i32({0, 3}), f32({1, 3}, {0, 0, 1000})});
  expect_near(y, {(2.0 + 4.0) / 2, 4, 7.0 / 3});  // beyond the line's end its last entry holds
}

TEST(section12_dense_attention, ABiasByPairsIsByHeadOrForAll) {
  const DenseAttention op{.heads = 2, .kv_heads = 1, .scale = 0.0f, .bias = AttentionBias::pairs};
  const std::vector<Tensor> rows = {f32({2, 2}, {0, 0, 0, 0}), f32({2, 1}, {0, 0}), f32({2, 1}, {3, 5}), i32({0, 2}),
                                    i32({0, 2})};
  std::vector<Tensor> own = rows, shared = rows;
  own.push_back(f32({2, 2, 2}, {1000, 0, 0, 1000, 0, 1000, 1000, 0}));
  shared.push_back(f32({1, 2, 2}, {1000, 0, 0, 1000}));
  expect_near(run_op(op, own), {3, 5, 5, 3});
  expect_near(run_op(op, shared), {3, 3, 5, 5});
}

TEST(section12_dense_attention, TheMaskOfItsBodyNamesSeenKeysAndPlacesInTheTable) {
  Graph graph;
  Builder b(graph);
  const Value q = b.input("q", Shape({3, 1}, DType::f32)), k = b.input("k", Shape({3, 1}, DType::f32)),
              starts = b.input("starts", Shape({3}, DType::i32));
  const Value mask =
      b(AttentionMask{.first = 3, .causal = true, .bias = AttentionBias::distances}, q, k, starts, starts);
  graph.set_outputs({{"mask", mask}, {"seen", b.result(mask, 1)}, {"index", b.result(mask, 2)}});
  const auto results =
      Interpreter(std::move(graph))
          .run({{{"q", f32({3, 1}, {0, 0, 0})}, {"k", f32({3, 1}, {0, 0, 0})}, {"starts", i32({0, 1, 3})}}});
  const double h = double{AttentionMask::kHidden};
  expect_near(results[0].tensor, {0, h, h, h, 0, h, h, 0, 0});
  expect_near(results[1].tensor, {1, 1, 1});
  expect_near(results[2].tensor, {1, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST(section12_dense_attention, WrongOperandsAreNamed) {
  const std::vector<std::string> good = {"f32[rows, 32]", "f32[rows, 16]", "f32[rows, 16]", "i32[batch + 1]",
                                         "i32[batch + 1]"};
  const auto with = [&](std::size_t i, std::string shape) {
    std::vector<std::string> shapes = good;
    if (i < shapes.size())
      shapes[i] = std::move(shape);
    else
      shapes.push_back(std::move(shape));
    return shapes;
  };
  const DenseAttention op{.heads = 4, .kv_heads = 2};
  EXPECT_EQ(shape_error(op, good), "no error");
  EXPECT_NE(shape_error(op, with(0, "f32[rows, 30]")).find("multiple of heads = 4"), std::string::npos);
  EXPECT_NE(shape_error(op, with(1, "f32[rows, 24]")).find("kv_heads * head_dim = 16 columns"), std::string::npos)
      << shape_error(op, with(1, "f32[rows, 24]"));
  EXPECT_NE(shape_error(op, with(3, "f32[batch + 1]")).find("q_start"), std::string::npos);
  EXPECT_NE(shape_error(op, with(3, "i32[0]")).find("at least 1 value, found i32[0]"), std::string::npos);
  EXPECT_EQ(shape_error(PoolSequences{}, {"f32[rows, 4]", "i32[0]"}),
            "pool_sequences: seq_start: expected starts and an end, at least 1 value, found i32[0]");
  EXPECT_EQ(shape_error(PoolSequences{}, {"f32[rows, 4]", "i32[1]"}), "no error");
  EXPECT_NE(shape_error(DenseAttention{.heads = 3, .kv_heads = 2}, good).find("multiple of the 2 KV heads, found 3"),
            std::string::npos);
  const DenseAttention biased{.heads = 4, .kv_heads = 2, .bias = AttentionBias::distances};
  EXPECT_NE(shape_error(biased, good).find("with bias"), std::string::npos);
  EXPECT_NE(shape_error(biased, with(5, "f32[4, 8]")).find("odd number of distances"), std::string::npos);
  EXPECT_NE(shape_error(biased, with(5, "f32[3, 9]")).find("1 or 4 heads"), std::string::npos);
}

TEST(section12_relative_bias, BucketsAreThoseOfT5) {
  // Of the reference implementation of T5: 32 buckets, distances up to 128.
  const RelativeBias both{128, true}, past{128, false};
  const std::int64_t distances[] = {-200, -128, -64, -20, -8, -7, -1, 0, 1, 7, 8, 20, 64, 127, 128, 200};
  const std::int64_t expected[] = {15, 15, 14, 10, 8, 7, 1, 0, 17, 23, 24, 26, 30, 31, 31, 31};
  for (std::size_t i = 0; i < std::size(distances); ++i)
    EXPECT_EQ(both.bucket(distances[i], 32), expected[i]) << distances[i];
  EXPECT_EQ(past.bucket(5, 32), 0) << "later keys share the bucket of distance 0";
  EXPECT_EQ(past.bucket(-15, 32), 15);
  EXPECT_EQ(past.bucket(-16, 32), 16);
  EXPECT_EQ(past.bucket(-127, 32), 31);
  EXPECT_EQ(past.bucket(-100000, 32), 31);
}

TEST(section12_relative_bias, ALineHoldsTheBucketOfEachDistance) {
  const Tensor y = run_op(RelativeBias{2, true}, {f32({4, 1}, {10, 11, 12, 13})});
  expect_near(y, {11, 11, 10, 13, 13});
  EXPECT_NE(shape_error(RelativeBias{2, true}, {"f32[5, 1]"}).find("an even number of at least 4 buckets"),
            std::string::npos);
  EXPECT_NE(shape_error(RelativeBias{4, false}, {"f32[32, 1]"}).find("max_distance"), std::string::npos);
}

TEST(section12_pool_sequences, EachKindOfRow) {
  const std::vector<Tensor> rows = {f32({4, 2}, {1, 2, 3, -4, 5, 6, 7, 8}), i32({0, 3, 3, 4})};
  expect_near(run_op(PoolSequences{SequencePooling::first}, rows), {1, 2, 0, 0, 7, 8});
  expect_near(run_op(PoolSequences{SequencePooling::last}, rows), {5, 6, 0, 0, 7, 8});
  expect_near(run_op(PoolSequences{SequencePooling::mean}, rows), {3, 4.0 / 3, 0, 0, 7, 8});
  expect_near(run_op(PoolSequences{SequencePooling::max}, rows), {5, 6, 0, 0, 7, 8});
}

TEST(section12_pool_sequences, StartsOutsideTheRowsAreAnError) {
  EXPECT_THROW(run_op(PoolSequences{}, {f32({2, 1}, {1, 2}), i32({0, 3})}), Error);
  EXPECT_THROW(run_op(PoolSequences{}, {f32({2, 1}, {1, 2}), i32({2, 1})}), Error);
}

}  // namespace
}  // namespace rlx::dense_attention_tests
