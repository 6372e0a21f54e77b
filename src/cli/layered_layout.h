// Places the boxes of an acyclic graph in layers (K. Sugiyama, S. Tagawa, M. Toda: Methods for visual understanding of
// hierarchical system structures, IEEE Trans. SMC 11(2), 1981): ranks by longest path, dummies on long edges, order by
// barycentres.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rlx::cli {

struct LayoutBox {
  double width = 0, height = 0;  ///< given
  double x = 0, y = 0;           ///< of the corner at the left and top
};

struct LayoutEdge {
  std::int32_t from = 0, to = 0;  ///< from < to
  std::vector<std::pair<double, double>> points;  ///< from the bottom of one box to the top of the other
};

struct LayoutSize {
  double width = 0, height = 0;
};

/// Sets the places of boxes and the points of edges.
LayoutSize layered_layout(std::vector<LayoutBox>& boxes, std::vector<LayoutEdge>& edges);

}  // namespace rlx::cli
