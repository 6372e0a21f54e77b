// Plain data that says how a model is compiled; carried by flows, read by the compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/buckets.h"
#include "tensor/dtype.h"

namespace rlx {

/// Precision of activations in products (kernels.md, 2.8). automatic: int8 groups for quantised
/// weights, bf16 for bf16 weights on bf16 units, else f32.
enum class Activations : std::uint8_t { automatic, int8, bf16, f32 };

struct Precision {
  Activations activations = Activations::automatic;
  std::optional<DType>
      kv;  ///< f32, f16, bf16 or q8_0; empty: the backend's default (f32 when activations are f32)
  bool operator==(const Precision&) const = default;
};

/// PreferNative: a native kernel where one fits, else the common form. ForceCommon: bodies of
/// primitive ops. ForceNative: an op without a native kernel is an error (compiler.md, section 4).
enum class DispatchPolicy : std::uint8_t { prefer_native, force_common, force_native };

struct KernelDispatchConfig {
  DispatchPolicy policy = DispatchPolicy::prefer_native;
  std::vector<std::string> force_common;  ///< op names; win over the policy
  std::vector<std::string> force_native;  ///< win over force_common
  bool fast = false;  ///< takes kernels whose sums differ in the last bits from those of the others (AMX)
  /// RLX_KERNEL_DISPATCH=common|native, else the default. Error(usage) for an unknown value.
  static KernelDispatchConfig from_environment();
  bool operator==(const KernelDispatchConfig&) const = default;
};

/// The form that weights are quantised to.
struct QuantScheme {
  DType weights = DType::q8_0;  ///< a block format of weights
  std::int64_t group = 0;       ///< values that share a scale; 0: the block of the format
  /// The group with the default resolved.
  std::int64_t resolved_group() const { return group == 0 ? info(weights).block_elements : group; }
  friend bool operator==(const QuantScheme& a, const QuantScheme& b) {
    return a.weights == b.weights && a.resolved_group() == b.resolved_group();
  }
};

class Graph;
struct PassContext;  // compiler/pass.h

/// A pass of the caller, run behind a built-in one (compiler/pass.h says what a pass is).
struct CustomPass {
  std::string name;   ///< its identity in keys: another function has another name
  bool (*run)(Graph&, const PassContext&) = nullptr;
  std::string after;  ///< name of a pass of the pipeline; empty: before all
};

struct CompileOptions {
  bool fusion = true;                        ///< off: only what correctness needs
  std::vector<std::string> disabled_passes;  ///< by name
  KernelDispatchConfig dispatch;
  std::vector<CustomPass> custom_passes;     ///< in the order in which they run behind one pass
  Precision precision;
  /// Float weights of products become this format when they are packed; where the width is no multiple of its block,
  /// and in files that are quantised already, weights stay as they are.
  std::optional<QuantScheme> quant;
  /// Which upper sizes the plans of executables are made for; exact unless a session sets a ladder. Part of no key: it
  /// decides the binding that an executable is found by.
  BucketPolicy buckets;
  std::int64_t alignment = 64;  ///< of buffers in the arena, in bytes: a power of two from 64 to 4096
  /// Bytes that the arena and the scratch of an executable may take together: sizes that need more are an
  /// Error(limit) when they are specialised. 0: no limit.
  std::int64_t budget = 0;
  bool verify_each_pass = true;
};

/// "auto", "int8", "bf16", "f32" and "f32", "f16", "bf16", "q8"; Error(usage) lists the valid ones.
Activations parse_activations(std::string_view text);
DType parse_kv(std::string_view text);
std::string_view name(Activations a);

}  // namespace rlx
