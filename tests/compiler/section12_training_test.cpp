// grad() as a graph transformation: its names, its errors, bodies, broadcasts, and a step of AdamW.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compiler/grad.h"
#include "compiler/pipeline.h"
#include "compiler/training.h"
#include "ir/print.h"
#include "ir/stage.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/conv.h"
#include "ops/elementwise.h"
#include "ops/interpret.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/quant.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/weight_product.h"

namespace rlx {
namespace {

using Names = std::vector<std::string>;

Tensor floats(std::vector<std::int64_t> dims, std::vector<float> values) {
  return Tensor::from(std::move(dims), std::span<const float>(values));
}
Graph grad_of(const Graph& graph, const Names& outputs, const Names& wrt) { return grad(graph, outputs, wrt); }

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    const bool unsupported = e.code() == ErrorCode::unsupported;
    return fmt::format("{}: {}", unsupported ? "unsupported" : "other", e.what());
  }
  return "no error";
}

// y = x * x + s, x [2, 3], s [1].
Graph small() {
  Graph graph("small");
  Builder b(graph);
  const Value x = b.input("x", Shape({2, 3}, DType::f32)), s = b.input("s", Shape({1}, DType::f32));
  graph.set_outputs({{"y", b(Add{}, b(Mul{}, x, x), s)}});
  return graph;
}

TEST(Grad, section12_AddsOutputsAfterThoseOfTheGraph) {
  const Graph graph = grad_of(small(), {"y"}, {"x", "s"});
  verify(graph, "grad");
  ASSERT_EQ(graph.outputs().size(), 3u);
  EXPECT_EQ(graph.outputs()[1].name, "grad.x");
  EXPECT_EQ(graph.shape(graph.outputs()[2].value), Shape({1}, DType::f32));
  const std::vector<NamedTensor> inputs = {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"s", floats({1}, {0})}};
  const auto out = Interpreter(graph).run(inputs);
  EXPECT_EQ(out[1].tensor.to_floats(), (std::vector<float>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(out[2].tensor.to_floats(), std::vector<float>{6});  // once for each value that s was added to
}

TEST(Grad, section12_WorksOnSymbolicSizes) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({sym::rows, 4}, DType::f32)), w = b.param("w", Shape({3, 4}, DType::f32));
  graph.set_outputs({{"y", b(GatedLinear{.act = Act::gelu}, x, w, w)}});
  const Graph both = grad_of(graph, {"y"}, {"x", "w"});
  verify(both, "grad");
  EXPECT_EQ(both.shape(both.outputs()[1].value).text(), "f32[rows, 4]");
  EXPECT_EQ(both.shape(both.outputs()[2].value).text(), "f32[3, 4]");
}

// Norms of groups and rotated heads of a width that is bound later: the gradient of the bound graph is the same.
TEST(Grad, section12_WorksOnSymbolicWidths) {
  const Symbol n = DimEnv::symbol("n");
  const DimBinding sizes{{n, 8}};
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({3, n}, DType::f32)), w = b.input("w", Shape({4}, DType::f32)),
              frequencies = b.input("frequencies", Shape({2}, DType::f32)),
              positions = b.input("positions", Shape({3}, DType::i32));
  const Value y = b(RmsNorm{.group = 4}, b(Rope{.head_dim = 4, .rotary_dim = 4}, x, frequencies, positions), w);
  graph.set_outputs({{"y", b(Mul{}, y, x)}});
  const Names wrt = {"x", "w", "frequencies"};
  const Graph symbolic = grad_of(graph, {"y"}, wrt);
  verify(symbolic, "grad");
  EXPECT_EQ(symbolic.shape(symbolic.outputs()[1].value).text(), "f32[3, n]");
  std::vector<float> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const std::vector<std::int32_t> places = {0, 1, 5};
  const std::vector<NamedTensor> inputs = {{"x", floats({3, 8}, values)},
                                           {"w", floats({4}, {1, -2, 0.5f, 3})},
                                           {"frequencies", floats({2}, {1, 0.1f})},
                                           {"positions", Tensor::from({3}, std::span<const std::int32_t>(places))}};
  const auto found = Interpreter(bind(symbolic, sizes)).run(inputs),
             expected = Interpreter(grad_of(bind(graph, sizes), {"y"}, wrt)).run(inputs);
  ASSERT_EQ(found.size(), 4u);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].tensor.to_floats(), expected[i].tensor.to_floats()) << found[i].name;
}

