// Section 5 of the design of the compiler: the schedule of phases drives execution.
#include <gtest/gtest.h>

#include <cmath>

#include "rlx/rlx.h"
#include "runtime/step_memory.h"
#include "runtime/toy_model.h"

namespace rlx {
namespace {

// y = norm(x) * scale, with a scale that two params make: work of the prologue.
Graph scaled_rows() {
  HirModule hir("scaled_rows");
  const Value x = hir.input("x", Shape({Dim(sym::rows), 64}, DType::f32));
  const Value a = hir.param("a", Shape({64}, DType::f32)), b = hir.param("b", Shape({64}, DType::f32));
  const Value scale = hir(Add{}, a, b);
  const Value y = hir(RmsNorm{.eps = 1e-5f}, x, scale);
  hir.set_outputs({hir.linear_stored(y, hir.param("w", Shape({16, 64}, DType::f32)))});
  return std::move(hir).graph();
}

TEST(section5_phases, ExecutablesOfAllSizesShareOnePrologue) {
  Session session(Device::cpu());
  const std::vector<std::int64_t> sizes = {1, 64, 512};
  std::vector<std::shared_ptr<CompiledGraph>> graphs;
  std::vector<std::unique_ptr<Executor>> executors;
  StepMemory memory;
  KvCache no_states(*session.compile(scaled_rows(), {}, {{sym::rows, 1}})->compiled().lir.program,
                    find_backend(Device::cpu()), 1, 64);
  for (const std::int64_t rows : sizes) {
    graphs.push_back(session.compile(scaled_rows(), {}, {{sym::rows, rows}}));
    for (const BindingEntry& p : graphs.back()->manifest().params) {
      std::vector<std::int64_t> dims;
      for (const Dim d : p.shape.dims()) dims.push_back(*d.constant());
      Tensor t = Tensor::zeros(dims);
      float v = 0;
      for (float& e : t.mutable_as<float>()) e = std::sin(v += 0.3f);
      graphs.back()->set_param(p.name, t);
    }
    executors.push_back(graphs.back()->make_executor(no_states));
  }
  memory.fit(executors.back()->plan());
  Workers workers(1);
  const std::vector<float> x(512 * 64, 0.5f);
  const void* inputs[] = {x.data()};
  // A prompt, three steps, another prompt: the scale is made once.
  std::vector<float> first;
  for (const std::size_t i : {2u, 0u, 0u, 0u, 1u, 2u}) {
    executors[i]->run(DimBinding{{sym::rows, sizes[i]}}, inputs, memory.get(), workers);
    const TensorView& y = executors[i]->output(0);
    const std::vector<float> row(y.as<float>(), y.as<float>() + 16);
    if (first.empty()) first = row;
    EXPECT_EQ(row, first) << sizes[i];
  }
  std::int64_t runs = 0;
  for (const auto& e : executors) runs += e->prologue_runs();
  EXPECT_EQ(runs, 1);
}

TEST(section5_phases, PrologueOncePerSessionSteadyPerStepEpilogueForWantedRows) {
  DecoderOptions options;
  options.threads = 1;
  const ToyModel toy(DType::q8_0);  // the decoder reads its bytes
  Decoder decoder(toy.load(), options);
  std::vector<std::int32_t> prompt(500);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<std::int32_t>(i * 7 % 320);
  const std::span<const float> logits = decoder.step(prompt);
  EXPECT_EQ(logits.size(), 320u);
  EXPECT_EQ(decoder.stats().epilogue_rows, 1) << "the LM head of a prompt is one row";
  const std::int32_t token = 5;
  for (int i = 0; i < 4; ++i) decoder.step({&token, 1});
  const DecoderStats stats = decoder.stats();
  EXPECT_EQ(stats.prologue_runs, 1);
  EXPECT_EQ(stats.steady_runs, 5);
  EXPECT_EQ(stats.epilogue_rows, 5);
  // Rows that nobody wants: the whole epilogue is left out.
  decoder.step({&token, 1}, Decoder::Want::none);
  EXPECT_EQ(decoder.stats().steady_runs, 6);
  EXPECT_EQ(decoder.stats().epilogue_rows, 5);
}

TEST(section5_phases, ALongPromptInChunksNeedsTheHeadOnce) {
  DecoderOptions options;
  options.threads = 1;
  options.chunk = 64;
  const ToyModel toy(DType::q8_0);  // the decoder reads its bytes
  Decoder decoder(toy.load(), options);
  const std::vector<std::int32_t> prompt(200, 3);
  decoder.step(prompt);
  EXPECT_EQ(decoder.stats().steady_runs, 4);
  EXPECT_EQ(decoder.stats().epilogue_rows, 1);
  EXPECT_EQ(decoder.stats().prologue_runs, 1);
  // 64 rows, the 8 that were left of 200, and one row: a handful of executables.
  EXPECT_LE(decoder.stats().specializations, 4);
}

}  // namespace
}  // namespace rlx
