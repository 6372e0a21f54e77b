// What `rlx bench compiler` states and is no matter of time: no weight is copied, and the arena is near its bound.
#include "runtime/bench_compiler.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/inspection.h"
#include "models/load.h"
#include "runtime/backends.h"
#include "runtime/synthetic_decoder.h"

namespace rlx {
namespace {

TEST(CompilerBench, section6_BuildingAndPlacingReadsNoWeight) {
  const SyntheticDecoder decoder(SyntheticShape{4});
  const BuiltModel model = decoder.build();
  EXPECT_EQ(model.params.size(), 4u * 9 + 4) << "nine weights a layer, two tables, the last norm, the frequencies";
  const CompileResult compiled = compile(model.graph, CompileOptions{}, find_backend(Device::cpu()));
  compiled.specialize(DimBinding{{sym::rows, 512}, {sym::out_rows, 1}, {sym::batch, 1}}, {2, 8192});
  EXPECT_EQ(decoder.touched_bytes(), 0);
  // The counter counts: one byte read is one page.
  const volatile std::byte* first = model.weights->find("output.weight")->data.data();
  const std::byte value = *first;
  EXPECT_EQ(value, std::byte{0});
  EXPECT_GT(decoder.touched_bytes(), 0);
}

TEST(CompilerBench, StatesEveryFigure) {
  const CompilerBench b = bench_compiler({.layers = 2, .repetitions = 1, .device = Device::cpu(), .aot_mib = 64});
  for (const double figure : {b.hir_ms, b.template_ms, b.place_us, b.specialize_us, b.hit_us, b.variant_key_us,
                              b.component_key_us, b.executable_key_us, b.verify_us})
    EXPECT_GT(figure, 0);
  EXPECT_GE(b.template_ms, b.hir_ms / 2) << "a template is built from the flow";
  EXPECT_GE(b.key_us(), b.variant_key_us);
  EXPECT_GE(b.arena_over_bound, 1);
  EXPECT_LE(b.arena_over_bound, 1.05);
  EXPECT_EQ(b.weight_bytes_copied, 0);
  EXPECT_EQ(b.aot.reason, "");
  EXPECT_GT(b.aot.load_ms, 0);
  EXPECT_GT(b.aot.bytes, std::int64_t{64} << 20) << "more than is read at once";
}

TEST(CompilerBench, SaysWhyThereIsNoStartFromAnArtefact) {
  const CompilerBench none = bench_compiler({.layers = 1, .repetitions = 1, .device = Device::cpu(), .aot_mib = 0});
  EXPECT_EQ(none.aot.load_ms, 0);
  EXPECT_EQ(none.aot.reason, "");
  const std::string folder = std::filesystem::temp_directory_path().string();
  const AotBench large = bench_aot(folder, std::int64_t{1} << 30, 1, Device::cpu());  // an exbibyte
  EXPECT_EQ(large.load_ms, 0);
  EXPECT_TRUE(large.reason.starts_with(folder + " has ")) << large.reason;
}

constexpr double kArenaOverBound = 1.05;

TEST(CompilerBench, section6_ArenasOfAllGoldenFamiliesAreNearTheirBound) {
  int models = 0;
  for (const auto& folder : std::filesystem::directory_iterator(std::string(RLX_TEST_DIR "/goldens/models"))) {
    if (!std::filesystem::exists(folder.path() / "config.json")) continue;
    const LoadedModel model = load_model(folder.path());
    const CompileResult compiled = compile(model.model.graph, CompileOptions{}, find_backend(Device::cpu()));
    std::vector<DimBinding> sizes;
    for (const std::int64_t rows : {1, 2, 7, 33, 64, 512})
      for (const std::int64_t out : {std::int64_t{1}, rows}) {
        DimBinding binding{{sym::rows, rows}, {sym::out_rows, out}};
        sizes.push_back(std::move(binding));
      }
    for (const InspectedVariant& v : inspect(model.model.graph, compiled, sizes, {2, 512}).variants)
      EXPECT_LE(static_cast<double>(v.arena_bytes), kArenaOverBound * static_cast<double>(v.arena_bound))
          << folder.path().filename() << " with " << v.sizes.text();
    ++models;
  }
  EXPECT_GE(models, 5);
}

}  // namespace
}  // namespace rlx
