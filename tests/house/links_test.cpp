// Every relative link of a Markdown page leads to a file or a folder of this tree.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "house/source_tree.h"

namespace rlx::house {
namespace {

/// Targets of `[text](target)`, without anchors, and without those that leave the tree (https:, mailto:).
std::vector<std::string> relative_links(std::string_view text) {
  std::vector<std::string> links;
  for (size_t at = text.find("]("); at != std::string_view::npos; at = text.find("](", at + 2)) {
    const size_t end = text.find_first_of(")\n", at);
    if (end == std::string_view::npos || text[end] == '\n') continue;
    if (at > 1 && (text[at - 1] == '&' || text[at - 1] == '[')) continue;  // a lambda
    std::string_view link = text.substr(at + 2, end - at - 2);
    link = link.substr(0, link.find_first_of("# "));
    if (!link.empty() && link.find(':') == std::string_view::npos) links.emplace_back(link);
  }
  return links;
}

TEST(Links, LeadSomewhere) {
  for (const std::string& file : tree_files()) {
    if (!file.ends_with(".md")) continue;
    const fs::path folder = (fs::path(RLX_SOURCE_DIR) / file).parent_path();
    for (const std::string& link : relative_links(read_file(file))) {
      EXPECT_TRUE(fs::exists(folder / link)) << file << ": " << link;
    }
  }
}

TEST(Links, TheRuleItself) {
  const std::vector<std::string> expected = {"docs/a.md", "b.md"};
  EXPECT_EQ(relative_links("[a](docs/a.md) [w](https://x.org) [h](#top)\n[b](b.md#part) a[1](\n"), expected);
}

}  // namespace
}  // namespace rlx::house
