// The interpreter: composite ops equal their bodies, chunks of a prompt equal the whole, and inputs
// are checked.
#include <algorithm>
#include <numeric>

#include "ir/sample.h"
#include "ops/block.h"
#include "ops/elementwise.h"
#include "ops/materialize.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "ops/quant.h"
#include "ops/support.h"

namespace rlx {
namespace {

// The op's sample written out with the nodes of its body.
Graph body_graph(const OpDef& def, const Sample& sample) {
  Graph graph("body");
  Builder b(graph);
  std::vector<Value> operands;
  for (const SampleOperand& o : sample.operands) {
    const std::size_t i = operands.size();
    const std::string source = i < def.operands.size() ? std::string(def.operands[i]) : fmt::format("operand{}", i);
    operands.push_back(o.shape.is_state() ? b.state(source, o.shape) : b.input(source, o.shape));
  }
  Body body(b, operands);
  def.decompose(sample.op, body);
  std::vector<Output> outputs;
  for (const Value v : body.results()) outputs.push_back({fmt::format("y{}", outputs.size()), v});
  graph.set_outputs(std::move(outputs));
  return graph;
}

TEST(Interpreter, BodiesGiveTheShapesThatInferencePromises) {
  for (const OpDef& def : all_ops()) {
    if (def.decompose == nullptr) continue;
    for (const Sample& s : def.samples()) {
      const Graph whole = sample_graph(def, s), body = body_graph(def, s);
      ASSERT_EQ(whole.outputs().size(), body.outputs().size()) << def.name;
      for (std::size_t i = 0; i < whole.outputs().size(); ++i)
        EXPECT_EQ(whole.shape(whole.outputs()[i].value).text(),
                  body.shape(body.outputs()[i].value).text())
            << def.name << " " << s.name;
    }
  }
}

TEST(Interpreter, CompositeOpsEqualTheirBodies) {
  for (const char* name : {"gated_linear", "rms_norm_quantize", "gated_mlp", "lm_head"}) {
    const OpDef& def = *find_op(name);
    for (const Sample& s : def.samples()) {
      const std::vector<Tensor> values = materialize(s, 5), whole = run_sample(def, s, values);
      std::vector<NamedTensor> named;
      for (std::size_t i = 0; i < values.size(); ++i)
        named.push_back({std::string(def.operands[i]), values[i]});
      const auto body = Interpreter(body_graph(def, s)).run(named);
      ASSERT_EQ(body.size(), whole.size());
      EXPECT_TRUE(std::equal(whole[0].data(), whole[0].data() + whole[0].byte_size(),
                             body[0].tensor.data()))
          << name << " " << s.name;
    }
  }
}

// Runs a graph with the operands of a sample; the cache after the run, decoded, comes last.
std::vector<Tensor> run_with_cache(Graph graph, const OpDef& def, const Sample& s,
                                   const std::vector<Tensor>& values) {
  InterpreterState state(1, 1);
  std::vector<NamedTensor> named;
  std::size_t cache = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (s.operands[i].fill == Fill::kv) {
      cache = i;
    } else if (s.operands[i].fill == Fill::pages) {
      state = InterpreterState(values[i].dims()[0], values[i].dims()[1]);
      state.set_page_table(values[i].as<std::int32_t>());
    } else {
      named.push_back({std::string(def.operands[i]), values[i]});
    }
  }
  const SampleOperand& kv = s.operands[cache];
  const std::string name(def.operands[cache]);
  state.import_cache(name, kv.shape, kv.ints, values[cache]);
  std::vector<Tensor> results;
  for (NamedTensor& t : Interpreter(std::move(graph)).run(named, state))
    results.push_back(std::move(t.tensor));
  results.push_back(state.export_cache(name));
  return results;
}

TEST(Interpreter, CompositeOpsWithStatesEqualTheirBodies) {
  for (const char* name : {"rope_append", "self_attention"}) {
    const OpDef& def = *find_op(name);
    for (const Sample& s : def.samples()) {
      const std::vector<Tensor> values = materialize(s, 5), whole = run_sample(def, s, values);
      const std::vector<Tensor> body = run_with_cache(body_graph(def, s), def, s, values);
      ASSERT_EQ(whole.size(), 2u);
      ASSERT_EQ(body.size(), 2u);
      EXPECT_EQ(body[0].to_floats(), whole[0].to_floats()) << name << " " << s.name;
      EXPECT_EQ(body[1].to_floats(), whole[1].to_floats()) << name << " " << s.name;
    }
  }
}

TEST(Interpreter, AppendLeavesCachedTokensAndOtherSlots) {
  const OpDef& def = *find_op("kv_append");
  for (const Sample& s : def.samples()) {
    const SampleOperand& cache = s.operands[0];
    if (cache.shape.dtype != DType::f32) continue;
    const std::vector<Tensor> values = materialize(s, 6), results = run_sample(def, s, values);
    const std::vector<float> after = results[0].to_floats(), before = values[0].to_floats();
    const std::int64_t width = results[0].dims()[3] * results[0].dims()[4],
                       capacity = results[0].dims()[2];
    std::size_t at = 0;
    for (std::size_t slot = 0; slot < cache.ints.size(); ++slot)
      for (std::int64_t i = 0; i < cache.ints[slot] * width; ++i, ++at)
        ASSERT_EQ(
            after[slot * static_cast<std::size_t>(capacity * width) + static_cast<std::size_t>(i)],
            before[at])
            << s.name;
    const std::size_t written = static_cast<std::size_t>(
        std::count_if(after.begin(), after.end(), [](float v) { return v != 0.0f; }));
    EXPECT_EQ(written, before.size() + 2 * values[1].to_floats().size()) << s.name;
  }
}

// A prompt of one sequence through SelfAttention in chunks of the given sizes: rows of the result.
std::vector<float> run_chunks(const std::vector<std::int64_t>& chunks, const SelfAttention& op,
                              std::uint64_t seed) {
  constexpr std::int64_t kHidden = 48, kHeads = 4, kKvHeads = 2, kDim = 16;
  const auto random = [&](std::vector<std::int64_t> dims, std::uint64_t which) {
    std::vector<Dim> sizes(dims.begin(), dims.end());
    Sample s{"", {}, {{Shape(std::span<const Dim>(sizes), DType::f32), Fill::normal, 0.3f, {}}}, 1};
    return materialize(s, seed * 100 + which)[0];
  };
  const std::int64_t total = std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0});
  const Tensor x = random({total, kHidden}, 0);
  const std::vector<NamedTensor> weights = {
      {"wq", random({kHeads * kDim, kHidden}, 1)},
      {"wk", random({kKvHeads * kDim, kHidden}, 2)},
      {"wv", random({kKvHeads * kDim, kHidden}, 3)},
      {"wo", random({kHidden, kHeads * kDim}, 4)},
      {"q_norm", random({kDim}, 5)},
      {"k_norm", random({kDim}, 6)},
      {"inv_freq", f32({8}, {1, 0.3f, 0.1f, 0.03f, 0.01f, 0.003f, 0.001f, 0.0003f})}};
  InterpreterState state(1, 2);
  std::vector<float> rows;
  std::int32_t past = 0;
  for (const std::int64_t n : chunks) {
    Graph graph;
    Builder b(graph);
    std::vector<Value> v = {b.input("x", Shape({n, kHidden}, DType::f32)),
                            b.state("cache", Shape::kv_state(kKvHeads, kDim, DType::f32)),
                            b.input("seq_start", Shape({2}, DType::i32)),
                            b.input("past", Shape({1}, DType::i32)),
                            b.input("slot", Shape({1}, DType::i32)),
                            b.state("pages", Shape::page_table()),
                            b.input("positions", Shape({n}, DType::i32)),
                            b.param("inv_freq", Shape({8}, DType::f32))};
    for (const char* w : {"wq", "wk", "wv", "wo", "q_norm", "k_norm"})
      for (const NamedTensor& t : weights)
        if (t.name == w) v.push_back(b.param(w, t.tensor.shape()));
    graph.set_outputs({{"y", b.emit(op, v)}});
    std::vector<std::int32_t> positions(static_cast<std::size_t>(n));
    std::iota(positions.begin(), positions.end(), past);
    const auto part = x.as<float>().subspan(static_cast<std::size_t>(past * kHidden),
                                            static_cast<std::size_t>(n * kHidden));
    const std::vector<NamedTensor> inputs = {{"x", Tensor::from({n, kHidden}, part)},
                                             {"seq_start", i32({0, static_cast<std::int32_t>(n)})},
                                             {"past", i32({past})},
                                             {"slot", i32({0})},
                                             {"positions", i32(positions)}};
    const std::vector<float> y =
        Interpreter(std::move(graph), weights).run(inputs, state)[0].tensor.to_floats();
    rows.insert(rows.end(), y.begin(), y.end());
    past += static_cast<std::int32_t>(n);
  }
  return rows;
}

