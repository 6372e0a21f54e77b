// The residual stream: what a block adds its result to.
#pragma once

#include "flow/flow.h"

namespace rlx {

/// Pushes the hidden state onto the stack of residuals.
FlowStage residual_save();
/// hidden = residual + scale * hidden, with the last saved residual, which leaves the stack.
FlowStage residual_add(float scale = 1.0f);

}  // namespace rlx
