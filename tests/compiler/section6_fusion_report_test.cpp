// What the passes fuse in each golden model family, and what they leave for a reason (compiler.md, section 6). The
// reports are pinned in tests/goldens/fusion/NAME.txt: a graph that gets worse fails here. RLX_UPDATE_TESTS=1 writes
// them anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "backends/cpu/backend.h"
#include "base/file.h"
#include "compiler/pipeline.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "models/load.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

// Options under which every processor makes the same graph.
CompileOptions pinned(Activations activations) {
  CompileOptions options;
  options.precision = {activations, DType::f32};
  return options;
}

CompileResult compile_golden(const std::string& name, Activations activations) {
  const LoadedModel loaded = load_model(fs::path(RLX_TEST_DIR) / "goldens/models" / name);
  return compile(loaded.model.graph, pinned(activations), cpu::backend());
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(fs::path(RLX_TEST_DIR) / "goldens/models"))
    if (fs::exists(e.path() / "config.json")) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class section6_FusionReport : public testing::TestWithParam<std::string> {};

TEST_P(section6_FusionReport, IsThePinnedOne) {
  const fs::path path = fs::path(RLX_TEST_DIR) / "goldens/fusion" / (GetParam() + ".txt");
  std::string text;
  for (const Activations a : {Activations::f32, Activations::int8})
    text += fmt::format("activations {}: {}", name(a), compile_golden(GetParam(), a).fusion.text());
  if (std::getenv("RLX_UPDATE_TESTS") != nullptr) {
    fs::create_directories(path.parent_path());
    write_file_atomic(path, text);
  }
  EXPECT_EQ(text, read_file(path)) << "if this is better than before, RLX_UPDATE_TESTS=1 writes the file anew";
}

INSTANTIATE_TEST_SUITE_P(Families, section6_FusionReport, testing::ValuesIn(families()),
                         [](const auto& i) { return i.param; });

struct LayerCost {
  int calls = 0, barriers = 0;
};

// What the steady calls of one layer cost in a decode step.
LayerCost layer_cost(const std::string& model, Activations activations, const std::string& layer) {
  const CompileResult r = compile_golden(model, activations);
  const Program& program = *r.lir.program;
  const Plan plan = specialize(program, {{sym::rows, 1}, {sym::out_rows, 1}, {sym::batch, 1}}, {2, 1024});
  LayerCost cost;
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    if (program.calls[c].origin.rfind(layer + ".", 0) != 0) continue;
    ++cost.calls;
    cost.barriers += plan.calls[c].barrier_after + plan.calls[c].barrier_before;
  }
  return cost;
}

// By hand (kernels.md, 2.5): what must wait for what in a Llama layer is
//   norm and QKV -> rope and append -> attention -> O and residual -> norm, gate and up -> down and residual
// where a norm, with or without the quantisation of its result, is done by every worker for itself inside the product
// that reads it. Six calls, each of which needs all of the one before: six barriers. The bound of the issue is 8 calls
// and 6 barriers.
TEST(section6_Bound, ALlamaLayerInDecodeIsSixCallsAndSixBarriers) {
  for (const Activations a : {Activations::f32, Activations::int8})
    for (const std::string model : {"llama", "qwen3", "mistral_sliding", "qwen2"}) {
      const LayerCost cost = layer_cost(model, a, "layers.0");
      EXPECT_LE(cost.calls, 6) << model << " " << name(a);
      EXPECT_GE(cost.calls, 6) << model << " " << name(a) << ": the calls of a layer are not found by their origin";
      EXPECT_LE(cost.barriers, 6) << model << " " << name(a);
    }
}

// ---- near misses, by name ----

std::vector<std::string> misses(const std::string& pass, const std::string& body, Activations a = Activations::f32) {
  const Graph graph = parse_graph("graph \"g\" stage=mir\n" + body, "text");
  FusionReport report;
  run_pipeline(graph, pinned(a), cpu::backend(), nullptr, nullptr, &report);
  std::vector<std::string> reasons;
  for (const NearMiss& m : report.near_misses)
    if (m.pass == pass) reasons.push_back(m.reason);
  return reasons;
}

using Reasons = std::vector<std::string>;

constexpr const char* kProduct = R"(
  %0 = input "x" : f32[rows, 32]
  %1 = param "w" : f32[48, 32]
  %2 = param "b" : f32[48]
)";

TEST(section6_NearMiss, ABiasOfAProductWithTwoReaders) {
  EXPECT_EQ(misses("fuse_linear_bias", std::string(kProduct) + R"(
  %3 = linear(%0, %1) : f32[rows, 48]
  %4 = add(%3, %2) : f32[rows, 48]
return "y" %4, "z" %3
)"),
            Reasons{"the linear is the output \"z\""});
  EXPECT_EQ(misses("fuse_linear_bias", std::string(kProduct) + R"(
  %3 = linear(%0, %1) : f32[rows, 48]
  %4 = add(%3, %2) : f32[rows, 48]
  %5 = mul(%3, %4) : f32[rows, 48]
return "y" %5
)"),
            Reasons{"the linear has 2 readers"});
}

