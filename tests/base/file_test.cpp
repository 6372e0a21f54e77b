// Writing files: all or nothing, and never in the place of something else.
#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

class WriteFile : public ::testing::Test {
 protected:
  WriteFile() {
    char name[] = "/tmp/rlx-file-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~WriteFile() override { fs::remove_all(folder_); }
  static std::string content(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path folder_;
};

TEST_F(WriteFile, ReplacesTheContentAndLeavesNothingBeside) {
  write_file_atomic(folder_ / "a", "one");
  write_file_atomic(folder_ / "a", "two");
  EXPECT_EQ(content(folder_ / "a"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(WriteFile, KeepsALinkAndReplacesWhatItPointsAt) {
  write_file_atomic(folder_ / "target", "one");
  fs::create_symlink("target", folder_ / "link");
  write_file_atomic(folder_ / "link", "two");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content(folder_ / "target"), "two");
}

TEST_F(WriteFile, WritesToAFifoAndDoesNotReplaceIt) {
  const fs::path fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = content(fifo); });
  write_file_atomic(fifo, "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST_F(WriteFile, AFullDeviceAndAFolderAreErrors) {
  EXPECT_THROW(write_file_atomic("/dev/full", "x"), Error);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_THROW(write_file_atomic(folder_, "x"), Error);
}

}  // namespace
}  // namespace rlx
