// The derivative of an activation function, for the gradients of products that apply one.
#pragma once

#include "ir/graph.h"
#include "ops/activation.h"

namespace rlx {

class GradContext;

/// d act(x) / dx, f32 in the shape of x or of one value. x: f32. 0 for relu at 0.
Value activation_slope(GradContext& c, Act act, Value x);

}  // namespace rlx
