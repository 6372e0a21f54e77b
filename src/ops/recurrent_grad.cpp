// Gradients of ops/recurrent.h in the functional forms. The scans are said in ops that keep every state
// (ops/linear_scan.h) and differentiated through those.
#include "ops/activation_slope.h"
#include "ops/constant.h"
#include "ops/elementwise.h"
#include "ops/grad_context.h"
#include "ops/linear_scan.h"
#include "ops/product.h"
#include "ops/recurrent.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

void require_functional(GradContext& c, int state) {
  if (c.arity() > state && c.shape(state).is_state())
    c.unsupported("the form with a recurrent state has no gradient: training uses the functional form");
}

// Dims of a call: [batch, seq] and then `rest`.
struct Lead {
  Dim batch, seq;
  std::vector<Dim> with(std::initializer_list<Dim> rest) const {
    std::vector<Dim> dims = {batch, seq};
    dims.insert(dims.end(), rest);
    return dims;
  }
};
Lead lead_of(GradContext& c) { return {c.shape(0).dim(0), c.shape(0).dim(1)}; }

// The state before the first row, of the dims given.
Value start_state(GradContext& c, int state, const std::vector<Dim>& dims) {
  return c.arity() > state ? c.reshape(c.fresh(state), dims) : c.b(Full{.dims = DimList(dims)});
}

// The state after the last row: row `seq` of the start and the states [batch, seq, ...]; in the dims of result 1.
Value last_state(GradContext& c, Value start, Value states) {
  std::vector<Dim> dims(c.b.shape(states).dims().begin(), c.b.shape(states).dims().end());
  const Dim seq = dims[1];
  dims[1] = 1;
  const Value all = c.b(Concat{.axis = 1}, c.reshape(start, dims), states);
  return c.reshape(c.b(Slice{.axis = 1, .start = seq, .stop = seq + 1}, all), c.out_shape(1).dims());
}

Dim columns_of(GradContext& c, int i) { return c.shape(i).dim(-1); }

}  // namespace

// With r the state's rows and then x's: y[t] = act(bias + sum over j of w[j] r[t + j]).
void CausalConv1d::grad(GradContext& c) const {
  const int state = state_at();
  require_functional(c, state);
  const Lead lead = lead_of(c);
  const Dim n = columns_of(c, 0), seq = lead.seq;
  const auto taps = static_cast<std::int32_t>(c.shape(1).dim(0).constant().value());
  const Value before = c.arity() > state ? c.in(state) : c.b(Full{.dims = {lead.batch, Dim(taps - 1), n}});
  const Value rows = c.b(Concat{.axis = 1}, before, c.in(0)), w = c.in(1);
  Value g = c.grad();
  if (act != Act::none) {
    std::vector<Value> inputs;
    for (int i = 0; i < c.arity(); ++i) inputs.push_back(c.raw(i));
    g = c.times(g, activation_slope(c, act, c.b.emit(CausalConv1d{.bias = bias}, std::move(inputs))));
  }
  if (bias) c.add(2, g);
  Value of_rows = c.has_grad(1) ? c.b(Pad{.axis = 1, .before = seq}, c.grad(1)) : c.fill(c.b.shape(rows), 0);
  for (std::int32_t j = 0; j < taps; ++j) {
    const std::int32_t left = taps - 1 - j;
    const Value tap = c.b(Slice{.axis = 0, .start = j, .stop = j + 1}, w);
    of_rows = c.plus(of_rows, c.b(Pad{.axis = 1, .before = j, .after = left}, c.times(g, tap)));
    if (!c.wants(1)) continue;
    const Value seen = c.b(Slice{.axis = 1, .start = j, .stop = seq + j}, rows);
    const Value lines = c.reshape(c.times(g, seen), std::vector<Dim>{lead.batch * seq, n});
    c.add(1, c.b(Pad{.axis = 0, .before = j, .after = left}, c.sum(lines, 0, true)));
  }
  c.add(0, c.b(Slice{.axis = 1, .start = taps - 1, .stop = seq + (taps - 1)}, of_rows));
  if (c.arity() > state) c.add(state, c.b(Slice{.axis = 1, .start = 0, .stop = taps - 1}, of_rows));
}

void SelectiveScan::grad(GradContext& c) const {
  require_functional(c, kState);
  const Lead lead = lead_of(c);
  const Dim n = columns_of(c, 0), states = c.shape(2).dim(0);
  const Value x = c.fresh(0), steps = softplus ? c.unary(UnaryFunction::softplus, c.fresh(1)) : c.fresh(1);
  const Value dt = c.reshape(steps, lead.with({1, n}));
  const Value decay = c.unary(UnaryFunction::exp, c.times(dt, c.fresh(2)));  // [batch, seq, states, n]
  const Value into = c.reshape(c.fresh(3), lead.with({states, 1})), out = c.reshape(c.fresh(4), lead.with({states, 1}));
  const Value update = c.times(c.times(dt, c.reshape(x, lead.with({1, n}))), into);
  const std::vector<Dim> flat = lead.with({states * n});
  const Value start = start_state(c, kState, {lead.batch, states * n});
  const Value h = c.b(LinearScan{}, c.reshape(decay, flat), c.reshape(update, flat), start);
  const Value read = c.sum(c.times(out, c.reshape(h, lead.with({states, n}))), 2, false);
  c.through({c.plus(read, c.times(c.fresh(5), x)), last_state(c, start, h)});
}

