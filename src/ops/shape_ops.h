// Ops that move values and change none. They take every dtype without blocks (Pad: those that it
// can write a value of). Negative axes count from the end.
#pragma once

#include "ir/op.h"
#include "ops/attr_lists.h"

namespace rlx {

/// The same values in row-major order under other dims. One of `dims` may be -1: what is left. The
/// counts must be equal as polynomials; where that is open it is checked when sizes are bound.
struct Reshape {
  DimList dims;
  static constexpr std::string_view name = "reshape";
  static constexpr Trait traits = Trait::view;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("dims", &Reshape::dims)}; }
  bool operator==(const Reshape&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The reshape that adds a dim of 1 at `axis` of the result; Error(shape) for an axis outside.
Reshape expand_dims(const Shape& x, int axis);
/// The reshape that takes the dim at `axis` away; Error(shape) when it is not 1.
Reshape squeeze(const Shape& x, int axis);

/// y's axis i is x's axis axes[i]. `axes` is a permutation; none given: the axes in reverse.
struct Transpose {
  Axes axes;
  static constexpr std::string_view name = "transpose";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("axes", &Transpose::axes)}; }
  bool operator==(const Transpose&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x at start, start + step, ... below stop of one axis: 0 <= start <= stop <= size, step >= 1.
/// y has ceil((stop - start) / step) there.
struct Slice {
  std::int32_t axis = 0;
  Dim start = 0, stop = 0;
  std::int32_t step = 1;
  static constexpr std::string_view name = "slice";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("axis", &Slice::axis), field("start", &Slice::start),
                      field("stop", &Slice::stop), field("step", &Slice::step)};
  }
  bool operator==(const Slice&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// 1 to 24 operands one after the other along an axis; the other dims and the dtypes are equal.
struct Concat {
  std::int32_t axis = 0;
  static constexpr std::string_view name = "concat";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields(auto...) { return std::tuple{field("axis", &Concat::axis)}; }
  bool operator==(const Concat&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x with `before` and `after` places of `value` added along an axis. f32, f16, bf16, i32, boolean;
/// for i32 and boolean `value` is an integer.
struct Pad {
  std::int32_t axis = 0;
  Dim before = 0, after = 0;
  float value = 0.0f;
  static constexpr std::string_view name = "pad";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("axis", &Pad::axis), field("before", &Pad::before),
                      field("after", &Pad::after), field("value", &Pad::value)};
  }
  bool operator==(const Pad&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x repeated to `dims` as in NumPy: x's dims, aligned at the end, are those of `dims` or 1.
struct BroadcastTo {
  DimList dims;
  static constexpr std::string_view name = "broadcast_to";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("dims", &BroadcastTo::dims)}; }
  bool operator==(const BroadcastTo&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using ShapeOps = OpList<Reshape, Transpose, Slice, Concat, Pad, BroadcastTo>;

}  // namespace rlx
