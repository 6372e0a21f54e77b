// Compiling a small graph: phases, dispatch policies, plans and barriers.
#include <gtest/gtest.h>

#include <cstdlib>

#include "backends/cpu/backend.h"
#include "backends/reference/backend.h"
#include "compiler/phase.h"
#include "compiler/pipeline.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace rlx {
namespace {

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
