// Values beside the hidden state.
#pragma once

#include "flow/flow.h"

namespace rlx {

/// The stream NAME is the hidden state at this point.
FlowStage save_stream(std::string name);
/// The hidden state is the stream NAME.
FlowStage use_stream(std::string name);
/// The stream NAME is the graph's input of that name: what another graph has computed.
FlowStage input_stream(std::string name);

}  // namespace rlx
