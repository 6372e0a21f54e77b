#include "backends/cpu/kernels.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backends/cpu/conv.h"
#include "backends/cpu/index.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/matmul_experts.h"
#include "backends/cpu/moe.h"
#include "backends/cpu/table.h"
#include "base/error.h"

#define RLX_TABLES(level)            \
  namespace rlx::cpu::level {        \
  KernelTable attention_kernels();   \
  KernelTable elementwise_kernels(); \
  KernelTable kv_kernels();          \
  KernelTable norm_kernels();        \
  KernelTable quantize_kernels();    \
  KernelTable rope_kernels();        \
  }
RLX_TABLES(baseline)
RLX_TABLES(avx2)
RLX_TABLES(avx512)
namespace rlx::cpu::avx512_bf16 {
KernelTable attention_kernels();  // the other families have nothing that avx512 lacks
}
#undef RLX_TABLES

namespace rlx::cpu {
namespace {

#define RLX_LIST(level)                                                                                       \
  level::attention_kernels(), level::elementwise_kernels(), level::kv_kernels(), level::matmul_kernels(),     \
      level::norm_kernels(), level::quantize_kernels(), level::rope_kernels(), level::expert_kernels(),       \
      level::moe_kernels(), level::conv_kernels(), level::pool_kernels(), level::fft_kernels(),               \
      level::fake_quantize_kernels()

std::vector<Kernel> joined() {
  const KernelTable tables[] = {avx512_bf16::attention_kernels(), avx512_bf16::matmul_kernels(),
                                avx512_bf16::expert_kernels(), RLX_LIST(avx512), RLX_LIST(avx2), RLX_LIST(baseline),
                                index_kernels(), route_kernels(), codec_kernels()};
  std::vector<Kernel> all;
  for (const KernelTable& table : tables) all.insert(all.end(), table.rows, table.rows + table.count);
  std::stable_sort(all.begin(), all.end(), [](const Kernel& a, const Kernel& b) { return a.isa > b.isa; });
  return all;
}

struct Level {
  std::string_view name;
  Isa isa;      ///< the highest level that the name allows
  Isa needed;   ///< what the machine must have
};
constexpr std::array kLevels = {
    Level{"baseline", Isa::baseline, Isa::baseline},
    Level{"avx2", Isa::avx2, Isa::avx2},
    Level{"avx512", Isa::avx512_bf16, Isa::avx512},
    Level{"amx", Isa::amx, Isa::amx},
};

}  // namespace

std::span<const Kernel> cpu_kernels() {
  static const std::vector<Kernel> all = joined();
  return all;
}

Isa isa_of(const CpuFeatures& f) {
  if (f.amx) return Isa::amx;
  if (f.avx512_bf16) return Isa::avx512_bf16;
  if (f.avx512) return Isa::avx512;
  return f.avx2 ? Isa::avx2 : Isa::baseline;
}

Isa choose_isa(const CpuFeatures& features, const char* forced) {
  const Isa machine = isa_of(features);
  const std::string_view wanted = forced == nullptr ? "" : forced;
  if (wanted.empty()) return machine;
  const auto level = std::find_if(kLevels.begin(), kLevels.end(), [&](const Level& l) { return l.name == wanted; });
  if (level == kLevels.end())
    fail(ErrorCode::invalid_argument, "RLX_ISA: expected baseline, avx2, avx512 or amx, found \"{}\"", wanted);
  if (level->needed > machine)
    fail(ErrorCode::device, "RLX_ISA={}: this processor ({}) does not have that level", wanted,
         features.model.empty() ? "unknown" : features.model);
  return std::min(level->isa, machine);
}

Isa selected_isa() { return choose_isa(cpu_features(), std::getenv("RLX_ISA")); }

}  // namespace rlx::cpu
