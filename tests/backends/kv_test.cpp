// The cache's page layout: append through the kernel, converters, and what the cache refuses.
#include "backends/kv_cache.h"
#include "base/error.h"

namespace rlx::cpu {
namespace {

constexpr DType kKvDtypes[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0};

double step(DType d) { return d == DType::f32 ? 0 : d == DType::f16 ? 1.0 / 2048 : d == DType::bf16
    ? 1.0 / 256 : 1.0 / 200; }

TEST(KvAppend, EveryTokenComesBackRounded) {
  for (const DType dtype : kKvDtypes)
    for (const std::int64_t dim : {8, 16, 24, 64, 128, 512}) {
      if (!kv_supported(dtype, dim)) continue;
      for (const Kernel& row : rows("kv_append")) {
        Batch b({0, 50, 3}, {130, 40, 1}, {2, 0, 1});
        Cache cache(dtype, 3, dim, 3, 3);
        const auto n = static_cast<std::size_t>(3 * dim), d = static_cast<std::size_t>(dim);
        Floats k = normal(static_cast<std::size_t>(b.rows()) * n, 1), v = normal(k.size(), 2), k_row(d), v_row(d);
        cache.append(row, b, k, v, {.threads = 3});
        for (std::size_t s = 0; s < 3; ++s)
          for (std::int32_t r = 0; r < b.counts[s]; ++r)
            for (std::int64_t h = 0; h < 3; ++h) {
              cache.load(b.slot[s], b.past[s] + r, h, k_row.data(), v_row.data());
              const std::size_t at = static_cast<std::size_t>(b.seq_start[s] + r) * n + static_cast<std::size_t>(h) * d;
              for (std::size_t i = 0; i < d; ++i) {
                const double size = dtype == DType::q8_0 ? 4.5 : 1;  // of the largest value of a group
                ASSERT_NEAR(k_row[i], k[at + i], step(dtype) * std::max(size,
                    std::fabs(double{k[at + i]}))) << row.name;
                ASSERT_NEAR(v_row[i], v[at + i], step(dtype) * std::max(size,
                    std::fabs(double{v[at + i]}))) << row.name;
              }
            }
      }
    }
}

// Save and restore must not change a cache, and the kernel writes what the converter writes.
TEST(KvPages, StoreLoadStoreGivesTheSameBytes) {
  for (const DType dtype : kKvDtypes)
    for (const std::int64_t dim : {32, 96}) {
      const KvPageBytes bytes = kv_page_bytes(dtype, dim);
      EXPECT_EQ(bytes.k_head % 64, 0);
      EXPECT_EQ(bytes.v_head % 64, 0);
      const auto size = static_cast<std::size_t>(bytes.k_head + bytes.v_head);
      std::vector<std::byte> first(size), second(size), appended(size);
      const auto page = [&](std::vector<std::byte>& m) { return KvPage{dtype, dim, m.data(),
          m.data() + bytes.k_head}; };
      Floats k = normal(static_cast<std::size_t>(64 * dim), 1), v = normal(k.size(), 2), k2(k.size()), v2(k.size());
      kv_store_rows(page(first), 0, 64, k.data(), v.data());
      kv_load_rows(page(first), 0, 64, k2.data(), v2.data());
      kv_store_rows(page(second), 0, 10, k2.data(), v2.data());
      kv_store_rows(page(second), 10, 54, &k2[static_cast<std::size_t>(10 * dim)],
          &v2[static_cast<std::size_t>(10 * dim)]);
      EXPECT_EQ(first, second) << name(dtype);
      for (const Kernel& row : rows("kv_append")) {
        KvPool pool{appended.data(), appended.data() + bytes.k_head, bytes.k_head, bytes.k_head,
            bytes.v_head, bytes.v_head, 1};
        std::vector<std::int32_t> start = {0, 64}, zero = {0};
        TensorView state = view(&pool, {1, dim}, DType::f32);
        state.dtype = dtype;
        const KvAppend op;
        run(row, &op, {state, view(k, {64, dim}), view(v, {64, dim}), view(start, {2}),
            view(zero, {1}), view(zero, {1}), view(zero, {1, 1})},
            {state});
        EXPECT_EQ(first, appended) << row.name << " " << name(dtype);
      }
    }
}

TEST(KvPages, UnsupportedSizesAreNamed) {
  EXPECT_FALSE(kv_supported(DType::q8_0, 80));
  EXPECT_FALSE(kv_supported(DType::f16, 12));
  EXPECT_FALSE(kv_supported(DType::f32, 520));
  EXPECT_FALSE(kv_supported(DType::q4_0, 64));
  try {
    kv_page_bytes(DType::q8_0, 80);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(e.what()).find("q8_0 with head size 80"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace rlx::cpu
