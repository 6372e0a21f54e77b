// Sections 7, 8, 10 and 13 of the design of the compiler: manifests, the pipeline, compiled graphs.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "error_text.h"
#include "ops/shape_ops.h"
#include "rlx/rlx.h"
#include "runtime/toy_model.h"

namespace rlx {
namespace {

constexpr int kThreads = 8;

HirModule dyn() {
  HirModule hir("dyn");
  const Value x = hir.input("x", Shape({1, 8, 4}, DType::f32));
  const Value w = hir.param("w", Shape({4, 2}, DType::f32));
  hir.set_outputs({hir.linear(x, w)});
  return hir;
}

// y = norm(x) w^T over symbolic rows, with a table that depends on no input.
HirModule rows_model() {
  HirModule hir("rows");
  const Value x = hir.input("x", Shape({Dim(sym::rows), 64}, DType::f32));
  const Value a = hir.param("layers.0.a", Shape({64}, DType::f32));
  const Value b = hir.param("layers.0.b", Shape({64}, DType::f32));
  const Value table = hir(Add{}, a, b);
  const Value y = hir(RmsNorm{.eps = 1e-5f}, x, table);
  hir.set_outputs({hir.linear_stored(y, hir.param("head.w", Shape({32, 64}, DType::f32)))});
  return hir;
}

Tensor filled(std::vector<std::int64_t> dims, float start) {
  Tensor t = Tensor::zeros(std::move(dims));
  float v = start;
  for (float& x : t.mutable_as<float>()) x = v = v * 0.9f + 0.1f * std::sin(v * 7);
  return t;
}

float at(const Tensor& t, int i) { return t.as<float>()[static_cast<std::size_t>(i)]; }

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.byte_size())) == 0;
}

void set_all(CompiledGraph& g) {
  for (const BindingEntry& p : g.manifest().params) {
    std::vector<std::int64_t> dims;
    for (const Dim d : p.shape.dims()) dims.push_back(*d.constant());
    g.set_param(p.name, filled(dims, 0.5f));
  }
}

TEST(section13_pipeline, TheExampleHoldsAsWritten) {
  ModelCompilePipeline pipeline(Device::cpu());
  auto make = [] {
    HirModule hir("dyn");
    auto x = hir.input("x", Shape({1, 8, 4}, DType::f32));
    auto w = hir.param("w", Shape({4, 2}, DType::f32));
    hir.set_outputs({hir.linear(x, w)});
    return hir;
  };
  pipeline.build_template(make, CompileOptions{});
  CompileResult spec = pipeline.specialize_template(DimBinding{}, CompileOptions{});
  EXPECT_EQ(BindingManifest::from_lir(spec.lir).params[0].name, "w");
  std::shared_ptr<CompiledGraph> graph = pipeline.compile_lir(spec, CompileOptions{});
  graph->set_param("w", Tensor::zeros({4, 2}));
  std::vector<NamedTensor> out = graph->run({{"x", Tensor::zeros({1, 8, 4})}});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].tensor.elements(), 16);
}

TEST(section13_pipeline, TheComponentCallWorksOnAnEmptyPipelineAndHitsTheSecondTime) {
  ModelCompilePipeline pipeline(Device::cpu());
  const ModelComponent component(ModelVariant::prefill(1, 8));
  const auto first = pipeline.get_or_compile_component(component, dyn, {});
  const auto second = pipeline.get_or_compile_component(component.with_mode(CompilationMode::Aot), dyn, {});
  EXPECT_EQ(first, second) << "the mode says when an executable is made, not what it is";
  EXPECT_EQ(pipeline.statistics().hits, 1);
  EXPECT_EQ(pipeline.statistics().misses, 1);
  EXPECT_EQ(pipeline.statistics().templates, 1);
}

