#include "backends/cpu/kernels.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backends/cpu/attention.h"
#include "backends/cpu/conv.h"
#include "backends/cpu/dense_attention.h"
#include "backends/cpu/fused_linear.h"
#include "backends/cpu/index.h"
#include "backends/cpu/matmul.h"
#include "backends/cpu/matmul_amx.h"
#include "backends/cpu/matmul_experts.h"
#include "backends/cpu/moe.h"
#include "backends/cpu/shape.h"
#include "backends/cpu/table.h"
#include "base/error.h"

// The families whose tables exist once per level, one a line.
#define RLX_FAMILIES(X, level) \
  X(level, attention)          \
  X(level, conv)               \
  X(level, dense_attention)    \
  X(level, elementwise)        \
  X(level, expert)             \
  X(level, fake_quantize)      \
  X(level, fft)                \
  X(level, fused)              \
  X(level, general)            \
  X(level, kv)                 \
  X(level, matmul)             \
  X(level, moe)                \
  X(level, norm)               \
  X(level, plane_conv)         \
  X(level, pool)               \
  X(level, product)            \
  X(level, quantize)           \
  X(level, recurrent)          \
  X(level, reduction)          \
  X(level, region)             \
  X(level, rope)               \
  X(level, winograd_conv)
#define RLX_DECLARE(level, family)   \
  namespace rlx::cpu::level {        \
  KernelTable family##_kernels();    \
  }
RLX_FAMILIES(RLX_DECLARE, baseline)
RLX_FAMILIES(RLX_DECLARE, avx2)
RLX_FAMILIES(RLX_DECLARE, avx512)
// The other families have nothing that avx512 lacks.
RLX_DECLARE(avx512_bf16, attention)
RLX_DECLARE(avx512_bf16, plane_conv)
#undef RLX_DECLARE

namespace rlx::cpu {
namespace {

#define RLX_TABLE(level, family) level::family##_kernels(),

std::vector<Kernel> joined() {
  const KernelTable tables[] = {
      avx512_bf16::amx_attention_kernels(),
      avx512_bf16::amx_kernels(),
      avx512_bf16::attention_kernels(),
      avx512_bf16::matmul_kernels(),
      avx512_bf16::expert_kernels(),
      avx512_bf16::fused_kernels(),
      avx512_bf16::plane_conv_kernels(),
      RLX_FAMILIES(RLX_TABLE, avx512) RLX_FAMILIES(RLX_TABLE, avx2) RLX_FAMILIES(RLX_TABLE, baseline)
      codec_kernels(),
      index_kernels(),
      relative_bias_kernels(),
      route_kernels(),
      shape_kernels(),
  };
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
