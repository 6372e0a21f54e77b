// Gradients of ops/dense_attention.h. DenseAttention has a body.
#include "ops/constant.h"
#include "ops/dense_attention.h"
#include "ops/elementwise.h"
#include "ops/grad_context.h"
#include "ops/product.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/shape_ops.h"

namespace rlx {

// Only the row counts of the operands matter.
void AttentionMask::grad(GradContext&) const {}

// The op applied to the unit table gives the one-hot columns of the distances' buckets.
void RelativeBias::grad(GradContext& c) const {
  const Dim buckets = c.shape(0).dim(0);
  const Value rows = c.b(Iota{.dims = {buckets, 1}}), columns = c.b(Iota{.dims = {1, buckets}, .axis = 1});
  const Value unit = c.mask(Relation::eq, rows, columns);
  c.add(0, c.b(BatchedMatmul{.transpose_b = true}, c.b(*this, unit), c.grad()));
}

namespace {

// Where the rows of a batch belong. Tables of sequences have a row more at both ends, for rows before the first
// sequence and after the last one.
class SequenceRows {
 public:
  SequenceRows(GradContext& c, Dim rows, Value starts) : c_(c), starts_(starts), rows_(rows) {
    batch_ = c.b.shape(starts).dim(0) - 1;
    const Value row = c.b(Iota{.dims = {1, rows}, .axis = 1});
    const Value begun = c.compare(Relation::le, c.reshape(starts, std::vector<Dim>{batch_ + 1, 1}), row);
    number_ = c.sum(c.where(begun, integer(1), integer(0)), 0, false);
  }

  /// Of a value per sequence, [batch, n] or i32[batch]: that of each row's sequence, zeros (-1) for rows of none.
  Value per_row(Value of_sequence) const { return c_.b(Gather{}, padded(of_sequence), number_); }
  /// The sums of the rows of each sequence, of x f32[rows, n].
  Value sums(Value x) const {
    const Value zeros = c_.b(Full{.dims = {batch_ + 2, c_.b.shape(x).dim(1)}});
    return c_.b(Slice{.start = 1, .stop = batch_ + 1}, c_.b(ScatterAdd{}, zeros, number_, x));
  }
  Value begins() const { return c_.b(Slice{.start = 0, .stop = batch_}, starts_); }
  Value ends() const { return c_.b(Slice{.start = 1, .stop = batch_ + 1}, starts_); }
  /// f32[rows, 1]: 1 where the row is `place` of its sequence, else 0.
  Value is_at(Value place) const {
    const Value row = c_.b(Iota{.dims = {rows_}});
    return c_.reshape(c_.mask(Relation::eq, per_row(place), row), std::vector<Dim>{rows_, 1});
  }
  /// f32[batch, 1]: the rows of each sequence, at least 1.
  Value counts() const {
    const Value count = c_.b(Cast{.to = DType::f32}, c_.b(Sub{}, ends(), begins()));
    return c_.b(Clamp{.low = 1.0f}, c_.reshape(count, std::vector<Dim>{batch_, 1}));
  }

 private:
  Value integer(int value) const {
    return c_.b(Full{.dims = {1, 1}, .value = static_cast<float>(value), .dtype = DType::i32});
  }
  Value padded(Value v) const {
    const bool index = c_.b.shape(v).dtype == DType::i32;
    return c_.b(Pad{.before = 1, .after = 1, .value = index ? -1.0f : 0.0f}, v);
  }

  GradContext& c_;
  Value starts_, number_;
  Dim rows_, batch_;
};

}  // namespace

void PoolSequences::grad(GradContext& c) const {
  if (!c.wants(0)) return;
  const SequenceRows of(c, c.shape(0).dim(0), c.raw(1));
  const Value g = c.grad();
  switch (kind) {
    case SequencePooling::first:
      return c.add(0, c.times(of.per_row(g), of.is_at(of.begins())));
    case SequencePooling::last: {
      const Value one = c.b(Full{.dims = {1}, .value = 1.0f, .dtype = DType::i32});
      return c.add(0, c.times(of.per_row(g), of.is_at(c.b(Sub{}, of.ends(), one))));
    }
    case SequencePooling::mean:
      return c.add(0, of.per_row(c.over(g, of.counts())));
    case SequencePooling::max: {  // shared by the rows that are equal
      const Value chosen = c.mask(Relation::eq, c.in(0), of.per_row(c.out()));
      const Value share = c.over(g, c.b(Clamp{.low = 1.0f}, of.sums(chosen)));
      return c.add(0, c.times(of.per_row(share), chosen));
    }
  }
}

}  // namespace rlx