TEST(section10_graph, ComputesTheProductOnEveryDevice) {
  const Tensor x = filled({1, 8, 4}, 0.3f), w = filled({4, 2}, 0.7f);
  for (const Device& device : {Device::cpu(), Device::reference()}) {
    Session session(device);
    const auto g = session.compile(dyn());
    g->set_param("w", w);
    const Tensor y = g->run({{"x", x}})[0].tensor;
    for (int r = 0; r < 8; ++r)
      for (int c = 0; c < 2; ++c) {
        float sum = 0;
        for (int k = 0; k < 4; ++k)
          sum += at(x, r * 4 + k) * at(w, k * 2 + c);
        EXPECT_NEAR(at(y, r * 2 + c), sum, 1e-6f) << device.text();
      }
  }
}

TEST(section10_graph, MisuseIsAnErrorBeforeAnythingRuns) {
  Session session(Device::cpu());
  const auto g = session.compile(rows_model(), {}, {{sym::rows, 4}});
  const auto run = [&](std::vector<NamedTensor> in) { return test::error_text([&] { g->run(in); }); };
  EXPECT_EQ(run({{"x", Tensor::zeros({2, 64})}}), "rows: param \"layers.0.a\" is not set");
  set_all(*g);
  EXPECT_EQ(run({}), "rows: input \"x\" (f32[4, 64]) is missing");
  EXPECT_EQ(run({{"z", Tensor::zeros({2, 64})}}), "rows: no input \"z\"");
  EXPECT_EQ(run({{"x", Tensor::zeros({2, 64})}, {"x", Tensor::zeros({2, 64})}}), "rows: input \"x\" is given twice");
  EXPECT_NE(run({{"x", Tensor::zeros({2, 64}, DType::i32)}}).find("expected f32[4, 64], found i32[2, 64]"),
            std::string::npos);
  EXPECT_NE(run({{"x", Tensor::zeros({2, 63})}}).find("63"), std::string::npos);
  EXPECT_NE(run({{"x", Tensor::zeros({2, 64, 1})}}), "no error");
  EXPECT_EQ(run({{"x", Tensor::zeros({5, 64})}}), "rows: rows = 5 is above the 4 that this executable was made for");
  EXPECT_EQ(test::error_text([&] { g->set_param("v", Tensor::zeros({64})); }), "rows: no param \"v\"");
  EXPECT_EQ(test::error_text([&] {
              g->set_param("head.w", Tensor::zeros({64, 32}));
            }),
            "rows: param \"head.w\": expected f32[32, 64], found f32[64, 32]");
  std::vector<NamedTensor> wrong = {{"output", Tensor::zeros({2, 31})}};
  EXPECT_EQ(test::error_text([&] {
              g->run_into({{"x", Tensor::zeros({2, 64})}}, wrong);
            }),
            "rows: output \"output\": expected f32[2, 32], found f32[2, 31]");
  EXPECT_EQ(g->statistics().runs, 0);
}

TEST(section10_graph, ActualSizesBelowTheBucketGiveTheSameBits) {
  Session session(Device::cpu());
  const auto big = session.compile(rows_model(), {}, {{sym::rows, 16}});
  const auto exact = session.compile(rows_model(), {}, {{sym::rows, 3}});
  set_all(*big);
  set_all(*exact);
  const Tensor x = filled({3, 64}, 0.2f);
  const Tensor a = big->run({{"x", x}})[0].tensor, b = exact->run({{"x", x}})[0].tensor;
  ASSERT_EQ(a.dims(), (std::vector<std::int64_t>{3, 32}));
  EXPECT_TRUE(same_bits(a, b));
}

TEST(section5_phases, ThePrologueRunsOncePerHandleAndAgainWhenAParamChanges) {
  Session session(Device::reference());
  const auto g = session.compile(rows_model(), {}, {{sym::rows, 4}});
  set_all(*g);
  const Tensor x = filled({4, 64}, 0.2f);
  const Tensor first = g->run({{"x", x}})[0].tensor;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(g->run({{"x", x}})[0].tensor, first));
  EXPECT_EQ(g->statistics().runs, 4);
  EXPECT_EQ(g->statistics().prologue_runs, 1);
  g->set_param("layers.0.a", filled({64}, 3.0f));
  const Tensor second = g->run({{"x", x}})[0].tensor;
  EXPECT_FALSE(same_bits(second, first));
  EXPECT_EQ(g->statistics().prologue_runs, 2);
}

