#include "ops/activation.h"

#include <cmath>

namespace rlx {

double apply(Act act, double x) {
  switch (act) {
    case Act::none:
      return x;
    case Act::silu:
      return x / (1.0 + std::exp(-x));
    case Act::gelu_tanh: {
      constexpr double kSqrt2OverPi = 0.79788456080286535588;
      return 0.5 * x * (1.0 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
    }
    case Act::gelu: {
      constexpr double kSqrtHalf = 0.70710678118654752440;
      return 0.5 * x * (1.0 + std::erf(x * kSqrtHalf));
    }
    case Act::relu:
      return x < 0.0 ? 0.0 : x;  // NaN stays NaN
  }
  return x;
}

}  // namespace rlx