// Reverse mode over its own result: d2/dx2 of x^4 is 12 x^2.
TEST(Grad, section12_OfAGradient) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({2}, DType::f32)), squared = b(Mul{}, x, x);
  graph.set_outputs({{"y", b(Mul{}, squared, squared)}});
  const Graph second = grad_of(grad_of(graph, {"y"}, {"x"}), {"grad.x"}, {"x"});
  verify(second, "grad of a gradient");
  EXPECT_EQ(second.outputs()[1].name, "grad.x");
  EXPECT_EQ(second.outputs().back().name, "grad.grad.x");
  const std::vector<NamedTensor> inputs = {{"x", floats({2}, {2, -3})}};
  const auto out = Interpreter(second).run(inputs);
  EXPECT_EQ(out[1].tensor.to_floats(), (std::vector<float>{32, -108}));
  EXPECT_EQ(out[2].tensor.to_floats(), (std::vector<float>{48, 108}));
}

// Sorted lines are numbered as one axis in i32.
TEST(Grad, section12_MoreValuesThanAnIndexCanNumberAreRefused) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({65536, 32768}, DType::f32));
  graph.set_outputs({{"sorted", b(Sort{}, x)}, {"most", b(Cumulative{.kind = Reduction::max, .axis = 1}, x)}});
  for (const char* output : {"sorted", "most"}) {
    const std::string text = message([&] { grad_of(graph, {output}, {"x"}); });
    EXPECT_NE(text.find("expected less than 2^31 values to number, found 2"), std::string::npos) << text;
  }
}

std::ptrdiff_t count_of(const Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const Node& n) { return n.def->name == op; });
}

// The weights of all groups get their gradient from one convolution.
TEST(Grad, section12_OfGroupedWeightsIsOneConvolution) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({2, 2, 3}, DType::f32)), w = b.input("w", Shape({2, 1, 2}, DType::f32));
  graph.set_outputs({{"y", b(Conv{.groups = 2}, x, w)}});
  const Graph both = grad_of(graph, {"y"}, {"w"});
  EXPECT_EQ(count_of(both, "conv"), 2);
  const std::vector<NamedTensor> inputs = {{"x", floats({2, 2, 3}, {1, 2, 3, 10, 20, 30, 4, 5, 6, 40, 50, 60})},
                                           {"w", floats({2, 1, 2}, {1, 1, 1, 1})}};
  // At tap k of channel c the sum of x[:, c, k] and x[:, c, k + 1].
  EXPECT_EQ(Interpreter(both).run(inputs)[1].tensor.to_floats(), (std::vector<float>{12, 16, 120, 160}));
}

// Each value of x gets a share of its windows, by the number of values that they average.
TEST(Grad, section12_OfPooling) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({1, 1, 3}, DType::f32)), wide = b.input("wide", Shape({1, 1, 1025}, DType::f32));
  const Pool ends{.kind = PoolKind::average, .ceil_mode = true, .kernel = {2}, .strides = {2}};
  const Pool far{.kind = PoolKind::average, .count_pads = true, .ceil_mode = true, .kernel = {1}, .strides = {2},
                 .pads_end = {9}};
  graph.set_outputs({{"ends", b(ends, x)},
                     {"far", b(far, x)},
                     {"average", b(Pool{.kind = PoolKind::average, .kernel = {1025}}, wide)},
                     {"most", b(Pool{.kernel = {1025}}, wide)}});
  const std::vector<NamedTensor> inputs = {{"x", floats({1, 1, 3}, {1, 2, 3})}, {"wide", Tensor::zeros({1, 1, 1025})}};
  const auto of = [&](const std::string& output, const std::string& wrt) {
    return Interpreter(grad_of(graph, {output}, {wrt})).run(inputs).back().tensor.to_floats();
  };
  EXPECT_EQ(of("ends", "x"), (std::vector<float>{0.5f, 0.5f, 1}));
  EXPECT_EQ(of("far", "x"), (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(of("average", "wide"), std::vector<float>(1025, 1.0f / 1025));
  EXPECT_LT(grad_of(graph, {"average"}, {"wide"}).nodes().size(), 20u);
  EXPECT_NE(message([&] { grad_of(graph, {"most"}, {"wide"}); }).find("expected windows of at most 1024 values"),
            std::string::npos);
}

// The gradient of a mean needs its count only: no tensor of ones.
TEST(Grad, section12_OfAMeanDividesByItsCount) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({sym::rows, 4}, DType::f32));
  graph.set_outputs({{"columns", b(Reduce{.kind = Reduction::mean, .axis = 1}, x)},
                     {"rows", b(Reduce{.kind = Reduction::mean, .axis = 0}, x)}});
  const std::vector<NamedTensor> inputs = {{"x", floats({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})}};
  const DimBinding sizes{{sym::rows, 2}};
  const auto columns = Interpreter(bind(grad_of(graph, {"columns"}, {"x"}), sizes)).run(inputs),
             rows = Interpreter(bind(grad_of(graph, {"rows"}, {"x"}), sizes)).run(inputs);
  EXPECT_EQ(columns.back().tensor.to_floats(), std::vector<float>(8, 0.25f));
  EXPECT_EQ(rows.back().tensor.to_floats(), std::vector<float>(8, 0.5f));
}

