// Discrete Fourier transforms of any length over one axis, scaled as in numpy.fft and torch.fft: the forward ones not
// at all, the inverse ones by 1 / n. A complex number is a pair (real, imaginary) in the last axis.
#pragma once

#include "ir/op.h"

namespace rlx {

/// y[k] = sum over j of x[j] * exp(-2 pi i j k / n); inverse: with + in the exponent, divided by n.
/// x, y: f32[..., n, 2].
struct Fft {
  bool inverse = false;
  static constexpr std::string_view name = "fft";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("inverse", &Fft::inverse)}; }
  bool operator==(const Fft&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The first floor(n / 2) + 1 values of the transform of real numbers; the others are their conjugates in reverse.
/// x: f32[..., n], y: f32[..., floor(n / 2) + 1, 2].
struct RealFft {
  static constexpr std::string_view name = "real_fft";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const RealFft&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The inverse of RealFft: the n real numbers of which x is the first half of the transform. `n` is 2 * (m - 1) when it
/// is 0; m = floor(n / 2) + 1. The imaginary parts of x[0] and, for even n, of x[n / 2] count as 0.
/// x: f32[..., m, 2], y: f32[..., n].
struct InverseRealFft {
  Dim n = 0;
  static constexpr std::string_view name = "inverse_real_fft";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields(auto...) { return std::tuple{field("n", &InverseRealFft::n)}; }
  bool operator==(const InverseRealFft&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using FftOps = OpList<Fft, RealFft, InverseRealFft>;

}  // namespace rlx
