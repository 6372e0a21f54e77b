#include "base/cpu_features.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/affinity.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace rlx {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
struct Regs {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
Regs cpuid(unsigned leaf, unsigned sub = 0) {
  Regs r;
  if (__get_cpuid_count(leaf, sub, &r.a, &r.b, &r.c, &r.d) == 0) return {};
  return r;
}
constexpr bool bit(unsigned word, int i) { return (word >> i & 1u) != 0; }

// Which register states the operating system saves; XGETBV may be used only where OSXSAVE is set.
std::uint64_t saved_states(const Regs& leaf1) {
  if (!bit(leaf1.c, 27)) return 0;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

std::string brand() {
  if (cpuid(0x80000000u).a < 0x80000004u) return {};
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    const Regs r = cpuid(0x80000002u + i);
    std::memcpy(text + i * 16, &r, 16);
  }
  std::string_view s = text;
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return std::string(s);
}

// Tile registers are 8 KiB of state that a process must ask for before it uses them; threads inherit the answer.
bool grants_tiles() {
#if defined(__linux__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

CpuFeatures detect() {
  CpuFeatures f;
  const Regs one = cpuid(1), seven = cpuid(7), seven1 = seven.a >= 1 ? cpuid(7, 1) : Regs{};
  const std::uint64_t states = saved_states(one);
  const bool ymm = (states & 0x6) == 0x6;
  const bool zmm = (states & 0xe6) == 0xe6;
  const bool tiles = (states & 0x60000) == 0x60000;
  const bool avx = ymm && bit(one.c, 28);
  f.avx2 = avx && bit(one.c, 12) && bit(one.c, 29) && bit(seven.b, 3) && bit(seven.b, 5) && bit(seven.b, 8);
  f.avx_vnni = f.avx2 && bit(seven1.a, 4);
  f.avx512 = f.avx2 && zmm && bit(seven.b, 16) && bit(seven.b, 17) && bit(seven.b, 30) && bit(seven.b, 31) &&
             bit(seven.c, 11);
  f.avx512_bf16 = f.avx512 && bit(seven1.a, 5);
  f.amx = f.avx512_bf16 && tiles && bit(seven.d, 22) && bit(seven.d, 24) && bit(seven.d, 25) && grants_tiles();
  f.model = brand();
  return f;
}
#else
CpuFeatures detect() { return {}; }
#endif

// Files of /proc and /sys are tiny and may be missing: a missing file is an empty text.
std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return in ? text.str() : std::string();
}

std::optional<std::int64_t> number(std::string_view s) {
  std::int64_t v = 0;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  return r.ec == std::errc() ? std::optional(v) : std::nullopt;
}

// The first number of a file; nothing when it is missing or says "max".
std::optional<std::int64_t> number_of(const fs::path& path) { return number(text_of(path)); }

struct Cgroup {
  bool v2 = false;
  std::vector<fs::path> folders;  ///< from the own group up to the mount
};

// The folders of this process's cgroup for a controller. In a container the path of
// /proc/self/cgroup is often the host's and not visible; then only the mount itself is looked at.
Cgroup cgroup_of(const fs::path& root, std::string_view controller) {
  Cgroup found;
  std::istringstream lines(text_of(root / "proc/self/cgroup"));
  fs::path mount = root / "sys/fs/cgroup", own;
  found.v2 = true;
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
    if (names.empty() && own.empty()) own = path;
    if (("," + names + ",").find("," + std::string(controller) + ",") != std::string::npos) {
      found.v2 = false;
      const fs::path by_name = mount / names;
      mount = fs::exists(by_name) ? by_name : mount / std::string(controller);
      own = path;
      break;
    }
  }
  fs::path folder = mount / own.relative_path();
  for (int depth = 0; depth < 64 && folder != mount && folder.has_relative_path(); ++depth) {
    found.folders.push_back(folder);
    folder = folder.parent_path();
  }
  found.folders.push_back(mount);
  return found;
}

