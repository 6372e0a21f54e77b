// Embedding and the choice of rows.
#include <sys/mman.h>

#include "backends/kernel_run.h"
#include "ops/index.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

TEST(Embedding, DecodesRowsOfEveryStorageType) {
  constexpr std::int64_t kVocab = 11, kWidth = 512;
  for (const DTypeInfo& t : all_dtypes()) {
    if (!(t.is_float || t.is_quantized) || t.dtype == DType::xq8 || encoder(t.dtype) == nullptr) continue;
    const Floats values = normal(kVocab * kWidth, 1);
    const auto bytes = static_cast<std::size_t>(row_bytes(t.dtype, kWidth));
    std::vector<std::byte> table(kVocab * bytes);
    for (std::size_t r = 0; r < kVocab; ++r) encoder(t.dtype)(&values[r * kWidth], &table[r * bytes], kWidth);
    std::vector<std::int32_t> tokens = {10, 0, 3, 3};
    Floats y(4 * kWidth), expected(kWidth);
    const Embedding op{2.5f};
    run(rows("embedding").front(), &op, {view(table.data(), {kVocab, kWidth}, t.dtype),
        view(tokens, {4})}, {view(y, {4, kWidth})},
        {.threads = 3});
    for (std::size_t r = 0; r < 4; ++r) {
      decoder(t.dtype)(&table[static_cast<std::size_t>(tokens[r]) * bytes], expected.data(), kWidth);
      for (std::size_t i = 0; i < kWidth; ++i) ASSERT_EQ(y[r * kWidth + i], expected[i] * 2.5f) << t.name;
    }
  }
}

// Fault N17: element offsets beyond 2^31, in a table of which only the touched pages exist.
TEST(Embedding, OffsetsBeyondTwoToThe31) {
  constexpr std::int64_t kVocab = 262144, kWidth = 8960, kBytes = kVocab * kWidth * 2;
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) GTEST_SKIP() << "no address space of 4.7 GB";
  std::vector<std::int32_t> tokens = {239673, 239674, 262143};
  for (const std::int32_t id : tokens)
    static_cast<std::uint16_t*>(map)[id * kWidth + 5] = f32_to_f16(static_cast<float>(id % 1000));
  Floats y(3 * kWidth);
  const Embedding op;
  run(rows("embedding").front(), &op, {view(map, {kVocab, kWidth}, DType::f16), view(tokens, {3})},
      {view(y, {3, kWidth})});
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(y[r * kWidth + 5], static_cast<float>(tokens[r] % 1000));
  munmap(map, kBytes);
}

TEST(SelectRows, CopiesRowsOfBothTypes) {
  const SelectRows op;
  const Kernel k = rows("select_rows").front();
  std::vector<std::int32_t> index = {4, 0, 4};
  Floats x = normal(5 * 64, 1), y(3 * 64);
  run(k, &op, {view(x, {5, 64}), view(index, {3})}, {view(y, {3, 64})}, {.threads = 2});
  std::vector<std::byte> q(5 * 88), picked(3 * 88);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<std::byte>(i * 7);
  run(k, &op, {view(q.data(), {5, 64}, DType::xq8), view(index, {3})}, {view(picked.data(), {3, 64}, DType::xq8)});
  for (std::size_t r = 0; r < 3; ++r) {
    const auto from = static_cast<std::size_t>(index[r]);
    EXPECT_EQ(std::memcmp(&y[r * 64], &x[from * 64], 256), 0);
    EXPECT_EQ(std::memcmp(&picked[r * 88], &q[from * 88], 88), 0);
  }
}

}  // namespace
}  // namespace rlx::cpu