TEST(section10_graph, SizesInAttributesAreThoseOfTheRun) {
  HirModule hir("tail");
  const Value x = hir.input("x", Shape({Dim(sym::rows), 3}, DType::f32));
  // All rows but the first, and one row of zeros at the end.
  const Value tail = hir(Slice{.axis = 0, .start = 1, .stop = Dim(sym::rows)}, x);
  hir.set_outputs({hir(Pad{.axis = 0, .before = 0, .after = 1, .value = 0}, tail)});
  Session session(Device::cpu());
  const auto g = session.compile(hir, {}, {{sym::rows, 8}});
  for (const std::int64_t rows : {2, 8, 5}) {
    const Tensor in = filled({rows, 3}, 0.4f), out = g->run({{"x", in}})[0].tensor;
    ASSERT_EQ(out.dims(), in.dims());
    for (int i = 0; i < (rows - 1) * 3; ++i) EXPECT_EQ(at(out, i), at(in, i + 3)) << rows;
    EXPECT_EQ(at(out, static_cast<int>(rows) * 3 - 1), 0.0f);
  }
}

TEST(section10_graph, SeveralThreadsRunOneHandle) {
  Session session(Device::cpu());
  const auto g = session.compile(rows_model(), {}, {{sym::rows, 8}});
  set_all(*g);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const Tensor x = filled({1 + t % 8, 64}, 0.1f * static_cast<float>(t + 1));
      const Tensor expected = g->run({{"x", x}})[0].tensor;
      for (int i = 0; i < 20; ++i)
        wrong += same_bits(g->run({{"x", x}})[0].tensor, expected) ? 0 : 1;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(section7_manifest, EveryBoundaryOnceWithItsPlace) {
  ModelCompilePipeline pipeline(Device::cpu());
  pipeline.build_template(rows_model, {});
  const BindingManifest m = pipeline.binding_manifest_for_binding({{sym::rows, 8}}, {});
  EXPECT_EQ(m.graph, "rows");
  ASSERT_EQ(m.inputs.size(), 1u);
  EXPECT_EQ(m.inputs[0].bytes, 8 * 64 * 4);
  ASSERT_EQ(m.params.size(), 3u);
  EXPECT_EQ(m.param("head.w")->shape.text(), "f32[32, 64]");
  EXPECT_EQ(m.param("head.w")->place, Place::weight);
  EXPECT_EQ(m.output("output")->elements, 8 * 32);
  EXPECT_EQ(m.output("output")->index % m.alignment, 0);
  EXPECT_EQ(m.param("nothing"), nullptr);
  EXPECT_EQ(m.total_param_bytes(), (64 + 64 + 32 * 64) * 4);
  EXPECT_EQ(test::error_text([&] { BindingManifest::from_lir(pipeline.template_result({}).lir); }),
            "rows: a manifest needs a specialised program, found a template");
}

TEST(section7_manifest, ParamsGroupByPrefixAtAnyDepth) {
  ModelCompilePipeline pipeline(Device::cpu());
  pipeline.build_template(rows_model, {});
  const BindingManifest m = pipeline.binding_manifest_for_binding({{sym::rows, 1}}, {});
  const auto one = m.weight_blocks(1), two = m.weight_blocks(2), none = m.weight_blocks(0);
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].bytes, m.total_param_bytes());
  ASSERT_EQ(one.size(), 2u);
  EXPECT_EQ(one[0].prefix, "layers");
  EXPECT_EQ(two[0].prefix, "layers.0");
  EXPECT_EQ(two[0].bytes, 2 * 64 * 4);
  EXPECT_EQ(two[1].prefix, "head");
}

