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

// A gated product leaves its result in strips of bf16 that the next one multiplies: the bits of rows of f32 in between.
TEST(FusedLinear, StripsBetweenProductsOnTileRegisters) {
  constexpr std::int64_t k = 64, n = 416, last = 48;
  const FusedLinear gated{.weights = 2, .act = Act::silu, .gated = true, .norm = true, .to = DType::xq8};
  const FusedLinear down{.weights = 1, .residual = true, .to = DType::xq8};
  Panels gate(DType::q4_0, random_weights(DType::q4_0, n, k, 1), n, k);
  Panels up(DType::q4_0, random_weights(DType::q4_0, n, k, 2), n, k);
  Panels w(DType::q8_0, random_weights(DType::q8_0, last, n, 3), last, n);
  for (const Kernel& row : rows("fused_linear")) {
    if (row.isa != Isa::amx) continue;
    for (const std::int64_t count : {std::int64_t{7}, std::int64_t{16}, std::int64_t{33}, std::int64_t{300}})
      for (const int threads : {1, 3}) {
        Floats x = normal(static_cast<std::size_t>(count * k), 4), norm = normal(static_cast<std::size_t>(k), 5),
               residual = normal(static_cast<std::size_t>(count * last), 6);
        const auto both = [&](Layout layout) {
          Floats h(static_cast<std::size_t>(count * n), -7.0f), y(static_cast<std::size_t>(count * last), -7.0f);
          TensorView between = view(h, {count, n});
          between.layout = layout;
          if (layout == Layout::p16) between.strides[0] = 0;  // as make_view leaves it
          run(row, &gated, {view(x, {count, k}), gate.view(), up.view(), view(norm, {k})}, {between}, {threads, true});
          run(row, &down, {between, w.view(), view(residual, {count, last})}, {view(y, {count, last})},
              {threads, true});
          return y;
        };
        EXPECT_TRUE(same_bits(both(Layout::p16), both(Layout::plain))) << count << " rows, " << threads << " threads";
      }
  }
}

}  // namespace
}  // namespace rlx::cpu
