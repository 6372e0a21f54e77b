// Includes point the way that architecture.md, section 1, allows.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "house/source_tree.h"

namespace rlx::house {
namespace {

using Folders = std::set<std::string>;

/// folder -> the folders that its files may include, itself among them.
std::map<std::string, Folders> make_allowed() {
  std::map<std::string, Folders> allowed;
  Folders left;
  for (const char* folder : {"base", "tensor", "ir", "ops", "device", "compiler", "runtime", "serve", "cli"}) {
    left.insert(folder);
    allowed[folder] = left;
  }
  allowed["backends"] = {"base", "tensor", "ir", "ops", "device", "backends"};
  allowed["formats"] = {"base", "tensor", "formats"};
  allowed["text"] = {"base", "tensor", "formats", "text"};
  allowed["flow"] = {"base", "tensor", "ir", "ops", "formats", "flow"};
  allowed["models"] = {"base", "tensor", "ir", "ops", "formats", "flow", "models"};
  for (const char* folder : {"runtime", "serve", "cli"}) {
    allowed[folder].insert({"formats", "text", "flow", "models"});
  }
  return allowed;
}

/// The path between the quotes of an #include line.
std::optional<std::string> quoted_include(const std::string& line) {
  const size_t hash = line.find_first_not_of(" \t");
  if (hash == std::string::npos || line[hash] != '#') return {};
  const size_t word = line.find_first_not_of(" \t", hash + 1);
  if (word == std::string::npos || line.compare(word, 7, "include") != 0) return {};
  const size_t open = line.find('"', word);
  const size_t close = open == std::string::npos ? open : line.find('"', open + 1);
  if (close == std::string::npos) return {};
  return line.substr(open + 1, close - open - 1);
}

std::string first_folder(const std::string& path) { return path.substr(0, path.find('/')); }

/// What is wrong with `file` (below src/) including `include`; empty when nothing is.
std::string fault_of(const std::string& file, const std::string& include) {
  static const std::map<std::string, Folders> allowed = make_allowed();
  const std::string from = first_folder(file);
  const std::string to = first_folder(include);
  if (include.find('/') == std::string::npos || include.find("..") != std::string::npos) {
    return "is not written from src/";
  }
  if (!allowed.contains(from)) return "stands in a folder that architecture.md does not know";
  if (file == "runtime/backends.cpp" && to == "backends") {
    return include.ends_with("/backend.h") ? "" : "may include only the backend.h of a backend";
  }
  if (!allowed.at(from).contains(to)) return "points against the arrow";
  return "";
}

TEST(Includes, FollowTheArrow) {
  int seen = 0;
  for (const std::string& file : tree_files()) {
    if (!is_code(file) || !file.starts_with("src/")) continue;
    for (const std::string& line : lines_of(read_file(file))) {
      const std::optional<std::string> include = quoted_include(line);
      if (!include) continue;
      ++seen;
      EXPECT_EQ(fault_of(file.substr(4), *include), "") << file << ": #include \"" << *include << '"';
    }
  }
  EXPECT_GT(seen, 0);
}

TEST(Includes, TheRuleItself) {
  EXPECT_EQ(fault_of("models/llama.cpp", "flow/flow.h"), "");
  EXPECT_EQ(fault_of("runtime/session.h", "text/sampler.h"), "");
  EXPECT_EQ(fault_of("runtime/backends.cpp", "backends/cpu/backend.h"), "");
  EXPECT_NE(fault_of("runtime/backends.cpp", "backends/cpu/gemm.h"), "");
  EXPECT_NE(fault_of("runtime/session.cpp", "backends/cpu/backend.h"), "");
  EXPECT_NE(fault_of("cli/main.cpp", "backends/cpu/backend.h"), "");
  EXPECT_NE(fault_of("flow/flow.h", "device/device.h"), "");
  EXPECT_NE(fault_of("formats/gguf.cpp", "ir/graph.h"), "");
  EXPECT_NE(fault_of("base/error.h", "tensor/dtype.h"), "");
  EXPECT_NE(fault_of("base/error.cpp", "error.h"), "");
  EXPECT_NE(fault_of("base/error.cpp", "../base/error.h"), "");
}

}  // namespace
}  // namespace rlx::house
