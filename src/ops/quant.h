// Changes of representation: activations to int8 groups, weights to packed panels.
#pragma once

#include "ir/op.h"

namespace rlx {

/// Activations in int8 groups of 32: d = max|x| / 127, q = round-to-nearest-even(x * 127 / max), a
/// zero group gives d = 0 and q = 0, a group with a non-finite value gives d = NaN. x: f32[rows,
/// n] or f32[rows, slots, n], n a multiple of 32; y: the same of xq8.
struct QuantizeRows {
  static constexpr std::string_view name = "quantize_rows";
  static constexpr Trait traits = Trait::reduction | Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields() { return std::tuple{}; }
  bool operator==(const QuantizeRows&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// A weight [n, k] or [experts, n, k] in another layout (each expert has its own panels) and, for
/// float weights, another dtype (f32, f16, bf16, or a block format that tensor/quant/codec.h can
/// encode). Quantised weights keep theirs or become bf16. Depends on weights alone: the weight store
/// does it once, when the entry is first bound. No kernel runs it in a step.
struct Pack {
  DType dtype = DType::f32;  ///< of the panels
  Layout layout = Layout::p16;
  static constexpr std::string_view name = "pack";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"w"};
  static constexpr auto fields() {
    return std::tuple{field("dtype", &Pack::dtype), field("layout", &Pack::layout)};
  }
  bool operator==(const Pack&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;  // keeps the plain layout: the interpreter has no other
  static std::vector<Sample> samples();
};

/// A weight with its two axes exchanged: w [k, n] of f32, f16 or bf16, plain; y: [n, k]. Of a param it
/// costs nothing in a step: the weight store exchanges the axes when the entry is first bound.
struct TransposeWeight {
  static constexpr std::string_view name = "transpose_weight";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"w"};
  static constexpr auto fields() { return std::tuple{}; }
  bool operator==(const TransposeWeight&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using QuantOps = OpList<QuantizeRows, Pack, TransposeWeight>;

}  // namespace rlx
