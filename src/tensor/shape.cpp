#include "tensor/shape.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace rlx {

Shape::Shape(std::initializer_list<Dim> dims, DType d)
    : Shape(std::span<const Dim>(dims.begin(), dims.size()), d) {}

Shape::Shape(std::span<const Dim> dims, DType d) : dtype(d) {
  if (dims.size() > kMaxRank)
    fail(ErrorCode::shape, "a shape of {} dims: expected at most {}", dims.size(), kMaxRank);
  rank_ = static_cast<std::int8_t>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

Shape Shape::kv_state(std::int64_t kv_heads, std::int64_t head_dim, DType d) {
  Shape s({Dim(kv_heads), Dim(head_dim)}, d);
  s.kind = ShapeKind::kv;
  return s;
}

Shape Shape::page_table() {
  Shape s({}, DType::i32);
  s.kind = ShapeKind::pages;
  return s;
}

Shape Shape::recurrent_state(std::initializer_list<std::int64_t> dims) {
  const std::vector<Dim> sizes(dims.begin(), dims.end());
  Shape s(std::span<const Dim>(sizes), DType::f32);
  s.kind = ShapeKind::recurrent;
  return s;
}

Dim Shape::dim(int axis) const {
  const int a = axis < 0 ? axis + rank_ : axis;
  RLX_CHECK(a >= 0 && a < rank_, text());
  return dims_[static_cast<std::size_t>(a)];
}

Dim Shape::elements() const {
  Dim n(1);
  for (Dim d : dims()) n = n * d;
  return n;
}

Shape Shape::with(DType d) const {
  Shape s = *this;
  s.dtype = d;
  return s;
}

Shape Shape::with(Layout l) const {
  Shape s = *this;
  s.layout = l;
  return s;
}

Shape Shape::with_dim(int axis, Dim d) const {
  Shape s = *this;
  const int a = axis < 0 ? axis + rank_ : axis;
  RLX_CHECK(a >= 0 && a < rank_, text());
  s.dims_[static_cast<std::size_t>(a)] = d;
  return s;
}

Shape Shape::bind(const DimBinding& binding) const {
  Shape s = *this;
  for (int i = 0; i < rank_; ++i)
    s.dims_[static_cast<std::size_t>(i)] = dims_[static_cast<std::size_t>(i)].bind(binding);
  return s;
}

std::string Shape::text() const {
  if (kind == ShapeKind::pages) return "pages";
  std::string text = kind == ShapeKind::kv          ? fmt::format("kv<{}>[", name(dtype))
                     : kind == ShapeKind::recurrent ? fmt::format("recurrent<{}>[", name(dtype))
                                                    : fmt::format("{}[", name(dtype));
  for (int i = 0; i < rank_; ++i)
    text += (i > 0 ? ", " : "") + dims_[static_cast<std::size_t>(i)].text();
  text += "]";
  if (layout != Layout::plain) text += fmt::format("@{}", name(layout));
  return text;
}

Shape Shape::parse(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    fail(ErrorCode::format, "shape \"{}\": {}", text, why);
  };
  if (text == "pages") return page_table();
  const std::size_t open = text.find('['), close = text.rfind(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    bad("expected dtype[dims]");
  std::string_view head = text.substr(0, open);
  const std::string_view tail = text.substr(close + 1);
  Shape s;
  if (head.starts_with("kv<") && head.ends_with(">")) {
    s.kind = ShapeKind::kv;
    head = head.substr(3, head.size() - 4);
  } else if (constexpr std::string_view prefix = "recurrent<";
             head.starts_with(prefix) && head.ends_with(">")) {
    s.kind = ShapeKind::recurrent;
    head = head.substr(prefix.size(), head.size() - prefix.size() - 1);
  }
  const auto dtype = dtype_from_name(head);
  if (!dtype) bad(fmt::format("unknown dtype \"{}\"", head));
  // Commas inside ceil_div(...) do not separate dims.
  std::vector<Dim> dims;
  const std::string_view list = text.substr(open + 1, close - open - 1);
  std::size_t from = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= list.size() && !list.empty(); ++i) {
    if (i == list.size() || (list[i] == ',' && depth == 0)) {
      dims.push_back(Dim::parse(list.substr(from, i - from)));
      from = i + 1;
    } else if (list[i] == '(') {
      ++depth;
    } else if (list[i] == ')') {
      --depth;
    }
  }
  for (const Dim d : dims)
    if (d.constant().value_or(0) < 0) bad(fmt::format("expected sizes of at least 0, found {}", d.text()));
  const ShapeKind kind = s.kind;
  s = Shape(dims, *dtype);
  s.kind = kind;
  if (kind == ShapeKind::kv &&
      (s.rank() != 2 || !s.dim(0).is_constant() || !s.dim(1).is_constant()))
    bad("a kv state has two constant dims");
  if (kind == ShapeKind::recurrent &&
      (s.rank() < 1 || s.rank() >= kMaxRank ||
       !std::all_of(dims.begin(), dims.end(), [](Dim d) { return d.constant().value_or(0) > 0; })))
    bad("a recurrent state has one to five constant dims above 0");
  if (tail == "@p16")
    s.layout = Layout::p16;
  else if (!tail.empty())
    bad(fmt::format("unknown layout \"{}\"", tail));
  return s;
}

}  // namespace rlx
