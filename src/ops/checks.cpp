#include "ops/checks.h"

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

void weight(InferContext& c, Operand o) {
  const Shape& shape = c.in(o.index);
  if (shape.rank() != 2 || shape.is_state())
    c.fail("{}: expected rank 2, found {}", o.called(c), shape.text());
  const DType d = shape.dtype;
  const bool stored = (is_quantized(d) && d != DType::xq8) || (is_float(d) && d != DType::f64);
  if (!stored)
    c.fail("{}: expected a dtype that weights are stored in, found {}", o.called(c),
           c.in(o.index).text());
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
