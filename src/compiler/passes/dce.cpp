#include "compiler/passes/dce.h"

#include "ir/rewrite.h"

namespace rlx {

bool dce(Graph& graph, const PassContext&) { return drop_dead(graph); }

}  // namespace rlx
