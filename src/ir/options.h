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
  /// RLX_KERNEL_DISPATCH=common|native, else the default. Error(usage) for an unknown value.
  static KernelDispatchConfig from_environment();
  bool operator==(const KernelDispatchConfig&) const = default;
};

struct CompileOptions {
  bool fusion = true;                        ///< off: only what correctness needs
  std::vector<std::string> disabled_passes;  ///< by name
  KernelDispatchConfig dispatch;
  Precision precision;
  /// Which upper sizes the plans of executables are made for; exact unless a session sets a ladder. Part of no key: it
  /// decides the binding that an executable is found by.
  BucketPolicy buckets;
  bool verify_each_pass = true;
};

/// "auto", "int8", "bf16", "f32" and "f32", "f16", "bf16", "q8"; Error(usage) lists the valid ones.
Activations parse_activations(std::string_view text);
DType parse_kv(std::string_view text);
std::string_view name(Activations a);

}  // namespace rlx
