// Each tests/passes/*.rlx is a graph, the pass that it is for ("# pass: name", "# options:
// key=value ..."), and behind a line
// "# ---" the graph that the pass makes of it. Both graphs are also run by the interpreter and must
// agree; and every pipeline prefix must agree as well. RLX_UPDATE_TESTS=1 writes the expected text
// anew, after that comparison.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "backends/cpu/backend.h"
#include "backends/reference/backend.h"
#include "base/file.h"
#include "compiler/pipeline.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/source.h"
#include "ops/interpret.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string pass;
  CompileOptions options;
  bool reference_backend = false;
  std::string input, expected;
};

Case read_case(const fs::path& path) {
  const std::string text = read_file(path);
  Case c;
  const std::size_t cut = text.find("# ---\n");
  c.input = text.substr(0, cut);
  if (cut != std::string::npos) c.expected = text.substr(cut + 6);
  const auto value = [&](const std::string& key) {
    const std::size_t at = c.input.find("# " + key + ": ");
    if (at == std::string::npos) return std::string();
    const std::size_t from = at + key.size() + 4;
    return c.input.substr(from, c.input.find('\n', from) - from);
  };
  c.pass = value("pass");
  const std::string options = value("options");
  if (options.find("activations=int8") != std::string::npos)
    c.options.precision.activations = Activations::int8;
  if (options.find("activations=f32") != std::string::npos)
    c.options.precision.activations = Activations::f32;
  if (options.find("activations=bf16") != std::string::npos)
    c.options.precision.activations = Activations::bf16;
  if (options.find("dispatch=common") != std::string::npos)
    c.options.dispatch.policy = DispatchPolicy::force_common;
  c.reference_backend = options.find("backend=reference") != std::string::npos;
  return c;
}

const Backend& backend_of(const Case& c) {
  return c.reference_backend ? reference::backend() : cpu::backend();
}

constexpr std::int64_t kRows = 5, kOutRows = 2;

Tensor random_tensor(const Shape& s, std::mt19937& random) {
  std::vector<std::int64_t> dims;
  for (Dim d : s.dims()) dims.push_back(d.evaluate({}));
  Tensor t = Tensor::zeros(dims, s.dtype);
  std::normal_distribution<float> normal(0.0f, 0.5f);
  std::vector<float> row(dims.empty() ? 1 : static_cast<std::size_t>(dims.back()));
  const std::int64_t rows = row.empty() ? 0 : t.elements() / static_cast<std::int64_t>(row.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (float& v : row) v = normal(random);
    encoder(s.dtype)(row.data(), t.mutable_data() + r * row_bytes(s.dtype, dims.back()),
                     dims.back());
  }
  return t;
}

std::vector<std::int32_t> descriptor(std::string_view name, std::int64_t count) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(count), 0);
  if (name == "seq_start") v = {0, static_cast<std::int32_t>(kRows)};
  if (name == "positions")
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(i);
  if (name == "tokens")
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(i * 3 % 7);
  if (name == "out_rows") v = {1, 4};
  return v;
}

// The outputs of a graph on values that depend only on the names and shapes of its sources.
std::vector<std::vector<float>> outputs(const Graph& symbolic) {
  const Graph g =
      bind(symbolic, DimBinding{{sym::rows, kRows}, {sym::out_rows, kOutRows}, {sym::batch, 1}});
  std::vector<NamedTensor> values;
  for (const Node& n : g.nodes()) {
    if (!n.is<Input>() && !n.is<Param>()) continue;
    std::mt19937 random(static_cast<unsigned>(op_id(n.name)));
    if (n.results[0].dtype == DType::i32) {
      const auto v = descriptor(n.name, n.results[0].elements().evaluate({}));
      values.push_back({n.name, Tensor::from({static_cast<std::int64_t>(v.size())}, v)});
    } else {
      values.push_back({n.name, random_tensor(n.results[0], random)});
    }
  }
  InterpreterState state(1, 1);
  std::vector<std::vector<float>> out;
  for (const NamedTensor& t : Interpreter(g).run(values, state))
    out.push_back(t.tensor.to_floats());
  return out;
}

