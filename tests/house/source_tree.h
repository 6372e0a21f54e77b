// The files of this tree as the house tests see them: what git tracks, or every file where there is no git.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::house {

namespace fs = std::filesystem;

/// Standard output of a shell command; empty when it failed.
inline std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string out;
  std::array<char, 4096> block{};
  while (size_t n = fread(block.data(), 1, block.size(), pipe)) out.append(block.data(), n);
  return pclose(pipe) == 0 ? out : std::string{};
}

/// Paths relative to the root of the tree, sorted as git or the folder lists them.
inline std::vector<std::string> tree_files() {
  const fs::path root = RLX_SOURCE_DIR;
  std::vector<std::string> files;
  const std::string listed = output_of("git -C '" + root.string() + "' ls-files -z 2>/dev/null");
  for (size_t at = 0; at < listed.size();) {
    const size_t end = listed.find('\0', at);
    const std::string file = listed.substr(at, end - at);
    if (fs::is_regular_file(root / file)) files.push_back(file);
    at = end + 1;
  }
  if (!files.empty()) return files;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    const std::string file = it->path().lexically_relative(root).generic_string();
    if (file == "build" || file == ".git") it.disable_recursion_pending();
    if (it->is_regular_file()) files.push_back(file);
  }
  return files;
}

inline std::string read_file(const std::string& file) {
  std::ifstream in(fs::path(RLX_SOURCE_DIR) / file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool is_code(std::string_view file) {
  return file.ends_with(".h") || file.ends_with(".cpp") || file.ends_with(".hpp") || file.ends_with(".cu") ||
         file.ends_with(".cuh");
}

inline std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace rlx::house