TEST(section6_NearMiss, ASecondBiasAndABiasOfTwoDims) {
  EXPECT_EQ(misses("fuse_linear_bias", std::string(kProduct) + R"(
  %3 = param "c" : f32[1, 48]
  %4 = linear(%0, %1, %2) bias=true : f32[rows, 48]
  %5 = add(%4, %2) : f32[rows, 48]
  %6 = linear(%0, %1) : f32[rows, 48]
  %7 = add(%6, %3) : f32[rows, 48]
return "y" %5, "z" %7
)"),
            (Reasons{"the linear has a bias already", "a bias of f32[1, 48]: expected one dim"}));
}

TEST(section6_NearMiss, AResidualThatRepeats) {
  EXPECT_EQ(misses("fuse_linear_residual", std::string(kProduct) + R"(
  %3 = param "c" : f32[1, 48]
  %4 = linear(%0, %1) : f32[rows, 48]
  %5 = add(%4, %3) : f32[rows, 48]
return "y" %5
)"),
            Reasons{"a residual of f32[1, 48] on f32[rows, 48]"});
}

TEST(section6_NearMiss, AGateOfAnotherTypeOrInput) {
  EXPECT_EQ(misses("fuse_gated_linear", R"(
  %0 = input "x" : f32[rows, 32]
  %1 = param "gate" : f16[48, 32]
  %2 = param "up" : f32[48, 32]
  %3 = input "other" : f32[rows, 32]
  %4 = linear(%0, %1) act=silu : f32[rows, 48]
  %5 = linear(%0, %2) : f32[rows, 48]
  %6 = mul(%4, %5) : f32[rows, 48]
  %7 = linear(%3, %1) act=silu : f32[rows, 48]
  %8 = mul(%7, %6) : f32[rows, 48]
  %9 = linear(%3, %2) act=silu : f32[rows, 48]
  %10 = linear(%0, %2) : f32[rows, 48]
  %11 = mul(%9, %10) : f32[rows, 48]
return "y" %8, "z" %11
)")[0],
            "weights of two types: f16[48, 32] and f32[48, 32]");
}

TEST(section6_NearMiss, AQuantisedNormWithAnotherReader) {
  EXPECT_EQ(misses("fuse_norm_quantize", R"(
  %0 = input "x" : f32[rows, 32]
  %1 = param "n" : f32[32]
  %2 = param "w" : f32[48, 32]
  %3 = rms_norm(%0, %1) : f32[rows, 32]
  %4 = linear(%3, %2) : f32[rows, 48]
return "y" %4, "normed" %3
)",
                   Activations::int8),
            Reasons{"the rms_norm is the output \"normed\""});
}

TEST(section6_NearMiss, ANormOfQueryAloneAndAnotherRope) {
  const auto append = [](const std::string& q, const std::string& k) {
    return R"(
  %0 = input "x" : f32[rows, 32]
  %1 = input "k" : f32[rows, 32]
  %2 = state "kv.0" : kv<f32>[2, 16]
  %3 = input "seq_start" : i32[batch + 1]
  %4 = input "past" : i32[batch]
  %5 = input "slot" : i32[batch]
  %6 = state "pages" : pages
  %7 = input "inv_freq" : f32[8]
  %8 = input "positions" : i32[rows]
  %9 = rope(%0, %7, %8) head_dim=16 rotary_dim=16)" +
           q + R"( : f32[rows, 32]
  %10 = rope(%1, %7, %8) head_dim=16 rotary_dim=16)" +
           k + R"( : f32[rows, 32]
  %11 = kv_append(%2, %10, %1, %3, %4, %5, %6) : kv<f32>[2, 16]
  %12 = attention(%9, %11, %3, %4, %5, %6) heads=2 : f32[rows, 32]
)";
  };
  EXPECT_EQ(misses("fuse_rope_append", append(" style=adjacent", "") + "return \"y\" %12\n"),
            Reasons{"the ropes of q and k differ"});
  EXPECT_EQ(misses("fuse_rope_append", append("", "") + "return \"y\" %12, \"k\" %10\n"),
            Reasons{"the rope is the output \"k\""});
}

TEST(section6_NearMiss, AProductBesideAnother) {
  EXPECT_EQ(misses("fuse_shared_input", std::string(kProduct) + R"(
  %3 = linear(%0, %1) : f32[rows, 48]
  %4 = linear(%0, %1) act=silu : f32[rows, 48]
  %5 = param "late" : f32[48, 32]
  %6 = add(%5, %5) : f32[48, 32]
  %7 = linear(%0, %6) : f32[rows, 48]
return "y" %3, "z" %4, "l" %7
)"),
            (Reasons{"a product on the same input has an activation",
                     "a weight of a product on the same input is computed after the first product"}));
}

TEST(section6_NearMiss, AProductWhoseNormIsReadTwice) {
  EXPECT_EQ(misses("fuse_product_input", R"(
  %0 = input "x" : f32[rows, 32]
  %1 = param "n" : f32[32]
  %2 = param "w" : f32[32, 32]
  %3 = rms_norm(%0, %1) : f32[rows, 32]
  %4 = linear(%3, %2, %3) residual=true : f32[rows, 32]
return "y" %4
)"),
            Reasons{"the rms_norm has 2 readers"});
}

