// Recurrent kernels and models: the same bits however a sequence is cut, in both forms, for any
// number of threads; and a decoder that cannot cut a sequence back.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/materialize.h"
#include "runtime/decoder.h"
#include "runtime/generate.h"
#include "runtime/model_pipeline.h"

namespace rlx {
namespace {

constexpr std::int64_t kRows = 17;

const Sample& prompt_of(const OpDef& def, std::vector<Sample>& samples) {
  samples = def.samples();
  return *std::find_if(samples.begin(), samples.end(),
                       [](const Sample& s) { return s.name.find("prompt_17") == 0; });
}

std::size_t state_of(const Sample& s) {
  for (std::size_t i = 0; i < s.operands.size(); ++i)
    if (s.operands[i].fill == Fill::recurrent) return i;
  return 0;
}

bool is_rows(const SampleOperand& o) { return o.shape.rank() == 2 && o.shape.dim(0) == Dim(kRows); }

Tensor rows_of(const Tensor& t, std::int64_t first, std::int64_t n, bool batched) {
  const std::int64_t columns = t.dims()[1];
  const auto part = t.as<float>().subspan(static_cast<std::size_t>(first * columns),
                                          static_cast<std::size_t>(n * columns));
  return batched ? Tensor::from({1, n, columns}, part) : Tensor::from({n, columns}, part);
}

struct Result {
  std::vector<float> y, state;
  bool operator==(const Result&) const = default;
};

// A graph of the op over n rows; the state form, or the functional one.
std::shared_ptr<CompiledGraph> compile_rows(const OpDef& def, const Sample& s, std::int64_t n, bool functional) {
  Graph graph("rows");
  Builder b(graph);
  std::vector<Value> operands;
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const SampleOperand& o = s.operands[i];
    if (functional && i >= state_of(s)) break;
    const std::string name = fmt::format("x{}", i);
    if (o.fill == Fill::recurrent)
      operands.push_back(b.state(name, o.shape));
    else if (!is_rows(o))
      operands.push_back(b.input(name, o.shape));
    else
      operands.push_back(b.input(name, functional ? Shape({1, n, o.shape.dim(1)}, DType::f32)
                                                  : Shape({n, o.shape.dim(1)}, DType::f32)));
  }
  const Value y = graph.add(def, s.op, operands);
  std::vector<Output> outputs = {{"y", y}};
  if (functional) outputs.push_back({"state", b.result(y, 1)});
  graph.set_outputs(std::move(outputs));
  return Session(Device::cpu()).compile(std::move(graph));
}

Result run_chunks(const OpDef& def, const Sample& s, const std::vector<std::int64_t>& chunks) {
  const std::vector<Tensor> values = materialize(s, 11);
  const std::size_t at = state_of(s);
  Result result;
  std::shared_ptr<KvCache> states;
  std::int32_t past = 0;
  for (const std::int64_t n : chunks) {
    const auto graph = compile_rows(def, s, n, false);
    if (states == nullptr) states = graph->make_states(2, 64);
    std::vector<NamedTensor> inputs;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (i < at)
        inputs.push_back(
            {fmt::format("x{}", i), is_rows(s.operands[i]) ? rows_of(values[i], past, n, false) : values[i]});
    const std::int32_t starts[] = {0, static_cast<std::int32_t>(n)}, slot[] = {1};
    inputs.push_back({fmt::format("x{}", at + 1), Tensor::from({2}, std::span<const std::int32_t>(starts))});
    inputs.push_back({fmt::format("x{}", at + 2), Tensor::from({1}, std::span<const std::int32_t>(&past, 1))});
    inputs.push_back({fmt::format("x{}", at + 3), Tensor::from({1}, std::span<const std::int32_t>(slot))});
    const std::vector<float> y = graph->run(inputs, *states)[0].tensor.to_floats();
    result.y.insert(result.y.end(), y.begin(), y.end());
    past += static_cast<std::int32_t>(n);
  }
  const auto size = static_cast<std::size_t>(s.operands[at].shape.elements().evaluate({}));
  const auto* state = static_cast<const float*>(states->state(0));
  result.state.assign(state + size, state + 2 * size);  // slot 1
  return result;
}

Result run_functional(const OpDef& def, const Sample& s) {
  const std::vector<Tensor> values = materialize(s, 11);
  std::vector<NamedTensor> inputs;
  for (std::size_t i = 0; i < state_of(s); ++i)
    inputs.push_back({fmt::format("x{}", i), is_rows(s.operands[i]) ? rows_of(values[i], 0, kRows, true) : values[i]});
  const auto results = compile_rows(def, s, kRows, true)->run(inputs);
  return {results[0].tensor.to_floats(), results[1].tensor.to_floats()};
}

TEST(section12_RecurrentKernels, AnyChunkingAndBothFormsGiveTheSameBits) {
  for (const char* name : {"causal_conv1d", "selective_scan", "ssd_scan", "gated_delta"}) {
    const OpDef& def = *find_op(name);
    std::vector<Sample> samples;
    const Sample& s = prompt_of(def, samples);
    const Result whole = run_chunks(def, s, {kRows});
    EXPECT_EQ(run_chunks(def, s, {5, 4, 8}), whole) << name;
    EXPECT_EQ(run_chunks(def, s, std::vector<std::int64_t>(kRows, 1)), whole) << name;
    EXPECT_EQ(run_functional(def, s), whole) << name;
  }
}

Decoder decoder_of(const std::string& model, int threads, std::int64_t chunk, const char* device = "cpu") {
  DecoderOptions o;
  o.device = Device::parse(device);
  o.threads = threads;
  o.chunk = chunk;
  o.context = 128;
  o.sequences = 2;
  return Decoder(load_model(std::filesystem::path(RLX_TEST_DIR) / "goldens/models" / model), o);
}

std::vector<std::int32_t> tokens(int n) {
  std::vector<std::int32_t> list;
  for (int i = 0; i < n; ++i) list.push_back((i * 37 + 11) % 160);
  return list;
}

std::vector<float> logits(Decoder& d, const std::vector<std::int32_t>& ids) {
  const std::span<const float> all = d.step(ids, Decoder::Want::all);
  return {all.begin(), all.end()};
}

TEST(section12_RecurrentModels, BitsDependNeitherOnThreadsNorOnChunks) {
  for (const char* model : {"mamba", "mamba2"}) {
    Decoder whole = decoder_of(model, 1, 64);
    const std::vector<float> expected = logits(whole, tokens(37));
    for (const auto& [threads, chunk] : {std::pair(2, 64), {1, 5}, {2, 1}}) {
      Decoder other = decoder_of(model, threads, chunk);
      EXPECT_EQ(logits(other, tokens(37)), expected) << model << " " << threads << " threads, chunks of " << chunk;
    }
  }
}

TEST(section12_RecurrentModels, SequencesOfAStepAreApart) {
  Decoder d = decoder_of("mamba2", 2, 64);
  const std::vector<std::int32_t> a = tokens(9), b = {5, 4, 3}, next = {1};
  const std::vector<float> alone = logits(d, a);
  d.truncate(0);
  const Decoder::Part parts[] = {{1, b, Decoder::Want::none}, {0, a, Decoder::Want::all}};
  const std::span<const float> both = d.step(parts);
  EXPECT_EQ(std::vector<float>(both.begin(), both.end()), alone);
  // Sequence 1 goes on from its own state.
  const Decoder::Part more[] = {{1, next, Decoder::Want::all}};
  const std::span<const float> after = d.step(more);
  const std::vector<float> got(after.begin(), after.end());
  Decoder fresh = decoder_of("mamba2", 1, 64);
  const std::vector<float> expected = logits(fresh, {5, 4, 3, 1});
  EXPECT_TRUE(std::equal(got.begin(), got.end(), expected.end() - static_cast<std::ptrdiff_t>(got.size())));
}

TEST(section12_RecurrentModels, ACutSequenceStartsAgain) {
  Decoder d = decoder_of("mamba2", 1, 64);
  const std::vector<float> first = logits(d, tokens(9));
  EXPECT_EQ(d.truncate(9), 9) << "nothing is cut";
  EXPECT_EQ(d.truncate(4), 0) << "the state of token 4 is gone";
  EXPECT_EQ(d.past(), 0);
  EXPECT_EQ(logits(d, tokens(9)), first);
}

TEST(section12_RecurrentModels, TheReferenceDeviceAgrees) {
  Decoder cpu = decoder_of("mamba2", 2, 64), reference = decoder_of("mamba2", 1, 64, "reference");
  const std::vector<float> got = logits(cpu, tokens(12)), expected = logits(reference, tokens(12));
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 2e-4 * std::max(1.0, std::abs(double{expected[i]})));
}

}  // namespace
}  // namespace rlx
