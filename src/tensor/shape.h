// The type of a value in a graph: dims, element type, layout, and whether it is a state.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string>

#include "tensor/dim.h"
#include "tensor/dtype.h"
#include "tensor/layout.h"

namespace rlx {

inline constexpr int kMaxRank = 6;

/// tensor: an ordinary array. kv: the cache of one attention layer, dims [kv_heads, head_dim].
/// pages: the page table that all layers share. recurrent: the state of one recurrent layer, dims of
/// one slot. The capacity of states is the session's and stands in no shape (architecture.md,
/// section 3).
enum class ShapeKind : std::uint8_t { tensor, kv, pages, recurrent };

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims, DType dtype);
  Shape(std::span<const Dim> dims, DType dtype);  ///< Error(shape) above kMaxRank dims
  static Shape kv_state(std::int64_t kv_heads, std::int64_t head_dim, DType dtype);
  static Shape page_table();
  /// One to five dims of at least 1, f32; a view of it has the slots in front.
  static Shape recurrent_state(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  Dim dim(int axis) const;  ///< a negative axis counts from the end; RLX_CHECK inside the rank
  std::span<const Dim> dims() const { return {dims_.data(), static_cast<std::size_t>(rank_)}; }
  Dim elements() const;  ///< product of the dims
  bool is_state() const { return kind != ShapeKind::tensor; }
  /// A state that ops update: their result is the state itself.
  bool is_updated() const { return kind == ShapeKind::kv || kind == ShapeKind::recurrent; }

  Shape with(DType d) const;
  Shape with(Layout l) const;
  Shape with_dim(int axis, Dim d) const;
  Shape bind(const DimBinding& binding) const;
  bool operator==(const Shape&) const = default;

  /// "f32[rows, 576]", "q4_1[576, 576]@p16", "kv<f16>[3, 64]", "pages",
  /// "recurrent<f32>[8, 16]".
  std::string text() const;
  static Shape parse(std::string_view text);  ///< inverse of text(); Error(format)

  DType dtype = DType::f32;
  Layout layout = Layout::plain;
  ShapeKind kind = ShapeKind::tensor;

 private:
  std::int8_t rank_ = 0;
  std::array<Dim, kMaxRank> dims_{};
};

}  // namespace rlx
