// Grouped products on the CPU: bits of a pair depend on its row and expert alone, and experts that nobody chose are not
// read.
#include <limits>

#include "backends/cpu/backend.h"
#include "backends/kernel_run.h"
#include "ops/moe.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

// Operands of a product of `rows` rows of k values with experts [experts, n, k], of which each row chooses `slots`.
struct ExpertProduct {
  std::int64_t rows, slots, experts, n, k;
  DType x_type, w_type;
  std::vector<std::byte> x;
  std::vector<std::int32_t> ids;
  std::unique_ptr<Bytes> w;

  ExpertProduct(DType x_dtype, DType w_dtype)
      : rows(70), slots(2), experts(5), n(33), k(64), x_type(x_dtype), w_type(w_dtype) {
    Floats values = normal(static_cast<std::size_t>(rows * k), 1);
    x.resize(static_cast<std::size_t>(rows * row_bytes(x_type, k)));
    for (std::int64_t r = 0; r < rows; ++r)
      encoder(x_type)(values.data() + r * k, x.data() + r * row_bytes(x_type, k), k);
    // Expert 1 has more rows than the kernel takes at a time, expert 3 none.
    for (std::int64_t r = 0; r < rows; ++r) {
      ids.push_back(1);
      ids.push_back(r % 3 == 0 ? 4 : r % 3 == 1 ? 0 : 2);
    }
    w = std::make_unique<Bytes>(experts * expert_bytes());
    for (std::int64_t e = 0; e < experts; ++e) fill(e);
  }

  std::int64_t expert_bytes() const { return backend().packed_bytes(w_type, n, k); }

  void fill(std::int64_t e) {
    const Floats values = normal(static_cast<std::size_t>(n * k), static_cast<unsigned>(10 + e), 0.1f);
    std::vector<std::byte> plain(static_cast<std::size_t>(n * row_bytes(w_type, k)));
    for (std::int64_t r = 0; r < n; ++r)
      encoder(w_type)(values.data() + r * k, plain.data() + r * row_bytes(w_type, k), k);
    backend().pack({plain.data(), w_type, w_type, n, k, w->data() + e * expert_bytes()}, 0, (n + 15) / 16);
  }
  // 0xff is NaN in every float type and every scale.
  void poison(std::int64_t e) {
    std::memset(w->data() + e * expert_bytes(), 0xff, static_cast<std::size_t>(expert_bytes()));
  }

  // The result of rows first .. first + count - 1 alone: [count, slots, n].
  Floats operator()(const Kernel& kernel, std::int64_t first, std::int64_t count, Workers workers) {
    Floats y(static_cast<std::size_t>(count * slots * n), std::numeric_limits<float>::quiet_NaN());
    TensorView weights = view(w->data(), {experts, n, k}, w_type);
    weights.layout = Layout::p16;
    const std::vector<TensorView> in = {
        view(x.data() + first * row_bytes(x_type, k), {count, k}, x_type),
        view(ids.data() + first * slots, {count, slots}, DType::i32), weights};
    const ExpertLinear op;
    run(kernel, &op, in, {view(y, {count, slots, n})}, workers);
    return y;
  }
};

struct TypePair {
  DType x, w;
  std::string_view rows;
};
constexpr TypePair kPairs[] = {{DType::f32, DType::f32, "_f32_f32_"},
                               {DType::xq8, DType::q4_0, "_xq8_q4_0_"},
                               {DType::f32, DType::q8_0, "_f32_q8_0_"}};

TEST(section12_Experts, BitsDependOnTheRowAndItsExpertsAlone) {
  for (const TypePair& t : kPairs) {
    ExpertProduct p(t.x, t.w);
    for (const Kernel& kernel : rows("expert_linear", t.rows)) {
      const Floats all = p(kernel, 0, p.rows, {1});
      EXPECT_TRUE(same_bits(all, p(kernel, 0, p.rows, {3, true}))) << kernel.name;
      EXPECT_TRUE(same_bits(all, p(kernel, 0, p.rows, {7}))) << kernel.name << ": more workers than panels";
      const auto row = static_cast<std::size_t>(p.slots * p.n);
      for (const std::int64_t r : {0, 1, 69}) {
        const auto at = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * row);
        EXPECT_TRUE(same_bits(Floats(at, at + static_cast<std::ptrdiff_t>(row)), p(kernel, r, 1, {2})))
            << kernel.name << " row " << r;
      }
    }
  }
}

TEST(section12_Experts, OneRowReadsItsOwnExpertsOnly) {
  ExpertProduct p(DType::f32, DType::f16);
  for (const Kernel& kernel : rows("expert_linear", "_f32_f16_")) {
    for (std::int64_t e = 0; e < p.experts; ++e) p.fill(e);
    const Floats want = p(kernel, 1, 1, {1});  // experts 1 and 0
    for (const std::int64_t e : {2, 3, 4}) p.poison(e);
    EXPECT_TRUE(same_bits(want, p(kernel, 1, 1, {1}))) << kernel.name;
    p.poison(0);
    EXPECT_TRUE(std::isnan(p(kernel, 1, 1, {1}).back())) << "poison shows where it is read";
  }
}

}  // namespace
}  // namespace rlx::cpu
