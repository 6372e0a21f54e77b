// FusedLinear on tile registers, beyond the edges of its blocks: several chunks of rows and more than one depth of
// unpacked panels. An output has the same bits whatever the rows beside it and the number of threads.
#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/backend.h"
#include "backends/cpu/kernels.h"
#include "base/cpu_features.h"
#include "ops/fused.h"
#include "ops/materialize.h"
#include "ops/samples.h"
#include "runtime/kernel_run.h"

namespace rlx {
namespace {

constexpr std::int64_t kRows = 300, kFewer = 41, kColumns = 2304;

const Kernel* amx_row() {
  if (cpu::isa_of(cpu_features()) < Isa::amx) return nullptr;
  for (const Kernel& row : cpu::cpu_kernels())
    if (row.isa == Isa::amx && row.op == FusedLinear::name) return &row;
  return nullptr;
}

Sample sample_of(const FusedLinear& op, DType w, std::int64_t rows) {
  using samples::normal;
  std::vector<SampleOperand> operands = {normal({rows, kColumns})};
  for (int i = 0; i < op.weights; ++i) operands.push_back(normal({op.gated ? 80 : 33 + 64 * i, kColumns}, w, 0.02f));
  if (op.norm) operands.push_back(normal({kColumns}));
  return make_sample(std::string(name(w)), op, std::move(operands), kColumns);
}

std::vector<std::vector<float>> run(const Kernel& row, const Sample& sample, const std::vector<Tensor>& values,
                                    int threads) {
  Workers workers(threads);
  KernelRun of_row(cpu::backend(), row, sample, values, {.packed_weights = true});
  EXPECT_TRUE(of_row.accepted());
  of_row.prepare(threads);
  of_row.call(workers);
  return of_row.results();
}

double nmse(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, power = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    power += double{want[i]} * want[i];
  }
  return error / power;
}

void check(const FusedLinear& op, DType w) {
  const Kernel* row = amx_row();
  if (row == nullptr) GTEST_SKIP() << "this machine has no tile registers";
  SCOPED_TRACE(name(w));
  const Sample sample = sample_of(op, w, kRows), fewer = sample_of(op, w, kFewer);
  const std::vector<Tensor> values = materialize(sample, 11);
  const auto one = run(*row, sample, values, 1), three = run(*row, sample, values, 3);
  const std::vector<Tensor> want = run_sample(*find_op(FusedLinear::name), sample, values);
  std::vector<Tensor> first_rows = values;
  first_rows[0] = Tensor::zeros({kFewer, kColumns});
  std::memcpy(first_rows[0].mutable_data(), values[0].data(), kFewer * kColumns * sizeof(float));
  const auto part = run(*row, fewer, first_rows, 2);
  ASSERT_EQ(one.size(), want.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_LE(nmse(one[i], want[i].to_floats()), 5e-4) << "result " << i;
    EXPECT_EQ(std::memcmp(one[i].data(), three[i].data(), one[i].size() * sizeof(float)), 0) << "threads, result " << i;
    EXPECT_EQ(std::memcmp(one[i].data(), part[i].data(), part[i].size() * sizeof(float)), 0) << "rows, result " << i;
  }
}

TEST(Amx, ChunksAndDepthsOfEveryType) {
  for (const DType w : {DType::bf16, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::iq4_nl,
                        DType::q2_K, DType::q3_K, DType::q4_K, DType::q5_K, DType::q6_K, DType::iq4_xs, DType::iq3_s,
                        DType::iq2_xs, DType::iq1_s, DType::tq2_0, DType::mxfp4}) {
    // What the vector units would read, which take fewer rows.
    check({.weights = 3, .norm = true, .to = w == DType::bf16 ? DType::bf16 : DType::xq8}, w);
    if (testing::Test::HasFailure() || testing::Test::IsSkipped()) return;
  }
}
TEST(Amx, ChunksAndDepthsOfAGatedProduct) {
  check({.weights = 2, .act = Act::silu, .gated = true, .norm = true, .to = DType::xq8}, DType::q4_K);
}

}  // namespace
}  // namespace rlx