TEST(section8_pipeline, PinnedExecutablesStayWhateverTheCapacity) {
  const auto pipeline = ModelCompilePipeline::with_capacity(Device::cpu(), 2);
  const HirSource source([] { return rows_model(); });
  const auto key = [](std::uint64_t n) {
    return KeyWriter("test").integer("n", static_cast<std::int64_t>(n)).finish();
  };
  const auto get = [&](std::uint64_t n) {
    return pipeline->get_or_compile(key(n), {{sym::rows, static_cast<std::int64_t>(n)}}, source, {});
  };
  get(1);
  pipeline->pin(key(1));
  for (std::uint64_t n = 2; n <= 5; ++n) get(n);
  EXPECT_TRUE(pipeline->contains(key(1)));
  EXPECT_TRUE(pipeline->contains(key(5)));
  EXPECT_EQ(pipeline->size(), 2);
  EXPECT_EQ(pipeline->statistics().evictions, 3);
  pipeline->unpin(key(1));
  get(6);
  EXPECT_FALSE(pipeline->contains(key(1)));
  EXPECT_EQ(test::error_text([&] { pipeline->pin(key(1)); }), "no executable has the key " + key(1).hex());
  EXPECT_EQ(test::error_text([&] { pipeline->unpin(key(6)); }), "the executable " + key(6).hex() + " is not pinned");
}

TEST(section8_pipeline, ErrorsSayWhatIsMissing) {
  ModelCompilePipeline pipeline(Device::cpu());
  EXPECT_EQ(test::error_text([&] { pipeline.specialize_template({}, {}); }),
            "no template was built with these options: call build_template first");
  EXPECT_EQ(test::error_text([] { ModelCompilePipeline::with_capacity(Device::cpu(), 0); }),
            "a pipeline of 0 entries: expected at least 1");
  EXPECT_EQ(test::error_text([] { ModelCompilePipeline::with_budget(Device::cpu(), -5); }),
            "a pipeline of -5 bytes: expected at least 1");
  EXPECT_TRUE(pipeline.empty());
}

TEST(section8_pipeline, AKeyThatMeansSomethingElseIsAnErrorThatNamesBoth) {
  ModelCompilePipeline pipeline(Device::cpu());
  const Digest key = digest("mine");
  pipeline.get_or_compile(key, {{sym::rows, 4}}, rows_model, {});
  const std::string other_size = test::error_text([&] {
    pipeline.get_or_compile(key, {{sym::rows, 5}}, rows_model, {});
  });
  EXPECT_NE(other_size.find("rows=4"), std::string::npos) << other_size;
  EXPECT_NE(other_size.find("rows=5"), std::string::npos) << other_size;
  EXPECT_NE(test::error_text([&] { pipeline.get_or_compile(key, {}, dyn, {}); }).find("\"dyn\""), std::string::npos);
  CompileOptions unfused;
  unfused.fusion = false;
  EXPECT_NE(test::error_text([&] { pipeline.get_or_compile(key, {{sym::rows, 4}}, rows_model, unfused); }), "no error");
  EXPECT_TRUE(pipeline.contains(key));
}

TEST(section8_pipeline, AHitWithAnIdCallsNothing) {
  ModelCompilePipeline pipeline(Device::cpu());
  int calls = 0;
  const HirSource source(digest("rows, by hand"), [&] {
    ++calls;
    return rows_model();
  });
  const auto a = pipeline.get_or_compile(digest("k"), {{sym::rows, 4}}, source, {});
  const auto b = pipeline.get_or_compile(digest("k"), {{sym::rows, 4}}, source, {});
  EXPECT_EQ(a, b);
  EXPECT_EQ(calls, 1);
}

