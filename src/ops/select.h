// Values by index and by order: gather, scatter, top-k, sort, one-hot. Negative axes count from the end.
// Indices are i32; one outside [0, size) is an Error(invalid_argument) of the run.
#pragma once

#include "ir/op.h"

namespace rlx {

/// y[..., i, ...] = x[..., index[i], ...]: the places `index` of an axis. index has any rank and
/// its dims take the place of the axis (numpy.take). x: any dtype without blocks.
struct Gather {
  std::int32_t axis = 0;
  static constexpr std::string_view name = "gather";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 2> operands = {"x", "index"};
  static constexpr auto fields(auto...) { return std::tuple{field("axis", &Gather::axis)}; }
  bool operator==(const Gather&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x with updates[..., i, ...] added at place index[i] of an axis, in increasing i, so that repeats
/// add up; with `replace` the update takes the place, the last of repeats. x: f32, f16, bf16 or i32
/// (modulo 2^32); index: i32[m]; updates: x's dtype and dims, with m at the axis.
struct ScatterAdd {
  std::int32_t axis = 0;
  bool replace = false;
  static constexpr std::string_view name = "scatter_add";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 3> operands = {"x", "index", "updates"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("axis", &ScatterAdd::axis), field("replace", &ScatterAdd::replace)};
  }
  bool operator==(const ScatterAdd&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The k largest values along an axis in falling order (not `largest`: the smallest, rising) and
/// their indices: two results, x's dtype and i32. Of equal values the one of the lower index comes
/// first; a NaN counts as largest. x: f32, f16, bf16 or i32; 0 <= k <= size.
struct TopK {
  std::int32_t k = 1;
  std::int32_t axis = -1;
  bool largest = true;
  static constexpr std::string_view name = "top_k";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("k", &TopK::k), field("axis", &TopK::axis),
                      field("largest", &TopK::largest)};
  }
  bool operator==(const TopK&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// All values along an axis in rising (`descending`: falling) order, and their indices: two
/// results, x's dtype and i32. Stable in both orders; a NaN counts as largest. x: f32, f16, bf16 or
/// i32.
struct Sort {
  std::int32_t axis = -1;
  bool descending = false;
  static constexpr std::string_view name = "sort";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("axis", &Sort::axis), field("descending", &Sort::descending)};
  }
  bool operator==(const Sort&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y[..., j, ...] = x[..., index[..., j, ...], ...] along an axis: each line of x by its own indices
/// (numpy.take_along_axis). index: i32 of x's dims but for the axis; x: any dtype without blocks.
struct TakeAlongAxis {
  std::int32_t axis = -1;
  static constexpr std::string_view name = "take_along_axis";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 2> operands = {"x", "index"};
  static constexpr auto fields(auto...) { return std::tuple{field("axis", &TakeAlongAxis::axis)}; }
  bool operator==(const TakeAlongAxis&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y[..., j] = 1 where index[...] = j, else 0.   index: i32 of any shape; y: f32[..., depth]. An
/// index outside [0, depth) gives zeros.
struct OneHot {
  Dim depth = 1;
  static constexpr std::string_view name = "one_hot";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"index"};
  static constexpr auto fields(auto...) { return std::tuple{field("depth", &OneHot::depth)}; }
  bool operator==(const OneHot&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using SelectOps = OpList<Gather, ScatterAdd, TopK, Sort, TakeAlongAxis, OneHot>;

}  // namespace rlx
