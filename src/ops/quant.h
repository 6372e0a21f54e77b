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
  static constexpr auto fields(auto...) { return std::tuple{}; }
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
  static constexpr auto fields(auto...) {
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
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const TransposeWeight&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// x in a block format that has an encoder (tensor/quant/codec.h). x: f32[..., n], n a multiple of the block; y: the
/// same of `dtype`.
struct Quantize {
  DType dtype = DType::q8_0;
  static constexpr std::string_view name = "quantize";
  static constexpr Trait traits = Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("dtype", &Quantize::dtype)}; }
  bool operator==(const Quantize&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The values of a tensor in a block format, bit for bit those of the codec. x: [..., n] of any block format; y: f32.
struct Dequantize {
  static constexpr std::string_view name = "dequantize";
  static constexpr Trait traits = Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const Dequantize&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The values that x would have as integers of a scale, as in ONNX's QuantizeLinear followed by DequantizeLinear
/// (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html) and PyTorch's fake_quantize:
/// y = (min(max(round(x / scale) + zero_point, low), high) - zero_point) * scale, round to nearest even, NaN stays NaN.
/// Each step is one of f32, so that a choice of an integer is the same everywhere.
/// x, y: f32 of any rank from 1; scale: f32[1], or with per_channel f32[size of `axis`], above 0; zero_point: i32 as
/// scale, magnitudes below 2^24, present when `asymmetric` (0 otherwise). low <= high, magnitudes up to 2^24.
struct FakeQuantize {
  std::int32_t low = -128, high = 127;
  std::int32_t axis = 0;
  bool per_channel = false, asymmetric = false;
  static constexpr std::string_view name = "fake_quantize";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 3> operands = {"x", "scale", "zero_point"};
  static constexpr int optional_operands = 1;
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) {
    using F = FakeQuantize;
    return std::tuple{field("low", &F::low), field("high", &F::high), field("axis", &F::axis),
                      field("per_channel", &F::per_channel), field("asymmetric", &F::asymmetric)};
  }
  bool operator==(const FakeQuantize&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using QuantOps = OpList<QuantizeRows, Pack, TransposeWeight, Quantize, Dequantize, FakeQuantize>;

}  // namespace rlx
