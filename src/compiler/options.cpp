// Reading of the enumerations of ir/options.h.
#include "ir/options.h"

#include <cstdlib>

#include "base/error.h"

namespace rlx {

KernelDispatchConfig KernelDispatchConfig::from_environment() {
  KernelDispatchConfig config;
  const char* value = std::getenv("RLX_KERNEL_DISPATCH");
  if (value == nullptr || *value == '\0') return config;
  const std::string_view text = value;
  if (text == "common")
    config.policy = DispatchPolicy::force_common;
  else if (text == "native")
    config.policy = DispatchPolicy::force_native;
  else
    fail(ErrorCode::usage, "RLX_KERNEL_DISPATCH: expected common or native, found \"{}\"", text);
  return config;
}

std::string_view name(Activations a) {
  constexpr std::string_view names[] = {"auto", "int8", "bf16", "f32"};
  return names[static_cast<std::size_t>(a)];
}

Activations parse_activations(std::string_view text) {
  for (Activations a :
       {Activations::automatic, Activations::int8, Activations::bf16, Activations::f32})
    if (name(a) == text) return a;
  fail(ErrorCode::usage, "--activations: expected auto, int8, bf16 or f32, found \"{}\"", text);
}

DType parse_kv(std::string_view text) {
  if (text == "f32") return DType::f32;
  if (text == "f16") return DType::f16;
  if (text == "bf16") return DType::bf16;
  if (text == "q8") return DType::q8_0;
  fail(ErrorCode::usage, "--kv: expected f32, f16, bf16 or q8, found \"{}\"", text);
}

}  // namespace rlx
