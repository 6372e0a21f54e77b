// Objects compiled for an instruction set above the baseline define no symbol that the linker may pick for everybody:
// a weak definition (an inline function, a template) must carry the level's own namespace in its name.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "house/source_tree.h"

namespace rlx::house {
namespace {

/// The symbol in a line of `nm -C`, when the line defines a weak one; else empty.
std::string weak_symbol(const std::string& line) {
  std::istringstream words(line);
  std::string address, kind, name;
  words >> address >> kind;
  if (address.size() < 8 || (kind != "W" && kind != "V" && kind != "u")) return {};
  std::getline(words >> std::ws, name);
  // Pointers to the exception tables' personality: data, equal in all objects.
  return name.starts_with("DW.ref.") ? std::string{} : name;
}

bool belongs_to(const std::string& symbol, const std::string& level) {
  return symbol.find("::" + level + "::") != std::string::npos;
}

TEST(IsaObjects, DefineNothingForOthers) {
  if (std::string(RLX_TEST_SANITIZE) != "") GTEST_SKIP() << "sanitizers add symbols of their own";
  if (output_of("nm --version 2>/dev/null").empty()) GTEST_SKIP() << "nm is not installed";
  for (const auto& folder : fs::directory_iterator(fs::path(RLX_BINARY_DIR) / "CMakeFiles")) {
    const std::string name = folder.path().filename().string();
    const std::string prefix = "rlx_isa_", suffix = ".dir";
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    const std::string level = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    if (level == "baseline") continue;  // its code runs everywhere
    for (const auto& object : fs::recursive_directory_iterator(folder.path())) {
      if (object.path().extension() != ".o") continue;
      for (const std::string& line : lines_of(output_of("nm -C '" + object.path().string() + "'"))) {
        const std::string symbol = weak_symbol(line);
        EXPECT_TRUE(symbol.empty() || belongs_to(symbol, level)) << object.path() << ": " << symbol;
      }
    }
  }
}

TEST(IsaObjects, TheRuleItself) {
  EXPECT_EQ(weak_symbol("0000000000000000 W std::max(int, int)"), "std::max(int, int)");
  EXPECT_EQ(weak_symbol("0000000000000010 T rlx::cpu::avx2::gemm()"), "");
  EXPECT_EQ(weak_symbol("                 U memcpy"), "");
  EXPECT_EQ(weak_symbol("                 w __gmon_start__"), "");
  EXPECT_EQ(weak_symbol("0000000000000000 V DW.ref.__gxx_personality_v0"), "");
  EXPECT_TRUE(belongs_to("void rlx::cpu::avx512::tile<4>()", "avx512"));
  EXPECT_FALSE(belongs_to("void rlx::cpu::avx512_bf16::tile<4>()", "avx512"));
}

}  // namespace
}  // namespace rlx::house