void expect_close(const std::vector<std::vector<float>>& a,
                  const std::vector<std::vector<float>>& b, double limit) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size());
    double error = 0, power = 1e-30;
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      error += std::pow(double(a[i][k]) - double(b[i][k]), 2);
      power += std::pow(double(a[i][k]), 2);
    }
    EXPECT_LE(error / power, limit) << "output " << i;
  }
}

class Passes : public testing::TestWithParam<std::string> {};

TEST_P(Passes, MakesTheExpectedGraphAndKeepsTheMeaning) {
  const fs::path path = fs::path(RLX_TEST_DIR) / "passes" / (GetParam() + ".rlx");
  const Case c = read_case(path);
  Graph graph = parse_graph(c.input, path.string());
  const auto before = outputs(graph);
  const std::string names[] = {c.pass};
  DispatchReport report;
  const auto runs = run_passes(graph, names, {c.options, backend_of(c), &report});
  // Precision is allowed to cost precision: int8 groups and half caches (kernels.md, 1.8).
  expect_close(before, outputs(graph),
               c.pass == "precision" || c.pass == "fuse_norm_quantize" ? 1e-3 : 1e-12);
  const std::string got = print(graph);
  if (std::getenv("RLX_UPDATE_TESTS") != nullptr)
    write_file_atomic(path, c.input + "# ---\n" + got);
  else
    EXPECT_EQ(got, c.expected);
  EXPECT_TRUE(runs[0].changed);
  // A second run finds nothing more to do.
  EXPECT_FALSE(run_passes(graph, names, {c.options, backend_of(c), &report})[0].changed)
      << print(graph);
}

TEST_P(Passes, ThePipelineWithAndWithoutEachPassKeepsTheMeaning) {
  const fs::path path = fs::path(RLX_TEST_DIR) / "passes" / (GetParam() + ".rlx");
  const Case c = read_case(path);
  const Graph graph = parse_graph(c.input, path.string());
  const auto before = outputs(graph);
  CompileOptions options;
  options.precision = {Activations::f32, DType::f32};
  expect_close(before, outputs(run_pipeline(graph, options, cpu::backend(), nullptr, nullptr)),
               1e-11);
  for (const Pass& pass : pipeline_passes()) {
    options.disabled_passes = {std::string(pass.name)};
    SCOPED_TRACE(std::string(pass.name));
    expect_close(before, outputs(run_pipeline(graph, options, cpu::backend(), nullptr, nullptr)),
                 1e-11);
  }
  options.fusion = false;
  expect_close(
      before, outputs(run_pipeline(graph, options, reference::backend(), nullptr, nullptr)), 1e-11);
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(fs::path(RLX_TEST_DIR) / "passes"))
    if (e.path().extension() == ".rlx") names.push_back(e.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, Passes, testing::ValuesIn(cases()),
                         [](const auto& i) { return i.param; });

TEST(PassNames, AnUnknownPassNamesTheNearest) {
  Graph g("g");
  const std::string names[] = {"fuse_linear_biass"};
  const CompileOptions options;
  try {
    run_passes(g, names, {options, cpu::backend(), nullptr});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "unknown pass \"fuse_linear_biass\": did you mean \"fuse_linear_bias\"?");
  }
}

TEST(PassNames, EveryPassHasItsTextTest) {
  std::string all;
  for (const std::string& name : cases())
    all += read_case(fs::path(RLX_TEST_DIR) / "passes" / (name + ".rlx")).pass + " ";
  for (const Pass& pass : pipeline_passes())
    EXPECT_NE(all.find(std::string(pass.name) + " "), std::string::npos) << pass.name;
}

}  // namespace
}  // namespace rlx