TEST(Interpreter, ChunksOfAPromptEqualTheWhole) {
  const SelfAttention base{
      .heads = 4, .head_dim = 16, .rotary_dim = 16, .scale = 0.25f, .qk_norm = true};
  SelfAttention windowed = base, capped = base;
  windowed.window = 5;
  capped.softcap = 0.7f;
  for (const SelfAttention& op : {base, windowed, capped}) {
    const std::vector<float> whole = run_chunks({70}, op, 1);
    EXPECT_EQ(run_chunks({40, 30}, op, 1), whole);  // not only near: the oracle does the same sums
    EXPECT_EQ(run_chunks(std::vector<std::int64_t>(70, 1), op, 1), whole);
  }
}

TEST(Interpreter, KeepsIntermediateOutputsAndUnusedInputs) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape({2}, DType::f32)),
              unused = b.input("unused", Shape({1}, DType::f32));
  const Value twice = b(Add{}, x, x), four = b(Mul{}, twice, twice);
  graph.set_outputs(
      {{"four", four}, {"twice", twice}, {"x", x}, {"again", twice}, {"unused", unused}});
  const std::vector<NamedTensor> inputs = {{"unused", f32({1}, {9})}, {"x", f32({2}, {1, 2})}};
  const auto y = Interpreter(std::move(graph)).run(inputs);
  ASSERT_EQ(y.size(), 5u);
  expect_near(y[0].tensor, {4, 16});
  expect_near(y[1].tensor, {2, 4});
  expect_near(y[2].tensor, {1, 2});
  expect_near(y[3].tensor, {2, 4});
  expect_near(y[4].tensor, {9});
}

