// Gradients of ops/linear_scan.h: the gradient of a state is what arrives at its row, and what later rows have of it: a
// scan of the same kind from the other end.
#include "ops/constant.h"
#include "ops/grad_context.h"
#include "ops/linear_scan.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

// Rows 0 .. seq of the states with their start: the start's row comes first, or last in reverse. A factor of row t
// belongs between the states before and after it, so factors get a row at the end where the start is not.
class StateRows {
 public:
  StateRows(GradContext& c, Dim seq, bool reverse) : c_(c), seq_(seq), reverse_(reverse) {}

  Value factors(Value v) const { return padded(v, !reverse_); }
  Value arrivals(Value g) const { return padded(g, reverse_); }
  Value of_rows(Value all) const { return c_.b(Slice{.axis = 1, .start = first(), .stop = seq_ + first()}, all); }
  /// The state before each row.
  Value before(Value start, Value states) const {
    std::vector<Dim> dims(c_.b.shape(states).dims().begin(), c_.b.shape(states).dims().end());
    dims[1] = 1;
    const Value row = c_.reshape(start, dims);
    const Value all = reverse_ ? c_.b(Concat{.axis = 1}, states, row) : c_.b(Concat{.axis = 1}, row, states);
    return c_.b(Slice{.axis = 1, .start = 1 - first(), .stop = seq_ + 1 - first()}, all);
  }
  Value of_start(Value all, const Shape& start) const {
    const Dim at = reverse_ ? seq_ : Dim(0);
    return c_.reshape(c_.b(Slice{.axis = 1, .start = at, .stop = at + 1}, all), start.dims());
  }

 private:
  int first() const { return reverse_ ? 0 : 1; }  // the row of the first state
  Value padded(Value v, bool at_end) const {
    return c_.b(Pad{.axis = 1, .before = at_end ? 0 : 1, .after = at_end ? 1 : 0}, v);
  }

  GradContext& c_;
  Dim seq_;
  bool reverse_;
};

}  // namespace

void LinearScan::grad(GradContext& c) const {
  const StateRows rows(c, c.shape(1).dim(1), reverse);
  const Value zeros = c.fill(c.shape(2), 0);
  const Value all = c.b(LinearScan{!reverse}, rows.factors(c.in(0)), rows.arrivals(c.grad()), zeros);
  const Value g = rows.of_rows(all);
  c.add(1, g);
  if (c.wants(0)) c.add(0, c.times(g, rows.before(c.in(2), c.out())));
  if (c.wants(2)) c.add(2, rows.of_start(all, c.shape(2)));
}

// With g the gradient of a state, m the state before it, and the vectors km = k^T m and kg = k^T g: the derivatives of
// decay (1 - beta k k^T) m are sums of their products.
void DeltaScan::grad(GradContext& c) const {
  const Shape states = c.shape(3);
  const StateRows rows(c, states.dim(1), reverse);
  const Value decay = c.in(0), beta = c.in(1), zeros = c.fill(c.shape(4), 0);
  const Value all = c.b(DeltaScan{!reverse}, rows.factors(decay), rows.factors(beta), rows.factors(c.in(2)),
                        rows.arrivals(c.grad()), zeros);
  const Value g = rows.of_rows(all);
  c.add(3, g);
  if (c.wants(4)) c.add(4, rows.of_start(all, c.shape(4)));
  if (!c.wants(0) && !c.wants(1) && !c.wants(2)) return;
  const Value m = rows.before(c.in(4), c.out());
  const Value k = c.reshape(c.in(2), std::vector<Dim>{states.dim(0), states.dim(1), states.dim(2), 1});
  const Value km = c.sum(c.times(k, m), 2, true), kg = c.sum(c.times(k, g), 2, true);  // [batch, seq, 1, values]
  const auto along = [&](Value x) {  // the sum over values, without the axis of 1
    return c.reshape(c.sum(x, 3, false), std::vector<Dim>{states.dim(0), states.dim(1)});
  };
  const Value both = along(c.times(km, kg));
  if (c.wants(0)) {
    const Value direct = along(c.sum(c.times(g, m), 2, true));
    c.add(0, c.minus(direct, c.times(beta, both)));
  }
  if (c.wants(1)) c.add(1, c.scaled(c.times(decay, both), -1));
  if (!c.wants(2)) return;
  const Value mixed = c.sum(c.plus(c.times(g, km), c.times(m, kg)), 3, false);  // [batch, seq, keys]
  const Value factor = c.reshape(c.times(decay, beta), std::vector<Dim>{states.dim(0), states.dim(1), 1});
  c.add(2, c.scaled(c.times(factor, mixed), -1));
}

}  // namespace rlx
