#include "cli/layered_layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace rlx::cli {
namespace {

constexpr double kBetween = 18, kRanks = 30, kDummy = 8;

// A box, or a bend of a long edge.
struct Cell {
  double width = kDummy, height = 0, x = 0, y = 0;  // x: of the middle
  std::size_t rank = 0;
  std::vector<std::size_t> above, below;
};

class LayeredLayout {
 public:
  LayeredLayout(std::vector<LayoutBox>& boxes, std::vector<LayoutEdge>& edges) : boxes_(boxes), edges_(edges) {
    for (const LayoutBox& b : boxes) {
      Cell cell;
      cell.width = b.width;
      cell.height = b.height;
      cells_.push_back(std::move(cell));
    }
  }

  LayoutSize run() {
    if (boxes_.empty()) return {};
    rank();
    chain();
    rows_.resize(1);
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      rows_.resize(std::max(rows_.size(), cells_[i].rank + 1));
      rows_[cells_[i].rank].push_back(i);
    }
    for (int sweep = 0; sweep < 4; ++sweep) {
      for (std::size_t r = 1; r < rows_.size(); ++r) order(rows_[r], &Cell::above);
      for (std::size_t r = rows_.size() - 1; r-- > 0;) order(rows_[r], &Cell::below);
    }
    for (std::vector<std::size_t>& row : rows_) pack(row);
    for (int sweep = 0; sweep < 8; ++sweep) {
      for (std::size_t r = 1; r < rows_.size(); ++r) straighten(rows_[r], &Cell::above);
      for (std::size_t r = rows_.size() - 1; r-- > 0;) straighten(rows_[r], &Cell::below);
    }
    return finish();
  }

 private:
  using Neighbours = std::vector<std::size_t> Cell::*;

  void rank() {
    std::vector<std::vector<std::size_t>> sources(cells_.size());
    for (const LayoutEdge& e : edges_)
      sources[static_cast<std::size_t>(e.to)].push_back(static_cast<std::size_t>(e.from));
    for (std::size_t i = 0; i < cells_.size(); ++i)
      for (const std::size_t s : sources[i]) cells_[i].rank = std::max(cells_[i].rank, cells_[s].rank + 1);
  }

  void link(std::size_t above, std::size_t below) {
    cells_[below].above.push_back(above);
    cells_[above].below.push_back(below);
  }

  // Long edges of one box share their bends: a value that is read twice is one line that forks.
  void chain() {
    std::map<std::pair<std::int32_t, std::size_t>, std::size_t> bends;  // by source and rank
    for (const LayoutEdge& e : edges_) {
      auto at = static_cast<std::size_t>(e.from);
      std::vector<std::size_t> way;
      for (std::size_t r = cells_[at].rank + 1; r < cells_[static_cast<std::size_t>(e.to)].rank; ++r) {
        const auto [place, fresh] = bends.try_emplace({e.from, r}, cells_.size());
        if (fresh) {
          Cell bend;
          bend.rank = r;
          cells_.push_back(std::move(bend));
          link(at, place->second);
        }
        at = place->second;
        way.push_back(at);
      }
      link(at, static_cast<std::size_t>(e.to));
      ways_.push_back(std::move(way));
    }
  }

  double mean_x(const Cell& c, Neighbours side) const {
    const std::vector<std::size_t>& near = c.*side;
    double sum = 0;
    for (const std::size_t n : near) sum += cells_[n].x;
    return near.empty() ? c.x : sum / static_cast<double>(near.size());
  }

  // x is the place in the row while rows are ordered.
  void order(std::vector<std::size_t>& row, Neighbours side) {
    std::vector<std::pair<double, std::size_t>> wishes;
    for (const std::size_t c : row) wishes.emplace_back(mean_x(cells_[c], side), c);
    std::stable_sort(wishes.begin(), wishes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t k = 0; k < row.size(); ++k) {
      row[k] = wishes[k].second;
      cells_[row[k]].x = static_cast<double>(k) - static_cast<double>(row.size()) / 2;
    }
  }

  void pack(const std::vector<std::size_t>& row) {
    double width = -kBetween;
    for (const std::size_t c : row) width += cells_[c].width + kBetween;
    double x = -width / 2;
    for (const std::size_t c : row) {
      cells_[c].x = x + cells_[c].width / 2;
      x += cells_[c].width + kBetween;
    }
  }

  // Each cell goes to the middle of its neighbours, as far as the cells beside it let it.
  void straighten(const std::vector<std::size_t>& row, Neighbours side) {
    std::vector<double> left(row.size()), right(row.size());
    for (std::size_t k = 0; k < row.size(); ++k) {
      left[k] = mean_x(cells_[row[k]], side);
      if (k > 0) left[k] = std::max(left[k], left[k - 1] + apart(row[k - 1], row[k]));
    }
    for (std::size_t k = row.size(); k-- > 0;) {
      right[k] = mean_x(cells_[row[k]], side);
      if (k + 1 < row.size()) right[k] = std::min(right[k], right[k + 1] - apart(row[k], row[k + 1]));
    }
    for (std::size_t k = 0; k < row.size(); ++k) cells_[row[k]].x = (left[k] + right[k]) / 2;
  }

  double apart(std::size_t a, std::size_t b) const { return (cells_[a].width + cells_[b].width) / 2 + kBetween; }

  LayoutSize finish() {
    LayoutSize size;
    double least = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      double height = 0;
      for (const std::size_t c : rows_[r]) height = std::max(height, cells_[c].height);
      for (const std::size_t c : rows_[r]) {
        Cell& cell = cells_[c];
        if (c >= boxes_.size()) cell.height = height;  // a bend passes its whole row straight, beside the boxes
        cell.y = size.height + (height - cell.height) / 2;
        least = r == 0 && c == rows_[r][0] ? cell.x - cell.width / 2 : std::min(least, cell.x - cell.width / 2);
      }
      size.height += height + (r + 1 < rows_.size() ? kRanks : 0);
    }
    for (Cell& c : cells_) {
      c.x -= least;
      size.width = std::max(size.width, c.x + c.width / 2);
    }
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      boxes_[i].x = cells_[i].x - cells_[i].width / 2;
      boxes_[i].y = cells_[i].y;
    }
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      const Cell &from = cells_[static_cast<std::size_t>(edges_[e].from)],
                 &to = cells_[static_cast<std::size_t>(edges_[e].to)];
      edges_[e].points = {{from.x, from.y + from.height}};
      for (const std::size_t bend : ways_[e]) {
        edges_[e].points.emplace_back(cells_[bend].x, cells_[bend].y);
        edges_[e].points.emplace_back(cells_[bend].x, cells_[bend].y + cells_[bend].height);
      }
      edges_[e].points.emplace_back(to.x, to.y);
    }
    return size;
  }

  std::vector<LayoutBox>& boxes_;
  std::vector<LayoutEdge>& edges_;
  std::vector<Cell> cells_;
  std::vector<std::vector<std::size_t>> rows_;
  std::vector<std::vector<std::size_t>> ways_;  // bends of each edge
};

}  // namespace

LayoutSize layered_layout(std::vector<LayoutBox>& boxes, std::vector<LayoutEdge>& edges) {
  return LayeredLayout(boxes, edges).run();
}

}  // namespace rlx::cli