TEST(section6_NearMiss, SelectedRowsOfAHalf) {
  EXPECT_EQ(misses("select_rows_up", R"(
  %0 = input "x" : f16[rows, 48]
  %1 = input "out_rows" : i32[out_rows]
  %2 = cast(%0) : f32[rows, 48]
  %3 = select_rows(%2, %1) : f32[out_rows, 48]
return "y" %3
)"),
            Reasons{"cast reads rows of f16"});
}

TEST(section6_NearMiss, AProductWithABatchOfWeights) {
  EXPECT_EQ(misses("matmul_to_linear", R"(
  %0 = input "x" : f32[2, 5, 32]
  %1 = param "w" : f32[2, 32, 16]
  %2 = batched_matmul(%0, %1) : f32[2, 5, 16]
return "y" %2
)"),
            Reasons{"a weight of f32[2, 32, 16]: expected two dims"});
}

// A product with a param, its bias and its activation are one call.
TEST(section6_GeneralGraph, MatmulBiasAndActivationAreOneCall) {
  const Graph graph = parse_graph(R"(graph "g" stage=mir
  %0 = input "x" : f32[rows, 32]
  %1 = param "w" : f32[32, 48]
  %2 = param "b" : f32[48]
  %3 = batched_matmul(%0, %1) : f32[rows, 48]
  %4 = add(%3, %2) : f32[rows, 48]
  %5 = activation(%4) act=gelu : f32[rows, 48]
return "y" %5
)",
                                  "text");
  const CompileResult r = compile(graph, pinned(Activations::f32), cpu::backend());
  ASSERT_EQ(r.lir.program->calls.size(), 1u);
  EXPECT_EQ(r.lir.program->calls[0].def->name, "linear");
  EXPECT_NE(r.lir.program->calls[0].kernel, nullptr);
}

// Everything that a region takes runs on kernels: a general graph of such ops has no reference call.
TEST(section6_GeneralGraph, RegionsLeaveNothingToTheReference) {
  const Graph graph = parse_graph(R"(graph "g" stage=mir
  %0 = input "x" : f32[rows, 48]
  %1 = input "h" : f16[rows, 48]
  %2 = param "w" : f32[48]
  %3 = cast(%1) : f32[rows, 48]
  %4 = compare(%0, %3) relation=gt : boolean[rows, 48]
  %5 = where(%4, %0, %3) : f32[rows, 48]
  %6 = unary(%5) fn=exp : f32[rows, 48]
  %7 = layer_norm(%6, %2) bias=false : f32[rows, 48]
  %8 = log_softmax(%7) : f32[rows, 48]
  %9 = reduce(%8) kind=max : f32[rows]
return "y" %9, "z" %8
)",
                                  "text");
  const CompileResult r = compile(graph, pinned(Activations::f32), cpu::backend());
  EXPECT_EQ(r.dispatch.count(DispatchKind::reference), 0);
  EXPECT_EQ(r.lir.program->calls.size(), 1u);
}

TEST(section6_NearMiss, ARegionWithAProductInside) {
  EXPECT_EQ(misses("form_regions", R"(
  %0 = input "x" : f32[rows, 48]
  %1 = param "w" : f32[48, 48]
  %2 = scale(%0) factor=0.5 : f32[rows, 48]
  %3 = softcap(%2) cap=2 : f32[rows, 48]
  %4 = linear(%3, %1) act=silu : f32[rows, 48]
  %5 = mul(%4, %3) : f32[rows, 48]
  %6 = softcap(%5) cap=2 : f32[rows, 48]
return "y" %6
)"),
            Reasons{"a value between them is made by another op"});
}

TEST(section6_NearMiss, ARegionOverRowsOfTwoShapes) {
  EXPECT_EQ(misses("form_regions", R"(
  %0 = input "x" : f32[rows, 48]
  %1 = input "v" : f32[48]
  %2 = softcap(%1) cap=2 : f32[48]
  %3 = scale(%2) factor=0.5 : f32[48]
  %4 = mul(%0, %3) : f32[rows, 48]
  %5 = softcap(%4) cap=2 : f32[rows, 48]
return "y" %5
)"),
            Reasons{"rows of two shapes"});
}

// Without a report no text is made: the same graph comes out.
TEST(section6_FusionReportOff, ChangesNothing) {
  const LoadedModel loaded = load_model(fs::path(RLX_TEST_DIR) / "goldens/models/llama");
  FusionReport report;
  const CompileOptions options = pinned(Activations::f32);
  const Graph with = run_pipeline(loaded.model.graph, options, cpu::backend(), nullptr, nullptr, &report);
  const Graph without = run_pipeline(loaded.model.graph, options, cpu::backend(), nullptr, nullptr);
  EXPECT_EQ(print(with), print(without));
  EXPECT_GT(report.nodes_before, 0);
  EXPECT_EQ(report.nodes_after, static_cast<std::int64_t>(with.nodes().size()));
}

}  // namespace
}  // namespace rlx
