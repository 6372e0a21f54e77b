// Runs the built program: what it wrote, and how it ended.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace rlx::cli {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;  ///< exit code; -N when signal N ended the program
  std::string out, err;
};

/// A folder of this test's own, removed at the end.
class Scratch {
 public:
  Scratch() {
    char name[] = "/tmp/rlx-cli-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Scratch() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

inline std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string program() { return RLX_BINARY_DIR "/rlx"; }

/// `words`: the program first. `settings`: words for env(1) on top of this environment, NAME=VALUE or -u NAME.
inline Outcome run_words(std::vector<std::string> words, const std::string& input = "",
                         const std::vector<std::string>& settings = {}) {
  const Scratch scratch;
  const std::string in = scratch.file("in", input), out = scratch.file("out", ""),
                    err = scratch.file("err", "");
  std::vector<std::string> prefixed = {"/usr/bin/env"};
  prefixed.insert(prefixed.end(), settings.begin(), settings.end());
  prefixed.insert(prefixed.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& w : prefixed) argv.push_back(w.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_TRUNC, 0600);
  pid_t pid = 0;
  Outcome result;
  if (posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0) {
    int status = 0;
    waitpid(pid, &status, 0);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  posix_spawn_file_actions_destroy(&actions);
  result.out = content(out);
  result.err = content(err);
  return result;
}

inline Outcome rlx(std::vector<std::string> arguments, const std::string& input = "",
                   const std::vector<std::string>& settings = {}) {
  arguments.insert(arguments.begin(), program());
  return run_words(std::move(arguments), input, settings);
}

inline std::string golden_model(const std::string& name) {
  return std::string(RLX_TEST_DIR "/goldens/models/") + name;
}

/// The last line of stderr: the complaint.
inline std::string last_line(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of('\n') + 1);
  return trimmed.substr(trimmed.rfind('\n') + 1);
}

}  // namespace rlx::cli
