// Element-wise ops. Operands broadcast as in NumPy: dims are aligned at the end, a dim of 1
// repeats.
#pragma once

#include "ir/op.h"
#include "ops/activation.h"
#include "ops/binary_op.h"

namespace rlx {

/// a + b, a * b. f32 operands of broadcastable shapes; the result has the broadcast shape.
RLX_BINARY_OP(Add, "add", Trait::commutative);
RLX_BINARY_OP(Mul, "mul", Trait::commutative);

/// act(x), any shape, f32.
struct Activation {
  Act act = Act::silu;
  static constexpr std::string_view name = "activation";
  static constexpr Trait traits = Trait::elementwise | Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) { return std::tuple{field("act", &Activation::act)}; }
  bool operator==(const Activation&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x * factor, f32.
struct Scale {
  float factor = 1.0f;
  static constexpr std::string_view name = "scale";
  static constexpr Trait traits = Trait::elementwise | Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) { return std::tuple{field("factor", &Scale::factor)}; }
  bool operator==(const Scale&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// cap * tanh(x / cap), f32 (Gemma 2, https://arxiv.org/abs/2408.00118).
struct Softcap {
  float cap = 30.0f;
  static constexpr std::string_view name = "softcap";
  static constexpr Trait traits = Trait::elementwise | Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) { return std::tuple{field("cap", &Softcap::cap)}; }
  bool operator==(const Softcap&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The same values in another plain float dtype (f32, f16, bf16), round to nearest even; also of i32.
struct Cast {
  DType to = DType::f32;
  static constexpr std::string_view name = "cast";
  static constexpr Trait traits = Trait::elementwise | Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("to", &Cast::to)}; }
  bool operator==(const Cast&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using ElementwiseOps = OpList<Add, Mul, Activation, Scale, Softcap, Cast>;

}  // namespace rlx