std::string run_error(const std::vector<NamedTensor>& inputs) {
  Graph graph("toy");
  Builder b(graph);
  const Value x = b.input("x", Shape({2, 3}, DType::f32)),
              w = b.param("w", Shape({4, 3}, DType::f32));
  graph.set_outputs({{"y", b(Linear{}, x, w)}});
  try {
    Interpreter(std::move(graph), {{"w", Tensor::zeros({4, 3})}}).run(inputs);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Interpreter, InputsAreChecked) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_EQ(run_error({{"x", x}}), "no error");
  EXPECT_EQ(run_error({}), "toy: input \"x\" is missing: expected f32[2, 3]");
  EXPECT_EQ(run_error({{"x", Tensor::zeros({3, 2})}}),
            "input \"x\": expected f32[2, 3], found f32[3, 2]");
  EXPECT_EQ(run_error({{"x", Tensor::zeros({2, 3}, DType::f16)}}),
            "input \"x\": expected f32[2, 3], found f16[2, 3]");
  EXPECT_EQ(run_error({{"x", x}, {"z", x}}), "toy: no input or param is named \"z\"");
  EXPECT_EQ(run_error({{"x", x}, {"x", x}}), "toy: \"x\" is given twice");
  EXPECT_EQ(run_error({{"x", x}, {"w", Tensor::zeros({4, 3})}}), "toy: \"w\" is given twice");
}

TEST(Interpreter, SymbolsMustBeBound) {
  Graph graph;
  Builder b(graph);
  graph.set_outputs({{"y", b(Scale{2}, b.input("x", Shape({sym::rows}, DType::f32)))}});
  EXPECT_THROW(Interpreter{graph}, Error);
}

TEST(InterpreterState, PagesAndCachesAreChecked) {
  InterpreterState state(2, 3);
  EXPECT_THROW(InterpreterState(0, 1), Error);
  EXPECT_THROW(state.set_page_table(std::vector<std::int32_t>{0, 1}), Error);
  EXPECT_THROW(state.set_page_table(std::vector<std::int32_t>{0, 1, 2, 3, 4, 6}), Error);
  state.pool("cache", Shape::kv_state(1, 4, DType::f32));
  EXPECT_THROW(state.pool("cache", Shape::kv_state(2, 4, DType::f32)), Error);
  EXPECT_THROW(state.export_cache("other"), Error);
}

TEST(InterpreterState, ContentSurvivesAPermutedTable) {
  InterpreterState state(2, 2);
  state.set_page_table(std::vector<std::int32_t>{3, 0, -1, 1});
  const Shape shape = Shape::kv_state(1, 2, DType::f32);
  std::vector<float> content(2 * 70 * 2);
  std::iota(content.begin(), content.end(), 1.0f);
  state.import_cache("cache", shape, std::vector<std::int32_t>{70, 0}, f32({2, 70, 1, 2}, content));
  const std::vector<float> all = state.export_cache("cache").to_floats();
  EXPECT_EQ(all[69 * 2], content[69 * 2]);
  EXPECT_EQ(all[70 * 2], 0);
  EXPECT_EQ(all[2 * 128 * 2], content[70 * 2]);  // the values follow the keys of both slots
  EXPECT_THROW(state.import_cache("cache", shape, std::vector<std::int32_t>{0, 1},
                                  f32({2, 1, 1, 2}, {1, 2, 3, 4})),
               Error);
}

TEST(TensorTest, SizesAreChecked) {
  EXPECT_THROW(Tensor::zeros({-1}), Error);
  EXPECT_THROW(Tensor::zeros({1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW(Tensor::zeros({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW(Tensor::zeros({3, 33}, DType::q4_0), Error);
  EXPECT_THROW(f32({2}, {1, 2, 3}), Error);
  const std::vector<std::byte> bytes(36);
  EXPECT_EQ(Tensor::borrow({2, 32}, DType::q4_0, bytes).to_floats(), std::vector<float>(64, 0.0f));
  EXPECT_THROW(Tensor::borrow({1, 32}, DType::q4_0, bytes), Error);
  EXPECT_THROW(Tensor::borrow({2, 32}, DType::q4_0, bytes).mutable_data(), InternalError);
  EXPECT_EQ(Tensor::zeros({0, std::int64_t{1} << 62, 8}).elements(), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor::zeros({5}).data()) % 64, 0u);
}

}  // namespace
}  // namespace rlx
