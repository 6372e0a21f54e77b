// Which ops may appear at which stage, as code; checked after every pass together with the graph's
// own rules.
#pragma once

#include "ir/graph.h"

namespace rlx {

/// Checks a graph; InternalError that names pass, node and rule, since only a faulty pass or
/// builder can break them: shapes equal what infer() says; mir holds no composite op; hir holds no
/// packed layout and no int8 activations; each version of a state is updated at most once and never
/// read after that; output names are distinct.
void verify(const Graph& graph, std::string_view after);

}  // namespace rlx
