// Values that a graph makes itself. They depend on no operand.
#pragma once

#include "ir/op.h"
#include "ops/attr_lists.h"

namespace rlx {

/// `value` at each place. y: f32, f16, bf16, i32 or boolean (of which i32 and boolean take integers).
struct Full {
  DimList dims;
  float value = 0.0f;
  DType dtype = DType::f32;
  static constexpr std::string_view name = "full";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields(auto...) {
    return std::tuple{field("dims", &Full::dims), field("value", &Full::value), field("dtype", &Full::dtype)};
  }
  bool operator==(const Full&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// start + step * i at place i of an axis, i32 (modulo 2^32).
struct Iota {
  DimList dims;
  std::int32_t axis = 0;
  Dim start = 0, step = 1;
  static constexpr std::string_view name = "iota";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields(auto...) {
    return std::tuple{field("dims", &Iota::dims), field("axis", &Iota::axis), field("start", &Iota::start),
                      field("step", &Iota::step)};
  }
  bool operator==(const Iota&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using ConstantOps = OpList<Full, Iota>;

}  // namespace rlx
