// The program can be copied to another machine: it asks for the C library alone, and is below 64 MiB.
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "house/source_tree.h"

namespace rlx::house {
namespace {

/// Name without version: "libm" of "libm.so.6 => /lib/... (0x...)".
std::string library_name(const std::string& ldd_line) {
  std::istringstream words(ldd_line);
  std::string path;
  words >> path;
  const std::string file = path.substr(path.rfind('/') + 1);
  return file.substr(0, file.find(".so"));
}

TEST(Program, NeedsOnlyTheCLibrary) {
  if (std::string(RLX_TEST_SANITIZE) != "") GTEST_SKIP() << "sanitizers link libraries of their own";
  const fs::path program = fs::path(RLX_BINARY_DIR) / "rlx";
  if (!fs::exists(program)) GTEST_SKIP() << program << " was not built";
  const std::string listed = output_of("ldd '" + program.string() + "'");
  ASSERT_NE(listed.find("libc.so"), std::string::npos) << listed;
  const std::set<std::string> allowed = {"linux-vdso", "ld-linux-x86-64", "ld-linux-aarch64", "libc",
                                         "libm",       "libdl",           "libpthread",       "librt"};
  for (const std::string& line : lines_of(listed)) EXPECT_TRUE(allowed.contains(library_name(line))) << line;
  EXPECT_LT(fs::file_size(program), 64u << 20);
}

TEST(Program, TheRuleItself) {
  EXPECT_EQ(library_name("\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)"), "libm");
  EXPECT_EQ(library_name("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"), "ld-linux-x86-64");
  EXPECT_EQ(library_name("\tlibstdc++.so.6 => /lib/x86_64-linux-gnu/libstdc++.so.6 (0x00007f)"), "libstdc++");
}

}  // namespace
}  // namespace rlx::house
