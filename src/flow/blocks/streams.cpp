#include "flow/blocks/streams.h"

namespace rlx {

FlowStage save_stream(std::string name) {
  return [name = std::move(name)](FlowCtx& ctx, FlowState& state) { state.streams.set(name, state.hidden.need(ctx)); };
}

FlowStage use_stream(std::string name) {
  return [name = std::move(name)](FlowCtx& ctx, FlowState& state) { state.hidden.set(state.streams.need(ctx, name)); };
}

FlowStage input_stream(std::string name) {
  return [name = std::move(name)](FlowCtx& ctx, FlowState& state) {
    state.streams.set(name, state.inputs.need(ctx, name));
  };
}

}  // namespace rlx