// a^0 is 1 for every a: its derivative is 0 at a = 0 too.
TEST(Grad, section12_PowersOfZero) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({4}, DType::f32)), p = b.input("p", Shape({4}, DType::f32));
  graph.set_outputs({{"y", b(Pow{}, x, p)}});
  const std::vector<NamedTensor> inputs = {{"x", floats({4}, {0, 0, 3, 2})}, {"p", floats({4}, {0, 2, 0, 3})}};
  const auto out = Interpreter(grad_of(graph, {"y"}, {"x"})).run(inputs);
  EXPECT_EQ(out[1].tensor.to_floats(), (std::vector<float>{0, 0, 0, 12}));
}

TEST(Grad, section12_ZerosWhereNothingDepends) {
  Graph graph = small();
  Builder b(graph);
  b.input("other", Shape({2}, DType::f16));
  const Graph both = grad_of(graph, {"y"}, {"other"});
  verify(both, "grad");
  EXPECT_EQ(both.shape(both.outputs()[1].value), Shape({2}, DType::f16));
  const std::vector<NamedTensor> inputs = {{"x", floats({2, 3}, {1, 2, 3, 4, 5, 6})},
                                           {"s", floats({1}, {0})},
                                           {"other", Tensor::zeros({2}, DType::f16)}};
  EXPECT_EQ(Interpreter(both).run(inputs)[1].tensor.to_floats(), (std::vector<float>{0, 0}));
}

TEST(Grad, section12_QuantisedWeightsAreReadFromTheirOtherSide) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({5, 64}, DType::f32)), w = b.param("w", Shape({8, 64}, DType::q4_0));
  const Value packed = b(Pack{.dtype = DType::q4_0}, w);
  graph.set_outputs({{"y", b(Linear{}, x, packed)}});
  const Graph both = grad_of(graph, {"y"}, {"x"});
  bool found = false;
  for (const Node& n : both.nodes())
    if (n.is<LinearTransposed>()) {
      found = true;
      EXPECT_EQ(both.node(n.inputs[1]).name, "w");
    }
  EXPECT_TRUE(found);
  EXPECT_NE(message([&] { grad_of(graph, {"y"}, {"w"}); }).find("wrt \"w\": expected a value of f32, f16 or bf16"),
            std::string::npos);
}

TEST(Grad, section12_OpsWithoutAGradientAreNamed) {
  Graph graph;
  Builder b(graph);
  b.set_origin("layers.3.mlp");
  const Value x = b.input("x", Shape({4, 64}, DType::f32)), w = b.input("w", Shape({8, 64}, DType::q8_0));
  const Value table = b.input("table", Shape({64, 2}, DType::f32));
  const Value picked = b(Gather{}, table, b(Argmax{}, x));
  const Value chosen = b(Where{}, b(Compare{.relation = Relation::gt}, x, x), x, x);
  graph.set_outputs({{"quantised", b(Linear{}, b(QuantizeRows{}, x), w)}, {"picked", picked}, {"chosen", chosen}});
  EXPECT_EQ(message([&] { grad_of(graph, {"quantised"}, {"x"}); }),
            "unsupported: grad: quantize_rows (node %7, in layers.3.mlp) has no gradient");
  EXPECT_EQ(message([&] { grad_of(graph, {"picked"}, {"x"}); }),
            "unsupported: grad: argmax (node %3, in layers.3.mlp) has no gradient");
  EXPECT_EQ(message([&] { grad_of(graph, {"chosen"}, {"x"}); }), "no error");  // a condition only chooses
  EXPECT_EQ(message([&] { grad_of(graph, {"picket"}, {"x"}); }),
            "other: grad: graph: no output is named \"picket\": did you mean \"picked\"?");
  EXPECT_EQ(message([&] { grad_of(graph, {"picked"}, {"tabel"}); }),
            "other: grad: graph: no input or param is named \"tabel\": did you mean \"table\"?");
}

