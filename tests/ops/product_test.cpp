// Products of two activations: values worked out by hand, agreement of the two forms, and messages.
#include "ops/product.h"

#include "ops/support.h"

namespace rlx {
namespace {

TEST(Product, MatricesInEveryTransposition) {
  const Tensor a = f32({2, 3}, {1, 2, 3, 4, 5, 6}), at = f32({3, 2}, {1, 4, 2, 5, 3, 6});
  const Tensor b = f32({3, 2}, {7, 8, 9, 10, 11, 12}), bt = f32({2, 3}, {7, 9, 11, 8, 10, 12});
  const std::vector<double> expected = {58, 64, 139, 154};
  expect_near(run_op(BatchedMatmul{}, {a, b}), expected);
  expect_near(run_op(BatchedMatmul{true, false}, {at, b}), expected);
  expect_near(run_op(BatchedMatmul{false, true}, {a, bt}), expected);
  expect_near(run_op(BatchedMatmul{true, true}, {at, bt}), expected);
}

TEST(Product, BatchesBroadcast) {
  const Tensor a = f32({2, 1, 2}, {1, 2, 3, 4}), b = f32({2, 1}, {10, 100});
  const Tensor shared = run_op(BatchedMatmul{}, {a, b});
  EXPECT_EQ(shared.text(), "f32[2, 1, 1]");
  expect_near(shared, {210, 430});
  // [2, 1] batches of a with [3] batches of b.
  const Tensor y = run_op(BatchedMatmul{}, {f32({2, 1, 1, 1}, {1, 10}), f32({3, 1, 1}, {2, 3, 4})});
  EXPECT_EQ(y.text(), "f32[2, 3, 1, 1]");
  expect_near(y, {2, 3, 4, 20, 30, 40});
  expect_near(run_op(BatchedMatmul{}, {f32({1, 0}, {}), f32({0, 2}, {})}), {0, 0});
}

TEST(Product, DotGeneral) {
  // The trace form: both axes contracted.
  expect_near(run_op(DotGeneral{{0, 1}, {1, 0}, {}, {}},
                     {f32({2, 2}, {1, 2, 3, 4}), f32({2, 2}, {5, 6, 7, 8})}),
              {1 * 5 + 2 * 7 + 3 * 6 + 4 * 8});
  expect_near(run_op(DotGeneral{}, {f32({2}, {1, 2}), f32({2}, {3, 4})}), {3, 4, 6, 8});
  // Batch axis last in b: y[i] = sum over l of a[i, l] * b[l, i].
  const Tensor y = run_op(DotGeneral{{1}, {0}, {0}, {-1}},
                          {f32({2, 2}, {1, 2, 3, 4}), f32({2, 2}, {5, 6, 7, 8})});
  EXPECT_EQ(y.text(), "f32[2]");
  expect_near(y, {1 * 5 + 2 * 7, 3 * 6 + 4 * 8});
}

TEST(Product, DotGeneralOfTheFormIsBatchedMatmul) {
  std::vector<float> a, b;
  for (int i = 0; i < 2 * 3 * 5; ++i) a.push_back(static_cast<float>(i % 7) - 3);
  for (int i = 0; i < 2 * 5 * 4; ++i) b.push_back(static_cast<float>(i % 5) - 2);
  const std::vector<Tensor> operands = {f32({2, 3, 5}, a), f32({2, 5, 4}, b)};
  EXPECT_EQ(run_op(DotGeneral{{2}, {1}, {0}, {0}}, operands).to_floats(),
            run_op(BatchedMatmul{}, operands).to_floats());
}

TEST(Product, Messages) {
  EXPECT_EQ(shape_error(BatchedMatmul{}, {"f32[2, 5, 64]", "f32[2, 63, 7]"}),
            "batched_matmul: a [2, 5, 64] has 64 columns but b [2, 63, 7] has 63 rows");
  EXPECT_EQ(shape_error(BatchedMatmul{false, true}, {"f32[5, 64]", "f32[64, 7]"}),
            "batched_matmul: a [5, 64] has 64 columns but b [64, 7] transposed has 7 rows");
  EXPECT_EQ(shape_error(BatchedMatmul{}, {"f32[2, 5, 8]", "f32[3, 8, 7]"}),
            "batched_matmul: the batch of a [2] and the batch of b [3] do not broadcast: 2 and 3 "
            "differ");
  EXPECT_EQ(shape_error(BatchedMatmul{}, {"f32[8]", "f32[8, 7]"}),
            "batched_matmul: a: expected at least two dims, found f32[8]");
  EXPECT_EQ(shape_error(DotGeneral{{1}, {0}, {}, {}}, {"f32[5, 8]", "f32[9, 7]"}),
            "dot_general: axis 1 of a [5, 8] and axis 0 of b [9, 7] must have one size: 8 and 9 "
            "differ");
  EXPECT_EQ(shape_error(DotGeneral{{1}, {}, {}, {}}, {"f32[5, 8]", "f32[8, 7]"}),
            "dot_general: a_contract and b_contract: expected as many axes, found 1 and 0");
  EXPECT_EQ(shape_error(DotGeneral{{2}, {0}, {}, {}}, {"f32[5, 8]", "f32[8, 7]"}),
            "dot_general: a_contract: expected axes of a [5, 8], found 2");
  EXPECT_EQ(shape_error(DotGeneral{{0}, {0}, {-2}, {1}}, {"f32[5, 8]", "f32[5, 5]"}),
            "dot_general: a_contract: axis 0 of a is named twice");
  EXPECT_EQ(shape_error(DotGeneral{}, {"f32[1, 2, 3, 4]", "f32[1, 2, 3]"}),
            "dot_general: a [1, 2, 3, 4] and b [1, 2, 3] give 7 dims: expected at most 6");
}

TEST(Product, SymbolicSizes) {
  Graph graph;
  Builder b(graph);
  const Value q = b.input("q", Shape::parse("f32[batch, 8, seq, 64]")),
              k = b.input("k", Shape::parse("f32[batch, 8, past_seq + seq, 64]"));
  EXPECT_EQ(b.shape(b(BatchedMatmul{false, true}, q, k)).text(),
            "f32[batch, 8, seq, past_seq + seq]");
  EXPECT_TRUE(graph.checks().empty());
}

}  // namespace
}  // namespace rlx
