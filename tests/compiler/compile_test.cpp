// Compiling a small graph: phases, dispatch policies, plans and barriers.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cpu/backend.h"
#include "backends/reference/backend.h"
#include "compiler/manifest.h"
#include "compiler/phase.h"
#include "compiler/pipeline.h"
#include "device/program_check.h"
#include "error_text.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace rlx {
namespace {

DimBinding rows_binding(std::int64_t rows, std::int64_t out_rows) {
  return {{sym::rows, rows}, {sym::out_rows, out_rows}};
}

Graph head() {
  Graph g("head");
  Builder b(g);
  const Value x = b.input("x", Shape({sym::rows, 64}, DType::f32));
  const Value wanted = b.input("out_rows", Shape({sym::out_rows}, DType::i32));
  const Value norm = b.param("norm", Shape({64}, DType::f32));
  const Value w = b.param("w", Shape({48, 64}, DType::q8_0));
  const Value h = b(RmsNorm{}, x, norm);
  const Value y = b(Linear{}, b(SelectRows{}, h, wanted), w);
  g.set_outputs({{"logits", y}, {"hidden", h}});
  return g;
}

TEST(Phases, TheHeadIsTheEpilogue) {
  const Graph g = head();
  std::vector<Phase> phases;
  for (const PhaseSchedule::Entry& e : derive_phases(g)) phases.push_back(e.phase);
  const std::vector<Phase> want = {Phase::prologue, Phase::prologue, Phase::prologue,
                                   Phase::prologue, Phase::steady,   Phase::epilogue,
                                   Phase::epilogue};
  EXPECT_EQ(phases, want);
  EXPECT_LT(order(Phase::prologue), order(Phase::steady));
  EXPECT_LT(order(Phase::steady), order(Phase::epilogue));
}

TEST(Compile, WeightsBecomeStoreEntriesAndCallsHaveKernels) {
  const CompileResult r = compile(head(), {}, cpu::backend());
  ASSERT_EQ(r.lir.program->weights.size(), 3u);
  EXPECT_EQ(r.lir.program->weights.back().layout, Layout::p16);
  EXPECT_EQ(r.dispatch.count(DispatchKind::reference), 0);
  for (const Call& c : r.lir.program->calls) EXPECT_NE(c.kernel, nullptr) << c.def->name;
}

TEST(Compile, TheReferenceBackendHasNoKernelsAndForceNativeSaysSo) {
  const CompileResult r = compile(head(), {}, reference::backend());
  EXPECT_EQ(r.dispatch.count(DispatchKind::native), 0);
  CompileOptions options;
  options.dispatch.policy = DispatchPolicy::force_native;
  try {
    compile(head(), options, reference::backend());
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(
        std::string(e.what()).find("native kernels are forced, but reference has no kernel for"),
        std::string::npos)
        << e.what();
  }
}

TEST(Compile, AnUnknownDispatchVariableListsTheValidOnes) {
  ::setenv("RLX_KERNEL_DISPATCH", "fast", 1);
  try {
    KernelDispatchConfig::from_environment();
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "RLX_KERNEL_DISPATCH: expected common or native, found \"fast\"");
  }
  ::unsetenv("RLX_KERNEL_DISPATCH");
}

TEST(section6_Memory, BuffersBeginAtMultiplesOfTheAlignment) {
  for (const std::int64_t alignment : {64, 256, 4096}) {
    CompileOptions options;
    options.alignment = alignment;
    const CompileResult r = compile(head(), options, cpu::backend()).specialize(rows_binding(5, 3), {2, 0});
    for (const std::int64_t offset : r.lir.plan->offsets) EXPECT_TRUE(offset == -1 || offset % alignment == 0);
    EXPECT_EQ(BindingManifest::from_lir(r.lir).alignment, alignment);
    EXPECT_NO_THROW(check_plan(*r.lir.program, *r.lir.plan));
  }
}

TEST(section6_Memory, AnAlignmentThatIsNoneIsRefused) {
  for (const std::int64_t alignment : {0, 32, 96, 8192, -64}) {
    CompileOptions options;
    options.alignment = alignment;
    EXPECT_EQ(test::error_text(ErrorCode::invalid_argument, [&] { compile(head(), options, cpu::backend()); }),
              fmt::format("alignment: expected a power of two from 64 to 4096, found {}", alignment));
  }
}

TEST(section6_Memory, SizesAboveTheBudgetAreRefusedAndSmallerOnesRun) {
  CompileOptions options;
  options.budget = -1;
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument, [&] { compile(head(), options, cpu::backend()); }),
            "budget: expected bytes, or 0 for no limit, found -1");
  const Plan small = *compile(head(), {}, cpu::backend()).specialize(rows_binding(4, 4), {1, 0}).lir.plan;
  options.budget = small.arena_bytes + small.scratch_bytes();
  const CompileResult r = compile(head(), options, cpu::backend());
  EXPECT_EQ(r.specialize(rows_binding(4, 4), {1, 0}).lir.plan->arena_bytes, small.arena_bytes);
  const std::string message =
      test::error_text(ErrorCode::limit, [&] { r.specialize(rows_binding(64, 64), {1, 0}); });
  EXPECT_EQ(message.find("head: "), 0u) << message;
  const std::string end = fmt::format("the budget of {}; expected smaller sizes or a larger budget", options.budget);
  EXPECT_TRUE(message.ends_with(end)) << message;
}

TEST(Specialize, PlacesBuffersForTheBoundSizes) {
  const CompileResult r = compile(head(), {}, cpu::backend());
  const Plan one = specialize(*r.lir.program, {{sym::rows, 1}, {sym::out_rows, 1}}, {2, 0});
  const Plan many = specialize(*r.lir.program, {{sym::rows, 512}, {sym::out_rows, 1}}, {2, 0});
  EXPECT_LT(one.arena_bytes, many.arena_bytes);
  EXPECT_TRUE(one.calls.back().barrier_after);
  EXPECT_THROW(specialize(*r.lir.program, {{sym::rows, 1}}, {2, 0}), Error);
}

TEST(Specialize, CallsThatTouchOtherBytesNeedNoBarrier) {
  Graph g("pair");
  Builder b(g);
  const Value x = b.input("x", Shape({sym::rows, 64}, DType::f32));
  const Value other = b.input("other", Shape({sym::rows, 64}, DType::f32));  // products of one input are one call
  const Value w = b.param("w", Shape({48, 64}, DType::f32));
  const Value v = b.param("v", Shape({48, 64}, DType::f32));
  g.set_outputs({{"y", b(Linear{}, x, w)}, {"z", b(Linear{}, other, v)}});
  const CompileResult r = compile(g, {}, cpu::backend());
  ASSERT_EQ(r.lir.program->calls.size(), 2u);
  const Plan plan = specialize(*r.lir.program, {{sym::rows, 3}}, {2, 0});
  EXPECT_FALSE(plan.calls[0].barrier_after);
}

}  // namespace
}  // namespace rlx