// The loss of two classes and its gradient: softmax minus the target, over the rows.
TEST(Training, section12_CrossEntropyAndItsGradient) {
  Graph graph;
  Builder b(graph);
  const Value logits = b.input("logits", Shape({2, 2}, DType::f32)),
              targets = b.input("targets", Shape({2}, DType::i32));
  graph.set_outputs({{"loss", cross_entropy(b, logits, targets)}});
  const std::vector<std::int32_t> wanted = {1, 0};
  const std::vector<NamedTensor> inputs = {{"logits", floats({2, 2}, {0, 0, 1, 0})},
                                           {"targets", Tensor::from({2}, std::span<const std::int32_t>(wanted))}};
  const auto out = Interpreter(grad_of(graph, {"loss"}, {"logits"})).run(inputs);
  const double p = 1 / (1 + std::exp(-1.0));
  EXPECT_NEAR(double{out[0].tensor.to_floats()[0]}, (std::log(2.0) - std::log(p)) / 2, 1e-6);
  const std::vector<double> expected = {0.25, -0.25, (p - 1) / 2, (1 - p) / 2};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(double{out[1].tensor.to_floats()[i]}, expected[i], 1e-6);
}

TEST(Training, section12_WhatCannotBeTrainedIsNamed) {
  Graph graph;
  Builder b(graph);
  const Value w = b.input("w", Shape({1}, DType::f16)), x = b.input("x", Shape({1}, DType::f32));
  const Value loss = b(Mul{}, b(Cast{.to = DType::f32}, w), x);
  graph.set_outputs({{"loss", loss}});
  EXPECT_EQ(message([&] { training_step(graph, "loss", {"x", "w"}); }),
            "other: training step: \"w\": expected a parameter of f32, found f16[1]");
  graph.set_outputs({{"loss", loss}, {"next.token", x}});
  EXPECT_EQ(message([&] { training_step(graph, "loss", {"x"}); }),
            "other: training step: output \"next.token\": expected none whose name begins with \"next.\"");
  EXPECT_EQ(message([] { adamw_schedule({}, 0.1f, 0); }), "other: adamw: step: expected at least 1, found 0");
  EXPECT_EQ(message([] { adamw_schedule({.beta2 = 1.0f}, 0.1f, 1); }),
            "other: adamw: beta1 and beta2: expected values in [0, 1), found 1");
  TrainedValues trained = start_training({{"x", floats({1}, {2})}});
  std::vector<NamedTensor> foreign = {{"next.y", floats({1}, {0})}};
  EXPECT_EQ(message([&] { trained.advance(foreign); }), "other: training: output \"next.y\": expected \"next.x\"");
}

// Two steps of the paper's algorithm by hand, for one parameter with loss w^2 / 2.
TEST(Training, section12_AdamWFollowsThePaper) {
  Graph graph;
  Builder b(graph);
  const Value w = b.input("w", Shape({1}, DType::f32));
  graph.set_outputs({{"loss", b(Scale{.factor = 0.5f}, b(Mul{}, w, w))}});
  const AdamW op{.weight_decay = 0.1f};
  Interpreter step(training_step(graph, "loss", {"w"}, op));
  TrainedValues trained = start_training({{"w", floats({1}, {2})}});
  double value = 2, first = 0, second = 0;
  for (int t = 1; t <= 2; ++t) {
    std::vector<NamedTensor> inputs = trained.values;
    inputs.push_back({"adamw.schedule", adamw_schedule(op, 0.1f, t)});
    std::vector<NamedTensor> outputs = step.run(inputs);
    EXPECT_NEAR(double{outputs[0].tensor.to_floats()[0]}, value * value / 2, 1e-6);
    trained.advance(outputs);
    first = 0.9 * first + 0.1 * value;
    second = 0.999 * second + 0.001 * value * value;
    const double mean = first / (1 - std::pow(0.9, t)), spread = std::sqrt(second / (1 - std::pow(0.999, t)));
    value -= 0.1 * (mean / (spread + 1e-8) + 0.1 * value);
    EXPECT_NEAR(double{trained.values[0].tensor.to_floats()[0]}, value, 1e-5);
  }
}

}  // namespace
}  // namespace rlx
