// Each tests/errors/*.rlx is a graph that is wrong, or is used wrongly: "# step:" lines say what is done with it, and
// behind "# ---" stands what the user reads, word by word. RLX_UPDATE_TESTS=1 writes that part anew.
//
//   # step: bind rows=4, batch=2       sizes evaluated
//   # step: require rows=4             the same, and no symbol may be left
//   # step: inputs x=2x64, n=8         symbols from concrete input shapes
//   # step: compile [common|native]    for the processor
//   # step: specialize rows=4          and placed
//   # step: run x=f32:4x64             a handle with zero params, run on zeros
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "rlx/rlx.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCut = "# ---\n";
// In the order of ErrorCode.
constexpr std::string_view kCodes[] = {"invalid_argument", "usage", "io",     "format", "unsupported",
                                       "shape",            "limit", "memory", "device"};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) {
    const std::size_t from = part.find_first_not_of(' ');
    if (from != std::string::npos) parts.push_back(part.substr(from));
  }
  return parts;
}

std::vector<std::int64_t> dims_of(const std::string& text) {
  std::vector<std::int64_t> dims;
  for (const std::string& d : split(text, 'x')) dims.push_back(std::stoll(d));
  return dims;
}

struct Pair {
  std::string name, value;
};
std::vector<Pair> pairs(const std::string& text) {
  std::vector<Pair> list;
  for (const std::string& p : split(text, ',')) {
    const std::size_t equals = p.find('=');
    list.push_back({p.substr(0, equals), p.substr(equals + 1)});
  }
  return list;
}

DimBinding binding_of(const std::string& text) {
  DimBinding binding;
  for (const Pair& p : pairs(text)) binding.set(Symbol::named(p.name), std::stoll(p.value));
  return binding;
}

// One step on the graph; what it throws is the case's error.
class Steps {
 public:
  explicit Steps(Graph graph) : graph_(std::move(graph)) {}

  void run(const std::string& step) {
    const std::size_t space = step.find(' ');
    const std::string verb = step.substr(0, space), rest = space == std::string::npos ? "" : step.substr(space + 1);
    if (verb == "bind") graph_ = bind(graph_, binding_of(rest));
    else if (verb == "require") require_bound(bind(graph_, binding_of(rest)));
    else if (verb == "inputs") infer_inputs(rest);
    else if (verb == "compile") compile_for(rest);
    else if (verb == "specialize") result_ = result_.specialize(binding_of(rest));
    else if (verb == "run") run_on(rest);
    else FAIL() << "unknown step " << step;
  }

 private:
  void infer_inputs(const std::string& text) {
    std::vector<NamedDims> inputs;
    for (const Pair& p : pairs(text)) inputs.push_back({p.name, dims_of(p.value)});
    infer_bindings(graph_, inputs);
  }

  void compile_for(const std::string& how) {
    CompileOptions options;
    if (how == "common") options.dispatch.policy = DispatchPolicy::force_common;
    if (how == "native") options.dispatch.policy = DispatchPolicy::force_native;
    result_ = compile(graph_, options, find_backend(Device::cpu()));
  }

  void run_on(const std::string& text) {
    Session session(Device::cpu());
    DimBinding upper;
    for (const Symbol s : collect_symbols(graph_)) upper.set(s, 8);
    const auto handle = session.compile(graph_, {}, upper);
    for (const BindingEntry& p : handle->manifest().params) {
      std::vector<std::int64_t> dims;
      for (const Dim d : p.shape.dims()) dims.push_back(*d.constant());
      handle->set_param(p.name, Tensor::zeros(dims, p.shape.dtype));
    }
    std::vector<NamedTensor> inputs;
    for (const Pair& p : pairs(text)) {
      const std::size_t colon = p.value.find(':');
      inputs.push_back({p.name, Tensor::zeros(dims_of(p.value.substr(colon + 1)),
                                              *dtype_from_name(p.value.substr(0, colon)))});
    }
    handle->run(inputs);
  }

  Graph graph_;
  CompileResult result_;
};

std::string outcome(const std::string& text, const std::string& origin) {
  try {
    Steps steps(parse_graph(text, origin));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (line.rfind("# step: ", 0) == 0) steps.run(line.substr(8));
  } catch (const Error& e) {
    return fmt::format("# {}: {}\n", kCodes[static_cast<std::size_t>(e.code())], e.what());
  }
  return "# no error\n";
}

TEST(section1_errors, MessagesWordByWord) {
  const bool update = std::getenv("RLX_UPDATE_TESTS") != nullptr;
  int count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(RLX_TEST_DIR) / "errors")) {
    if (entry.path().extension() != ".rlx") continue;
    ++count;
    const std::string text = read_file(entry.path());
    const std::size_t cut = text.find(kCut);
    const std::string graph = text.substr(0, cut);
    const std::string found = outcome(graph, entry.path().filename().string());
    if (update)
      write_file_atomic(entry.path(), graph + std::string(kCut) + found);
    else if (cut == std::string::npos)
      ADD_FAILURE() << entry.path() << " expects nothing";
    else
      EXPECT_EQ(text.substr(cut + kCut.size()), found) << entry.path();
    EXPECT_NE(found, "# no error\n") << entry.path();
  }
  EXPECT_GE(count, 40);
}

}  // namespace
}  // namespace rlx
