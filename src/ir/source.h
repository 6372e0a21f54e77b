// Where values come from: per-step inputs, weights, states. Their shape is given, not inferred; the
// node's name is the name of the boundary.
#pragma once

#include "ir/op.h"

namespace rlx {

/// A value given at each step.
struct Input {
  static constexpr std::string_view name = "input";
  static constexpr Trait traits = Trait::source;
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const Input&) const = default;
};

/// A weight, in the layout of its file.
struct Param {
  static constexpr std::string_view name = "param";
  static constexpr Trait traits = Trait::source;
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const Param&) const = default;
};

/// A state that steps update in place: a KV cache or the page table.
struct State {
  static constexpr std::string_view name = "state";
  static constexpr Trait traits = Trait::source;
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const State&) const = default;
};

/// Values that stand in the graph itself (ir/constant.h). Made by Builder::constant; in text
/// `constant {1, 2.5}`.
struct Constant {
  ConstantRef data;
  static constexpr std::string_view name = "constant";
  static constexpr Trait traits = Trait::source;
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const Constant&) const = default;
};

using SourceOps = OpList<Input, Param, State, Constant>;

}  // namespace rlx
