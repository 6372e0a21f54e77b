// A graph as one SVG picture, for papers: every line is text that can be read and searched.
#pragma once

#include <string>
#include <string_view>

#include "compiler/inspection.h"

namespace rlx::cli {

/// Draws the nodes of a group ("layers.0"), with what comes in and goes out; "": the whole graph, or its first numbered
/// group when it has more than 60 nodes to draw. Weights, inputs and states stand in the boxes that read them. Error
/// (usage): a group that the graph does not have.
std::string graph_svg(const InspectedGraph& graph, const InspectedVariant& variant, std::string_view group);

}  // namespace rlx::cli
