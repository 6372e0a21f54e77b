// Limits of architecture.md, section 1: 500 lines a file (800 hard), 80 lines a function (120 hard), 6 parameters; and
// of what git holds. The soft limits are printed, the hard ones fail.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "house/function_scan.h"
#include "house/source_tree.h"

namespace rlx::house {
namespace {

bool is_test(const std::string& file) { return file.starts_with("tests/"); }

TEST(Sizes, FilesAndFunctionsAreShort) {
  int functions = 0;
  for (const std::string& file : tree_files()) {
    if (!is_code(file)) continue;
    const std::string text = read_file(file);
    const size_t lines = lines_of(text).size();
    EXPECT_LE(lines, 800u) << file;
    if (lines > 500 && !is_test(file)) std::cout << "above 500 lines: " << file << " (" << lines << ")\n";
    for (const FunctionSpan& f : scan_functions(text)) {
      ++functions;
      const std::string place = file + ":" + std::to_string(f.first_line);
      EXPECT_LE(f.lines, 120) << place;
      EXPECT_LE(f.parameters, 6) << place;
      if (f.lines > 80 && !is_test(file)) std::cout << "above 80 lines: " << place << " (" << f.lines << ")\n";
    }
  }
  EXPECT_GT(functions, 0);
}

TEST(Sizes, LinesFitTheScreen) {
  for (const std::string& file : tree_files()) {
    if (!is_code(file)) continue;
    int number = 0;
    for (const std::string& line : lines_of(read_file(file))) {
      ++number;
      EXPECT_LE(line.size(), 120u) << file << ':' << number;
    }
  }
}

TEST(Sizes, GitHoldsNoLargeFiles) {
  constexpr std::uintmax_t kMiB = 1u << 20;
  std::uintmax_t tests = 0;
  for (const std::string& file : tree_files()) {
    const std::uintmax_t size = fs::file_size(fs::path(RLX_SOURCE_DIR) / file);
    EXPECT_LE(size, (file.starts_with("tests/goldens/") ? 4 : 1) * kMiB) << file;
    if (is_test(file)) tests += size;
  }
  EXPECT_LE(tests, 40 * kMiB) << "all of tests/";
}

TEST(FunctionScan, MeasuresFromHeadToBrace) {
  const auto found = scan_functions(
      "namespace a {\n"
      "int f(int x,\n"
      "      std::map<int, int> y) noexcept {\n"
      "  if (x) { return 1; }\n"
      "  return 0;\n"
      "}\n"
      "struct S { S() : v{0} {} int v; auto g() const -> int { return v; } };\n"
      "}\n");
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[0].first_line, 2);
  EXPECT_EQ(found[0].lines, 5);
  EXPECT_EQ(found[0].parameters, 2);
  EXPECT_EQ(found.back().parameters, 0);
}

TEST(FunctionScan, BracesInTextDoNotCount) {
  const auto found = scan_functions(
      "#if A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n"
      "  g(\"}\", '}', R\"x(}\")x\", 1'000);  // }\n"
      "  /* } */\n}\n");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].lines, 7);
}

TEST(FunctionScan, ControlFlowAndValuesAreNoFunctions) {
  EXPECT_TRUE(scan_functions("namespace x { struct Y { int z[2] = {1, 2}; }; enum class E { a, b }; }").empty());
}

}  // namespace
}  // namespace rlx::house