TEST(section8_pipeline, TwoModelsAndTwoVariantsLiveInOnePipeline) {
  ModelCompilePipeline pipeline(Device::cpu());
  const auto a = pipeline.get_or_compile(digest("a"), {}, dyn, {});
  const auto b = pipeline.get_or_compile(digest("b"), {{sym::rows, 1}}, rows_model, {});
  const auto c = pipeline.get_or_compile(digest("c"), {{sym::rows, 512}}, rows_model, {});
  EXPECT_EQ(pipeline.size(), 3);
  EXPECT_EQ(pipeline.statistics().templates, 2);
  EXPECT_EQ(b->compiled().lir.program, c->compiled().lir.program) << "variants share the template";
  EXPECT_NE(a->manifest().graph, b->manifest().graph);
}

TEST(section8_pipeline, TheLeastRecentlyUsedGoesAndItsUserKeepsIt) {
  const auto pipeline = ModelCompilePipeline::with_capacity(Device::cpu(), 2);
  const auto get = [&](std::int64_t rows) {
    return pipeline->get_or_compile(digest(std::to_string(rows)), {{sym::rows, rows}}, rows_model, {});
  };
  const auto one = get(1);
  get(2);
  get(1);
  get(3);
  EXPECT_TRUE(pipeline->contains(digest("1")));
  EXPECT_FALSE(pipeline->contains(digest("2")));
  get(2);
  EXPECT_FALSE(pipeline->contains(digest("1")));
  EXPECT_EQ(pipeline->statistics().evictions, 2);
  set_all(*one);
  EXPECT_EQ(one->run({{"x", Tensor::zeros({1, 64})}}).size(), 1u);

  const auto small = ModelCompilePipeline::with_budget(Device::cpu(), 1);
  small->get_or_compile(digest("1"), {{sym::rows, 1}}, rows_model, {});
  small->get_or_compile(digest("2"), {{sym::rows, 2}}, rows_model, {});
  EXPECT_EQ(small->size(), 1);
}

TEST(section8_pipeline, EightThreadsAskingForOneKeyCompileOnce) {
  ModelCompilePipeline pipeline(Device::cpu());
  std::vector<std::shared_ptr<CompiledGraph>> got(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      got[static_cast<std::size_t>(t)] = pipeline.get_or_compile(digest("k"), {{sym::rows, 64}}, rows_model, {});
    });
  for (std::thread& t : threads) t.join();
  for (const auto& g : got) EXPECT_EQ(g, got[0]);
  EXPECT_EQ(pipeline.statistics().misses, 1);
  EXPECT_EQ(pipeline.statistics().hits, kThreads - 1);
  EXPECT_EQ(pipeline.statistics().templates, 1);
}

TEST(section8_pipeline, AFailureIsReportedAndTriedAgain) {
  ModelCompilePipeline pipeline(Device::cpu());
  const auto ask = [&](DimBinding sizes) { pipeline.get_or_compile(digest("k"), sizes, rows_model, {}); };
  EXPECT_NE(test::error_text([&] { ask({}); }).find("rows"), std::string::npos) << "rows is not bound";
  EXPECT_EQ(pipeline.statistics().failures, 1);
  EXPECT_FALSE(pipeline.contains(digest("k")));
  EXPECT_EQ(test::error_text([&] { ask({{sym::rows, 2}}); }), "no error");
}

TEST(section8_pipeline, VariantsOfACheckpointShareItsWeights) {
  const ToyModel toy(DType::q8_0);
  const LoadedModel loaded = toy.load();
  ModelCompilePipeline pipeline(Device::cpu());
  const HirSource source(digest("toy"), [&] { return loaded.model; });
  const auto sizes = [](std::int64_t rows) {
    return DimBinding{{sym::rows, rows}, {sym::out_rows, 1}, {sym::batch, 1}};
  };
  const auto decode = pipeline.get_or_compile(digest("1"), sizes(1), source, {});
  const auto prefill = pipeline.get_or_compile(digest("64"), sizes(64), source, {});
  EXPECT_EQ(decode->bytes(), 0) << "weights belong to the store, not to a handle";
  EXPECT_EQ(decode->manifest().params.size(), prefill->manifest().params.size());
  EXPECT_NE(test::error_text([&] { decode->run({}); }).find("make_states"), std::string::npos);
}

}  // namespace
}  // namespace rlx
