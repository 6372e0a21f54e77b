// What the processor, the operating system and the container allow: instruction sets, cores and
// memory. `rlx doctor` prints it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace rlx {

/// Instruction sets that the processor has and whose registers the operating system saves (CPUID and XGETBV; Intel SDM,
/// volume 2A, CPUID, and volume 1, 13.3). On another architecture everything is false.
struct CpuFeatures {
  bool avx2 = false;         ///< AVX2, FMA, F16C, BMI1 and BMI2: all of them, since they come together in practice
  bool avx_vnni = false;     ///< vpdpbusd on 256-bit registers without AVX-512
  bool avx512 = false;       ///< AVX-512 F, BW, DQ, VL and VNNI
  bool avx512_bf16 = false;  ///< vdpbf16ps
  bool amx = false;          ///< AMX tiles with int8 and bf16; the process still has to ask for the permission
  std::string model;         ///< brand string, e.g. "AMD EPYC 9654 96-Core Processor"; empty when unknown
};

/// Detected once per process.
const CpuFeatures& cpu_features();

/// How many threads are worth starting. `root` stands for "/" (tests give a folder with a fake sys/ and proc/).
struct CpuLimits {
  int logical = 1;      ///< logical processors in the affinity mask of this process
  int physical = 1;     ///< cores among them: hyper-threads of a core count once
  double quota = 0;     ///< processors that the cgroup (v1 or v2) grants; 0: no limit
  int nodes = 1;        ///< memory nodes (NUMA) with one of those processors
  int threads = 1;      ///< min(physical, quota rounded down), at least 1
};
CpuLimits cpu_limits(const std::filesystem::path& root = "/");

/// The first allowed processor of each core, as the kernel numbers them.
std::vector<int> core_processors(const std::filesystem::path& root = "/");

enum class HugePages : std::uint8_t { unknown, never, madvise, always };  ///< transparent huge pages

/// Memory in bytes; both figures respect the limit of the cgroup.
struct MemoryInfo {
  std::uint64_t total = 0;
  std::uint64_t available = 0;
  HugePages huge_pages = HugePages::unknown;
};
MemoryInfo memory_info(const std::filesystem::path& root = "/");

}  // namespace rlx