void SsdScan::grad(GradContext& c) const {
  require_functional(c, kState);
  const Lead lead = lead_of(c);
  const Dim count = heads, lanes = columns_of(c, 0).constant().value() / heads,
            states = columns_of(c, 3).constant().value() / groups;
  Value dt = c.plus(c.fresh(1), c.fresh(6));
  if (softplus) dt = c.unary(UnaryFunction::softplus, dt);
  dt = c.b(Clamp{.low = dt_min, .high = dt_max}, dt);
  const Value factor = c.unary(UnaryFunction::exp, c.times(dt, c.fresh(2)));
  const std::vector<Dim> full = lead.with({count, states, lanes}), flat = lead.with({count * states * lanes});
  const Value decay = c.broadcast_to(c.reshape(factor, lead.with({count, 1, 1})), full);
  const auto by_head = [&](int i) {  // the values of a head's group, as [batch, seq, heads, states, 1]
    const Value by_group = c.reshape(c.fresh(i), lead.with({groups, 1, states}));
    const Value spread = c.broadcast_to(by_group, lead.with({groups, heads / groups, states}));
    return c.reshape(spread, lead.with({count, states, 1}));
  };
  const Value x = c.reshape(c.fresh(0), lead.with({count, lanes}));
  const Value scaled = c.reshape(c.times(c.reshape(dt, lead.with({count, 1})), x), lead.with({count, 1, lanes}));
  const Value update = c.times(by_head(3), scaled);
  const Value start = start_state(c, kState, {lead.batch, count * states * lanes});
  const Value s = c.b(LinearScan{}, c.reshape(decay, flat), c.reshape(update, flat), start);
  const Value read = c.sum(c.times(by_head(4), c.reshape(s, full)), 3, false);
  const Value skip = c.times(c.reshape(c.fresh(5), std::vector<Dim>{count, 1}), x);
  c.through({c.reshape(c.plus(read, skip), c.out_shape().dims()), last_state(c, start, s)});
}

namespace {

// Keys or queries of each head, as [batch, heads, seq, key_dim].
Value keys_by_head(GradContext& c, const GatedDelta& op, int i, Dim keys) {
  const Lead lead = lead_of(c);
  Value v = c.reshape(c.fresh(i), lead.with({op.key_heads, 1, keys}));
  if (op.l2_norm) {
    const Value squares = c.sum(c.square(v), 4, true);
    v = c.times(v, c.unary(UnaryFunction::rsqrt, c.plus(squares, c.constant(double{op.eps}, squares))));
  }
  v = c.reshape(c.broadcast_to(v, lead.with({op.key_heads, op.heads / op.key_heads, keys})),
                lead.with({op.heads, keys}));
  return c.b(Transpose{{0, 2, 1, 3}}, v);
}

}  // namespace

// Each head of each sequence is one of the delta scan.
void GatedDelta::grad(GradContext& c) const {
  require_functional(c, kState);
  const Lead lead = lead_of(c);
  const Dim count = heads, keys = columns_of(c, 0).constant().value() / key_heads,
            values = columns_of(c, 2).constant().value() / heads, all = lead.batch * heads;
  const Value v = c.b(Transpose{{0, 2, 1, 3}}, c.reshape(c.fresh(2), lead.with({count, values})));
  const Value decay = c.b(Transpose{{0, 2, 1}}, c.unary(UnaryFunction::exp, c.fresh(3)));
  const Value beta = c.reshape(c.b(Transpose{{0, 2, 1}}, c.fresh(4)), std::vector<Dim>{all, lead.seq});
  const Value k = c.reshape(keys_by_head(c, *this, 1, keys), std::vector<Dim>{all, lead.seq, keys});
  const Value written = c.times(c.reshape(k, std::vector<Dim>{all, lead.seq, keys, 1}),
                                c.reshape(v, std::vector<Dim>{all, lead.seq, 1, values}));
  const Value update = c.times(c.reshape(beta, std::vector<Dim>{all, lead.seq, 1, 1}), written);
  const Value start = start_state(c, kState, {all, keys, values});
  const Value s = c.b(DeltaScan{}, c.reshape(decay, std::vector<Dim>{all, lead.seq}), beta, k, update, start);
  const Value q = c.reshape(keys_by_head(c, *this, 0, keys), std::vector<Dim>{all, lead.seq, keys, 1});
  const Value read = c.scaled(c.sum(c.times(q, s), 2, false), double{scale});  // [all, seq, values]
  const Value rows = c.b(Transpose{{0, 2, 1, 3}},
                         c.reshape(read, std::vector<Dim>{lead.batch, count, lead.seq, values}));
  c.through({c.reshape(rows, c.out_shape().dims()), last_state(c, start, s)});
}

}  // namespace rlx
