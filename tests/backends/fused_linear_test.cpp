// FusedLinear at the sizes where its work is cut in another way: few rows, rows dealt from a counter, several chunks.
#include <gtest/gtest.h>

#include "backends/matmul_case.h"
#include "ops/fused.h"

namespace rlx::cpu {
namespace {

/// A decoder's three products of one input, with weights of two types, and the memory of a call.
struct ThreeProducts {
  static constexpr std::int64_t kRows = 533, k = 768;  // a chunk is 512 rows, a part of k 512
  static constexpr std::int64_t kColumns[3] = {40, 16, 53};

  ThreeProducts(DType to, DType even, DType odd)
      : types{even, odd, even}, x(normal(static_cast<std::size_t>(kRows * k), 1)),
        norm(normal(static_cast<std::size_t>(k), 2)), bias(normal(static_cast<std::size_t>(kColumns[1]), 3)) {
    op.weights = 3;
    op.norm = true;
    op.biases = 2;
    op.to = to;
    for (unsigned i = 0; i < 3; ++i)
      weights.emplace_back(types[i], random_weights(types[i], kColumns[i], k, 4 + i), kColumns[i], k);
  }

  /// The results of rows first .. first + count - 1, one product after the other.
  std::vector<Floats> rows_of(const Kernel& row, std::int64_t first, std::int64_t count, Workers workers = {}) {
    std::vector<TensorView> in{view(x.data() + first * k, {count, k})}, out;
    for (Panels& w : weights) in.push_back(w.view());
    in.push_back(view(norm, {k}));
    in.push_back(view(bias, {kColumns[1]}));
    std::vector<Floats> y;
    for (const std::int64_t n : kColumns) y.emplace_back(static_cast<std::size_t>(count * n), -7.0f);
    for (std::size_t i = 0; i < 3; ++i) out.push_back(view(y[i], {count, kColumns[i]}));
    run(row, &op, in, out, workers);
    return y;
  }

  FusedLinear op;
  DType types[3];
  Floats x, norm, bias;
  std::vector<Panels> weights;
};

/// Rows of the table for the case's types.
std::vector<Kernel> rows_for(const ThreeProducts& products) {
  std::vector<Shape> in{Shape({4, ThreeProducts::k}, DType::f32)}, out;
  for (const std::size_t i : {0u, 1u, 2u}) {
    in.push_back(Shape({ThreeProducts::kColumns[i], ThreeProducts::k}, products.types[i]));
    in.back().layout = Layout::p16;
    out.push_back(Shape({4, ThreeProducts::kColumns[i]}, DType::f32));
  }
  std::vector<Kernel> found;
  for (const Kernel& k : rows("fused_linear"))
    if (k.accepts({&products.op, in, out})) found.push_back(k);
  return found;
}

struct FusedTypes {
  DType to, even, odd;
};
constexpr FusedTypes kFusedTypes[] = {{DType::xq8, DType::q4_K, DType::q6_K}, {DType::xq8, DType::q8_0, DType::q8_0},
                            {DType::xq8, DType::q5_1, DType::q2_K}, {DType::f32, DType::f32, DType::q4_0},
                            {DType::bf16, DType::bf16, DType::bf16}};

// kernels.md, 2.8: neither the number of rows nor that of threads changes a bit.
TEST(FusedLinear, ARowIsTheSameAmongAnyOthersAndForAnyThreads) {
  for (const auto& [to, even, odd] : kFusedTypes) {
    ThreeProducts products(to, even, odd);
    const auto kernels = rows_for(products);
    ASSERT_FALSE(kernels.empty()) << name(even);
    for (const Kernel& row : kernels) {
      const auto all = products.rows_of(row, 0, ThreeProducts::kRows, {3, true});
      for (const std::int64_t count : {1, 4, 5, 31, 33, 70, 512, 533}) {
        const std::int64_t first = ThreeProducts::kRows - count;
        if (row.isa == Isa::amx && count < 70) continue;  // fewer rows go to another row of the table
        for (const int threads : {1, 2, 7}) {
          const auto part = products.rows_of(row, first, count, {threads, true});
          for (std::size_t i = 0; i < 3; ++i)
            ASSERT_TRUE(same_bits(part[i], Floats(all[i].begin() + first * ThreeProducts::kColumns[i], all[i].end())))
                << row.name << ' ' << name(even) << " product " << i << " rows " << count << " threads " << threads;
        }
      }
    }
  }
}

}  // namespace
}  // namespace rlx::cpu
