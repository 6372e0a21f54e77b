// A kernel is a row of a table: which op, dtypes, layouts and instruction set it fits, and the
// function. The same row feeds dispatch, the conformance test and `rlx bench kernels`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ir/kernel_args.h"
#include "tensor/shape.h"

namespace rlx {

/// Instruction-set levels in rising order (architecture.md, section 1). A row runs where the level
/// is at least its own.
enum class Isa : std::uint8_t { baseline, avx2, avx512, avx512_bf16, amx };

/// What a row is asked when the program is made. Dims may be symbolic while the template is built.
struct KernelQuery {
  const void* op = nullptr;  ///< the attributes
  std::span<const Shape> in, out;
};

/// Bytes that a call needs besides its operands, asked with the bound upper sizes.
struct ScratchNeed {
  std::int64_t per_worker = 0;
  std::int64_t shared = 0;
  std::int64_t shared_zeroed =
      0;  ///< leading part of `shared` that must be zero when a call begins
};
struct ScratchQuery {
  const void* op = nullptr;
  const TensorView* in = nullptr;  ///< dims and dtypes at their upper bounds; data is not set
  const TensorView* out = nullptr;
  int threads = 1;
  std::int64_t max_context = 0;  ///< tokens a sequence may have in the cache, of this session
};

using KernelFn = void (*)(const void* op, const KernelArgs&) noexcept;

struct Kernel {
  std::string_view name;  ///< op_dtypes_isa
  std::string_view op;    ///< name of the op
  Isa isa = Isa::baseline;
  bool (*accepts)(const KernelQuery&) = nullptr;  ///< dtypes, layouts, attributes; nullptr: any
  KernelFn run = nullptr;
  ScratchNeed (*scratch)(const ScratchQuery&) = nullptr;  ///< nullptr: none
};

/// A row from a typed function `void f(const Op&, const KernelArgs&)`.
template <typename Op, void (*F)(const Op&, const KernelArgs&) noexcept>
constexpr Kernel kernel(std::string_view name, Isa isa, bool (*accepts)(const KernelQuery&),
                        ScratchNeed (*scratch)(const ScratchQuery&) = nullptr) {
  return Kernel{
      name,
      Op::name,
      isa,
      accepts,
      [](const void* op, const KernelArgs& a) noexcept { F(*static_cast<const Op*>(op), a); },
      scratch};
}

}  // namespace rlx