double cpu_quota(const fs::path& root) {
  double least = 0;
  const Cgroup group = cgroup_of(root, "cpu");
  for (const fs::path& folder : group.folders) {
    std::optional<std::int64_t> quota, period;
    if (group.v2) {
      const std::string text = text_of(folder / "cpu.max");  // "max 100000" or "150000 100000"
      const auto space = text.find(' ');
      quota = number(text);
      if (space != std::string::npos) period = number(std::string_view(text).substr(space + 1));
    } else {
      quota = number_of(folder / "cpu.cfs_quota_us");  // -1: no limit
      period = number_of(folder / "cpu.cfs_period_us");
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) continue;
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    if (least == 0 || cpus < least) least = cpus;
  }
  return least;
}

std::uint64_t meminfo(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + key.size());
  while (!text.empty() && (text.front() == ' ' || text.front() == ':')) text.remove_prefix(1);
  return static_cast<std::uint64_t>(number(text).value_or(0)) * 1024;
}

HugePages huge_page_mode(const fs::path& root) {
  const std::string text = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled");
  if (text.find("[always]") != std::string::npos) return HugePages::always;
  if (text.find("[madvise]") != std::string::npos) return HugePages::madvise;
  if (text.find("[never]") != std::string::npos) return HugePages::never;
  return HugePages::unknown;
}

// Folders node0, node1, ... that hold a processor of this process.
int memory_nodes(const fs::path& root) {
  int nodes = 0;
  std::error_code error;
  const std::vector<int> allowed = allowed_processors();
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    if (entry.path().filename().string().rfind("node", 0) != 0) continue;
    const bool used = std::any_of(allowed.begin(), allowed.end(), [&](int cpu) {
      return fs::exists(entry.path() / ("cpu" + std::to_string(cpu)), error);
    });
    nodes += used ? 1 : 0;
  }
  return std::max(nodes, 1);
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::vector<int> core_processors(const fs::path& root) {
  std::set<std::string> cores;
  std::vector<int> first;
  for (const int cpu : allowed_processors()) {
    const fs::path topology = root / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology";
    std::string siblings = text_of(topology / "core_cpus_list");
    if (siblings.empty()) siblings = text_of(topology / "thread_siblings_list");
    // Virtual machines may hide the topology; then each logical processor counts as a core.
    if (cores.insert(siblings.empty() ? "cpu" + std::to_string(cpu) : siblings).second) first.push_back(cpu);
  }
  return first;
}

CpuLimits cpu_limits(const fs::path& root) {
  CpuLimits limits;
  limits.logical = static_cast<int>(allowed_processors().size());
  limits.physical = static_cast<int>(core_processors(root).size());
  limits.nodes = memory_nodes(root);
  limits.quota = cpu_quota(root);
  limits.threads = limits.physical;
  if (limits.quota > 0 && limits.quota < limits.threads) limits.threads = static_cast<int>(limits.quota);
  limits.threads = std::max(limits.threads, 1);
  return limits;
}

MemoryInfo memory_info(const fs::path& root) {
  MemoryInfo memory;
  const std::string text = text_of(root / "proc/meminfo");
  memory.total = meminfo(text, "MemTotal");
  memory.available = meminfo(text, "MemAvailable");
  const Cgroup group = cgroup_of(root, "memory");
  for (const fs::path& folder : group.folders) {
    const auto limit = number_of(folder / (group.v2 ? "memory.max" : "memory.limit_in_bytes"));
    const auto used = number_of(folder / (group.v2 ? "memory.current" : "memory.usage_in_bytes"));
    if (!limit || *limit < 0) continue;
    const auto bytes = static_cast<std::uint64_t>(*limit);
    memory.total = std::min(memory.total, bytes);
    const std::uint64_t taken = used && *used > 0 ? static_cast<std::uint64_t>(*used) : 0;
    memory.available = std::min(memory.available, bytes > taken ? bytes - taken : 0);
  }
  memory.huge_pages = huge_page_mode(root);
  return memory;
}

}  // namespace rlx
