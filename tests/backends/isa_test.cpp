// Which level of kernels is chosen, the order of the list, and what is known of the machine.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "backends/kernel_run.h"
#include "base/error.h"

namespace rlx::cpu {
namespace {

namespace fs = std::filesystem;

CpuFeatures with(bool avx2, bool avx512, bool bf16, bool amx) {
  CpuFeatures f;
  f.avx2 = avx2;
  f.avx512 = avx512;
  f.avx512_bf16 = bf16;
  f.amx = amx;
  f.model = "Test CPU";
  return f;
}

TEST(ChooseIsa, TheMachinesLevelUnlessALowerOneIsForced) {
  const CpuFeatures all = with(true, true, true, true), old = with(true, false, false, false);
  EXPECT_EQ(choose_isa(all, nullptr), Isa::amx);
  EXPECT_EQ(choose_isa(all, ""), Isa::amx);
  EXPECT_EQ(choose_isa(all, "avx512"), Isa::avx512_bf16) << "allows bf16 too, not amx";
  EXPECT_EQ(choose_isa(with(true, true, false, false), "avx512"), Isa::avx512);
  EXPECT_EQ(choose_isa(all, "avx2"), Isa::avx2);
  EXPECT_EQ(choose_isa(all, "baseline"), Isa::baseline);
  EXPECT_EQ(choose_isa(old, nullptr), Isa::avx2);
  EXPECT_EQ(choose_isa(CpuFeatures{}, nullptr), Isa::baseline);
}

TEST(ChooseIsa, ErrorsNameTheValueAndTheChoices) {
  const auto error = [](const CpuFeatures& f, const char* value) {
    try {
      choose_isa(f, value);
    } catch (const Error& e) {
      return std::pair{e.code(), std::string(e.what())};
    }
    return std::pair{ErrorCode::io, std::string("no error")};
  };
  EXPECT_EQ(error(with(true, false, false, false), "sse9"),
            (std::pair{ErrorCode::invalid_argument,
                std::string("RLX_ISA: expected baseline, avx2, avx512 or amx, found \"sse9\"")}));
  EXPECT_EQ(error(with(true, false, false, false), "avx512"),
            (std::pair{ErrorCode::device, std::string("RLX_ISA=avx512: this processor (Test CPU) "
                                                     "does not have that level")}));
}

TEST(CpuKernels, BestLevelFirstAndNamesAreUnique) {
  std::set<std::string_view> names;
  Isa last = Isa::amx;
  for (const Kernel& k : cpu_kernels()) {
    EXPECT_LE(k.isa, last) << k.name;
    last = k.isa;
    EXPECT_TRUE(names.insert(k.name).second) << k.name;
    EXPECT_NE(k.run, nullptr) << k.name;
  }
}

TEST(CpuKernels, EveryOpHasABaselineRow) {
  std::set<std::string_view> any, baseline;
  for (const Kernel& k : cpu_kernels()) {
    any.insert(k.op);
    if (k.isa == Isa::baseline) baseline.insert(k.op);
  }
  EXPECT_EQ(any, baseline);
}

// A folder with the files of /proc and /sys that limits are read from.
class FakeRoot {
 public:
  FakeRoot() {
    static int count = 0;
    path_ = fs::temp_directory_path() / ("rlx_root_" + std::to_string(getpid()) + "_" + std::to_string(count++));
  }
  ~FakeRoot() { fs::remove_all(path_); }
  void write(const std::string& file, const std::string& text) {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(CpuLimits, QuotaOfBothCgroupVersions) {
  FakeRoot v2;
  v2.write("proc/self/cgroup", "0::/a/b\n");
  v2.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  v2.write("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(cpu_limits(v2.path()).quota, 1.5);
  EXPECT_EQ(cpu_limits(v2.path()).threads, 1);
  FakeRoot v1;
  v1.write("proc/self/cgroup", "3:memory:/x\n2:cpu,cpuacct:/x\n");
  v1.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "400000\n");
  v1.write("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(cpu_limits(v1.path()).quota, 4.0);
  FakeRoot none;
  EXPECT_DOUBLE_EQ(cpu_limits(none.path()).quota, 0.0);
  EXPECT_GE(cpu_limits(none.path()).threads, 1);
}

TEST(CpuLimits, HyperThreadsOfACoreCountOnce) {
  FakeRoot root;
  const int logical = cpu_limits(root.path()).logical;
  EXPECT_EQ(cpu_limits(root.path()).physical, logical) << "no topology known";
  for (int cpu = 0; cpu < 512; ++cpu)
    root.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list", "0-511\n");
  EXPECT_EQ(cpu_limits(root.path()).physical, 1);
}

TEST(MemoryInfo, TheCgroupsLimitCounts) {
  FakeRoot root;
  root.write("proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    800 kB\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(memory_info(root.path()).total, 1000u * 1024);
  EXPECT_EQ(memory_info(root.path()).available, 800u * 1024);
  EXPECT_EQ(memory_info(root.path()).huge_pages, HugePages::madvise);
  root.write("proc/self/cgroup", "0::/\n");
  root.write("sys/fs/cgroup/memory.max", "512000\n");
  root.write("sys/fs/cgroup/memory.current", "112000\n");
  EXPECT_EQ(memory_info(root.path()).total, 512000u);
  EXPECT_EQ(memory_info(root.path()).available, 400000u);
}

}  // namespace
}  // namespace rlx::cpu
