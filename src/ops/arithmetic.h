// Element-wise arithmetic, comparison and choice. Operands broadcast as in NumPy: dims are aligned
// at the end, a dim of 1 repeats. i32 results are taken modulo 2^32; results of truth are boolean.
#pragma once

#include <limits>

#include "ir/op.h"
#include "ops/binary_op.h"

namespace rlx {

/// a - b. Both of one dtype: f32, f16, bf16 or i32; the result has it too.
RLX_BINARY_OP(Sub, "sub", Trait::none);
/// a / b (IEEE: x / 0 is an infinity, 0 / 0 is NaN), and a to the power of b (as pow of C: NaN for
/// a < 0 and b no integer). f32, f16, bf16.
RLX_BINARY_OP(Div, "div", Trait::none);
RLX_BINARY_OP(Pow, "pow", Trait::none);
/// The larger and the smaller; NaN when either is NaN. f32, f16, bf16, i32; of boolean: or, and.
RLX_BINARY_OP(Maximum, "maximum", Trait::commutative);
RLX_BINARY_OP(Minimum, "minimum", Trait::commutative);

enum class Relation : std::uint8_t { eq, ne, lt, le, gt, ge };
inline constexpr std::array<std::string_view, 6> kRelationNames = {"eq", "ne", "lt",
                                                                   "le", "gt", "ge"};
constexpr std::span<const std::string_view> enum_names(Relation) { return kRelationNames; }

/// a = b, a != b, a < b, ... as boolean. Both of one dtype: f32, f16, bf16, i32 or boolean. With a
/// NaN only `ne` holds.
struct Compare {
  Relation relation = Relation::eq;
  static constexpr std::string_view name = "compare";
  static constexpr Trait traits = Trait::elementwise | Trait::row_wise;
  static constexpr std::array<std::string_view, 2> operands = {"a", "b"};
  static constexpr auto fields(auto...) { return std::tuple{field("relation", &Compare::relation)}; }
  bool operator==(const Compare&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// a where cond holds, else b. cond: boolean, or i32 of which all but 0 holds; a, b: one dtype of
/// f32, f16, bf16, i32, boolean. All three broadcast. Not row_wise: select_rows takes no masks.
struct Where {
  static constexpr std::string_view name = "where";
  static constexpr Trait traits = Trait::elementwise;
  static constexpr std::array<std::string_view, 3> operands = {"cond", "a", "b"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const Where&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x limited to [low, high], f32, f16 or bf16; NaN stays NaN. Error(shape): low above high, or NaN.
struct Clamp {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  static constexpr std::string_view name = "clamp";
  static constexpr Trait traits = Trait::elementwise | Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) {
    return std::tuple{field("low", &Clamp::low), field("high", &Clamp::high)};
  }
  bool operator==(const Clamp&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// sign: -1, 0, 1 (NaN for NaN). round: to nearest, halves to even. rsqrt: 1 / sqrt(x).
/// sigmoid: 1 / (1 + exp(-x)). softplus: log(1 + exp(x)), without overflow.
enum class UnaryFunction : std::uint8_t {
  neg,
  exp,
  log,
  sqrt,
  rsqrt,
  reciprocal,
  abs,
  sin,
  cos,
  tanh,
  sign,
  floor,
  ceil,
  round,
  erf,
  sigmoid,
  softplus
};
inline constexpr std::array<std::string_view, 17> kUnaryNames = {
    "neg",  "exp",  "log",   "sqrt", "rsqrt", "reciprocal", "abs",     "sin",     "cos",
    "tanh", "sign", "floor", "ceil", "round", "erf",        "sigmoid", "softplus"};
constexpr std::span<const std::string_view> enum_names(UnaryFunction) { return kUnaryNames; }

/// fn(x) of any shape, f32, f16 or bf16. Outside its domain (log, sqrt and rsqrt below 0) NaN.
struct Unary {
  UnaryFunction fn = UnaryFunction::neg;
  static constexpr std::string_view name = "unary";
  static constexpr Trait traits = Trait::elementwise | Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) { return std::tuple{field("fn", &Unary::fn)}; }
  bool operator==(const Unary&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// fn(x) in double: the oracle.
double apply(UnaryFunction fn, double x);

using ArithmeticOps = OpList<Sub, Div, Pow, Maximum, Minimum, Compare, Where, Clamp, Unary>;

}  // namespace rlx
