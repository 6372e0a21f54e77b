// Section 9: many processes, kills, foreign processors, full disks and folders that may not be used.
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <random>
#include <thread>

#include "runtime/aot_support.h"

namespace rlx {
namespace {

constexpr const char* kFolderVariable = "RLX_AOT_TEST_FOLDER";

// The answer without any cache.
const std::vector<float>& right_answer() {
  static const std::vector<float> values = [] {
    ModelCompilePipeline pipeline(Device::cpu());
    const AotFolder unused;
    return answer_in(unused.path()).values;
  }();
  return values;
}

TEST(section9_Folder, EightProcessesAtOnceOnAnEmptyFolder) {
  const AotFolder folder;
  const aot_fs::path cache = folder.path() / "made" / "by" / "them";
  const std::vector<float> expected = right_answer();
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const AotAnswer a = answer_in(cache);
      ::_exit(a.values == expected && a.warnings == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::size_t files = 0;
  for (const auto& e : aot_fs::directory_iterator(cache)) files += e.path().filename() != ".lock" ? 1 : 0;
  EXPECT_EQ(files, 2u);  // a variant and its weights
  const AotAnswer a = answer_in(cache);
  EXPECT_EQ(a.cache.hits, 2);
}

TEST(section9_Folder, AProcessThatIsKilledLeavesNothingThatMatters) {
  const AotFolder folder;
  const std::vector<float> expected = right_answer();
  std::mt19937 random(7);
  // How long a start takes here: kills are spread over all of it.
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(in_child([&] { return answer_in(folder.path()).values == expected ? 0 : 1; }), 0);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  int killed = 0;
  for (int i = 0; i < 200; ++i) {
    for (const aot_fs::path& f : folder.files(i % 2 == 0 ? ".rlxv" : ".rlxw")) aot_fs::remove(f);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(answer_in(folder.path()).values == expected ? 0 : 1);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(whole.count() + 1)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << i;
    ASSERT_LE(folder.temporary_files(), 1u);
    if (i % 4 != 0) continue;
    const AotAnswer a = answer_in(folder.path());
    ASSERT_EQ(a.values, expected) << i;
    ASSERT_EQ(a.warnings, 0) << a.warning;
    ASSERT_EQ(folder.temporary_files(), 0u);
  }
  EXPECT_GT(killed, 20);
}

// Run by the next test in a process of its own; by itself it starts from an empty folder.
TEST(section9_Folder, ServesAProcess) {
  const char* given = std::getenv(kFolderVariable);
  const AotFolder own;
  const AotAnswer a = answer_in(given != nullptr ? aot_fs::path(given) : own.path());
  ASSERT_EQ(a.values.size(), 3u * 16u);
  EXPECT_EQ(a.warnings, 0) << a.warning;
  EXPECT_EQ(a.cache.rebuilds, 0);
}

TEST(section9_Folder, ForeignProcessorFeaturesAreAnotherExecutable) {
  const AotFolder folder;
  answer_in(folder.path());
  const std::string program = aot_fs::read_symlink("/proc/self/exe").string();
  for (const char* isa : {"baseline", "avx2"}) {
    const int status = in_child([&] {
      ::setenv("RLX_ISA", isa, 1);
      ::setenv(kFolderVariable, folder.path().c_str(), 1);
      ::execl(program.c_str(), program.c_str(), "--gtest_filter=section9_Folder.ServesAProcess", nullptr);
      return 98;
    });
    EXPECT_EQ(status, 0) << isa;
  }
  // Each level has files of its own, and that of this process was not replaced.
  EXPECT_EQ(answer_in(folder.path()).cache.hits, 2);
}

TEST(section9_Folder, AReadOnlyFolderIsReadAndNotWritten) {
  const AotFolder folder;
  const std::vector<float> expected = right_answer();
  const auto as_nobody = [&] {
    // Root may write everywhere.
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 97;
    const AotAnswer a = answer_in(folder.path());
    if (a.values != expected) return 1;
    return a.warnings == 1 && a.warning.find("not kept for the next start") != std::string::npos ? 0 : 2;
  };
  ::chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(in_child(as_nobody), 0);
  EXPECT_TRUE(folder.files(".rlxv").empty());
  ::chmod(folder.path().c_str(), 0755);
  answer_in(folder.path());
  for (const char* kind : {".rlxv", ".rlxw"})
    for (const aot_fs::path& f : folder.files(kind)) ::chmod(f.c_str(), 0644);
  ::chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(in_child([&] {
              if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 97;
              const AotAnswer a = answer_in(folder.path());
              return a.values == expected && a.cache.hits == 2 && a.warnings == 0 ? 0 : 1;
            }),
            0);
}

TEST(section9_Folder, AFullDiskCostsAWarning) {
  const std::vector<float> expected = right_answer();
  for (const rlim_t bytes : {0, 100, 1500, 5000}) {
    const AotFolder folder;
    EXPECT_EQ(in_child([&] {
                const rlimit limit{bytes, bytes};
                if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 97;
                const AotAnswer a = answer_in(folder.path());
                return a.values == expected && a.warnings == 1 ? 0 : 1;
              }),
              0)
        << bytes;
    EXPECT_EQ(folder.temporary_files(), 0u);
    const AotAnswer a = answer_in(folder.path());
    EXPECT_EQ(a.values, expected);
    EXPECT_EQ(a.warnings, 0);
  }
}

TEST(section9_Folder, AFolderThatOthersMayWriteIsRefused) {
  const AotFolder folder;
  ::chmod(folder.path().c_str(), 0777);
  AotOptions options;
  options.folder = folder.path();
  try {
    AotCache cache(options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::io);
    EXPECT_EQ(std::string(e.what()), folder.path().string() +
                                         ": others may write this folder (mode 777), and programs are loaded from it; "
                                         "`chmod go-w` it");
  }
  const AotAnswer a = answer_in(folder.path());
  EXPECT_EQ(a.values, right_answer());
  EXPECT_EQ(a.warnings, 1);
  EXPECT_TRUE(aot_fs::is_empty(folder.path()));
  // Folders that the cache makes are the owner's.
  const AotFolder parent;
  answer_in(parent.path() / "a" / "b");
  struct stat st {};
  ASSERT_EQ(::stat((parent.path() / "a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
}

TEST(section9_Folder, TheFilesUsedLongestAgoGoFirst) {
  const AotFolder folder;
  AotOptions options;
  options.folder = folder.path();
  for (const std::int64_t bound : {4, 8, 16}) answer_with(options, bound);
  std::int64_t sum = 0;
  for (const char* kind : {".rlxv", ".rlxw"})
    for (const aot_fs::path& f : folder.files(kind)) sum += static_cast<std::int64_t>(aot_fs::file_size(f));
  EXPECT_EQ(answer_with(options, 4).cache.hits, 2);  // used again: 8 is the oldest now
  options.most_bytes = sum + 100;  // the name of a size may be longer
  answer_with(options, 32);
  options.most_bytes = AotOptions::kMostBytes;
  EXPECT_EQ(folder.files(".rlxv").size(), 3u);
  EXPECT_EQ(answer_with(options, 4).cache.hits, 2);
  EXPECT_EQ(answer_with(options, 16).cache.hits, 2);
  EXPECT_EQ(answer_with(options, 8).cache.misses, 1);
}

TEST(section9_Folder, TheDefaultFolderFollowsTheEnvironment) {
  EXPECT_EQ(in_child([] {
              ::setenv("XDG_CACHE_HOME", "/x", 1);
              ::setenv("HOME", "/h", 1);
              if (AotCache::default_folder() != "/x/rlx") return 2;
              ::setenv("XDG_CACHE_HOME", "relative", 1);  // not absolute: the standard says to ignore it
              return AotCache::default_folder() == "/h/.cache/rlx" ? 0 : 3;
            }),
            0);
}

}  // namespace
}  // namespace rlx
