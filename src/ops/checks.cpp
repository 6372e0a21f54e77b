#include "ops/checks.h"

#include <algorithm>
#include <array>

namespace rlx::checks {

std::string dims_text(const Shape& shape) {
  std::string text = "[";
  for (Dim d : shape.dims()) text += (text.size() > 1 ? ", " : "") + d.text();
  return text + "]";
}

void operand_count(InferContext& c, int expected, std::string_view why) {
  if (c.arity() == expected) return;
  c.fail("expected {} operands{}{}{}, found {}", expected, why.empty() ? "" : " (", why,
         why.empty() ? "" : ")", c.arity());
}

void plain(InferContext& c, Operand o, DType dtype, int rank) {
  const Shape& shape = c.in(o.index);
  if (shape.dtype != dtype || shape.is_state())
    c.fail("{}: expected {}, found {}", o.called(c), name(dtype), shape.text());
  if (shape.rank() != rank)
    c.fail("{}: expected rank {}, found {}", o.called(c), rank, shape.text());
  if (shape.layout != Layout::plain)
    c.fail("{}: expected the plain layout, found {}", o.called(c), shape.text());
}

void array(InferContext& c, Operand o) {
  const Shape& shape = c.in(o.index);
  if (shape.is_state()) c.fail("{}: expected a tensor, found {}", o.called(c), shape.text());
  if (info(shape.dtype).block_elements != 1)
    c.fail("{}: expected a dtype without blocks, found {}", o.called(c), shape.text());
  if (shape.layout != Layout::plain)
    c.fail("{}: expected the plain layout, found {}", o.called(c), shape.text());
}

void array(InferContext& c, int i, std::initializer_list<DType> any_of) {
  c.dtype(i, any_of);
  array(c, i);
}

namespace {

Dim broadcast_dim(InferContext& c, Dim a, Dim b, const NamedShape& left, const NamedShape& right) {
  if (a == b || b == Dim(1)) return a;
  if (a == Dim(1)) return b;
  same(c, a, b, [&] {
    return fmt::format("{} {} and {} {} do not broadcast: {} and {} differ", left.name,
                       dims_text(left.shape), right.name, dims_text(right.shape), a.text(),
                       b.text());
  });
  return a.is_constant() ? a : b;
}

}  // namespace

Shape broadcast(InferContext& c, const NamedShape& a, const NamedShape& b) {
  const int rank = std::max(a.shape.rank(), b.shape.rank());
  std::array<Dim, kMaxRank> dims;
  for (int i = 1; i <= rank; ++i)
    dims[static_cast<std::size_t>(rank - i)] =
        broadcast_dim(c, i <= a.shape.rank() ? a.shape.dim(-i) : Dim(1),
                      i <= b.shape.rank() ? b.shape.dim(-i) : Dim(1), a, b);
  return Shape(std::span<const Dim>(dims.data(), static_cast<std::size_t>(rank)), a.shape.dtype);
}

int axis(InferContext& c, Operand o, int axis, std::string_view name) {
  const int rank = c.in(o.index).rank();
  if (rank == 0)
    c.fail("{}: expected at least one dim, found {}", o.called(c), c.in(o.index).text());
  if (axis < -rank || axis >= rank)
    c.fail("{}: expected a value from {} to {} for {} {}, found {}", name, -rank, rank - 1,
           o.called(c), dims_text(c.in(o.index)), axis);
  return axis < 0 ? axis + rank : axis;
}

void weight(InferContext& c, Operand o, int rank) {
  const Shape& shape = c.in(o.index);
  if (shape.rank() != rank || shape.is_state())
    c.fail("{}: expected rank {}, found {}", o.called(c), rank, shape.text());
  const DType d = shape.dtype;
  const bool stored = (is_quantized(d) && d != DType::xq8) || (is_float(d) && d != DType::f64);
  if (!stored)
    c.fail("{}: expected a dtype that weights are stored in, found {}", o.called(c),
           c.in(o.index).text());
  if (!is_quantized(d)) return;
  // Verifying comes here for every product of a model: the text is made only when it is needed.
  const std::int64_t block = info(d).block_elements;
  const auto columns = shape.dim(-1).constant();
  if (!columns || *columns % block != 0) multiple(c, o, block, fmt::format("blocks of {}", rlx::name(d)));
}

void vector(InferContext& c, Operand o, DType dtype, Dim n, std::string_view of) {
  plain(c, o, dtype, 1);
  same(c, c.in(o.index).dim(0), n, [&] {
    return fmt::format("{}: expected {} = {} values, found {}", o.called(c), of, n.text(),
                       c.in(o.index).text());
  });
}

void has_columns(InferContext& c, Operand o, Dim n, std::string_view of) {
  same(c, c.in(o.index).dim(-1), n, [&] {
    return fmt::format("{} {}: expected {} = {} columns, found {}", o.called(c),
                       dims_text(c.in(o.index)), of, n.text(), c.in(o.index).dim(-1).text());
  });
}

void has_rows(InferContext& c, Operand o, Dim n, std::string_view of) {
  same(c, c.in(o.index).dim(0), n, [&] {
    return fmt::format("{} {}: expected {} = {} rows, found {}", o.called(c),
                       dims_text(c.in(o.index)), of, n.text(), c.in(o.index).dim(0).text());
  });
}

void residual(InferContext& c, int at, const Shape& y) {
  plain(c, {at, "residual"}, DType::f32, y.rank());
  for (int axis = 0; axis < y.rank(); ++axis)
    same(c, c.in(at).dim(axis), y.dim(axis), [&] {
      return fmt::format("residual {} must have the shape of the result {}", dims_text(c.in(at)), dims_text(y));
    });
}

void multiple(InferContext& c, Operand o, std::int64_t of, std::string_view why) {
  const Dim n = c.in(o.index).dim(-1);
  const auto message = [&] {
    return fmt::format("{} {}: {} need a multiple of {} columns, found {}", o.called(c),
                       dims_text(c.in(o.index)), why, of, n.text());
  };
  if (n.is_constant()) {
    if (*n.constant() % of != 0) c.fail_text(message());
    return;
  }
  same(c, n, ceil_div(n, of) * Dim(of), message);
}

void attribute(InferContext& c, std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most) return;
  if (most >= kNoLimit) c.fail("{}: expected a value of at least {}, found {}", name, least, value);
  c.fail("{}: expected a value from {} to {}, found {}", name, least, most, value);
}

}  // namespace rlx::checks
