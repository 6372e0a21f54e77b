#include "ops/recurrent_state.h"

#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"

namespace rlx::recurrent {

Form infer_form(InferContext& c, int first) {
  if (c.arity() == first) return Form::from_zeros;
  const bool is_state = c.in(first).kind == ShapeKind::recurrent;
  checks::operand_count(c, is_state ? first + 4 : first + 1,
                        is_state ? "the state form: state, seq_start, past, slot"
                                 : "the functional form: a state as a tensor, or none");
  return is_state ? Form::stateful : Form::functional;
}

void infer_x(InferContext& c, Form form) {
  checks::plain(c, 0, DType::f32, form == Form::stateful ? 2 : 3);
}

void infer_rows(InferContext& c, int i, Dim n, std::string_view of) {
  const Shape& x = c.in(0);
  checks::plain(c, i, DType::f32, x.rank());
  checks::has_columns(c, i, n, of);
  for (int axis = 0; axis + 1 < x.rank(); ++axis)
    checks::same(c, c.in(i).dim(axis), x.dim(axis), [&] {
      return fmt::format("{} {}: expected the leading dims of {} {}", c.operand(i),
                         checks::dims_text(c.in(i)), c.operand(0), checks::dims_text(x));
    });
}

namespace {

void infer_steps(InferContext& c, int first) {
  const checks::Operand past(first + 1, "past");
  checks::plain(c, past, DType::i32, 1);
  const Dim batch = c.in(first + 1).dim(0);
  checks::vector(c, {first, "seq_start"}, DType::i32, batch + 1, "batch + 1");
  checks::vector(c, {first + 2, "slot"}, DType::i32, batch, "batch");
}

}  // namespace

void infer_state(InferContext& c, Form form, int first, std::initializer_list<Dim> dims) {
  std::vector<Dim> expected;
  if (form != Form::stateful) expected.push_back(c.in(0).dim(0));
  expected.insert(expected.end(), dims);
  const Shape rows(std::span<const Dim>(expected), DType::f32);
  if (form == Form::from_zeros) return c.out(rows);
  const Shape& state = c.in(first);
  if (form == Form::functional)
    checks::plain(c, {first, "state"}, DType::f32, rows.rank());
  else if (state.rank() != rows.rank() || state.dtype != DType::f32)
    c.fail("state: expected recurrent<f32>{}, found {}", checks::dims_text(rows), state.text());
  for (int i = 0; i < rows.rank(); ++i)
    checks::same(c, state.dim(i), rows.dim(i), [&] {
      return fmt::format("state: expected {}, found {}", checks::dims_text(rows), state.text());
    });
  if (form == Form::stateful) infer_steps(c, first + 1);
  c.out(state);
}

std::int64_t width(InferContext& c, int i) {
  const auto n = c.in(i).rank() > 0 ? c.in(i).dim(-1).constant() : std::nullopt;
  if (!n || *n < 1)
    c.fail("{}: expected a fixed last dim of at least 1, found {}", c.operand(i), c.in(i).text());
  return *n;
}

std::int64_t divide(InferContext& c, int i, std::int64_t by, std::string_view attribute) {
  checks::attribute(c, attribute, static_cast<double>(by), 1, INT32_MAX);
  const std::int64_t n = width(c, i);
  if (n % by != 0)
    c.fail("{}: expected a divisor of the {} columns of {}, found {}", attribute, n, c.operand(i),
           by);
  return n / by;
}

Runs::Runs(const KernelArgs& a, int first) : after_(&a.out[1]) {
  for (int i = 1; i < after_->rank; ++i) size_ *= after_->dims[i];
  if (a.inputs > first) before_ = &a.in[first];
  if (a.inputs > first + 1) {
    read_sequences(a, first);
    return;
  }
  const std::int64_t seq = a.in[0].dims[1];
  for (std::int64_t b = 0; b < a.in[0].dims[0]; ++b)
    runs_.push_back({b * seq, (b + 1) * seq, b, before_ == nullptr});
}

void Runs::read_sequences(const KernelArgs& a, int first) {
  const TensorView &starts = a.in[first + 1], &past = a.in[first + 2], &slot = a.in[first + 3];
  const std::int64_t rows = a.in[0].dims[0];
  std::int64_t begin = access::load_index(starts, 0, rows + 1, "seq_start");
  for (std::int64_t b = 0; b < past.dims[0]; ++b) {
    const std::int64_t end = access::load_index(starts, b + 1, rows + 1, "seq_start");
    if (end < begin)
      fail(ErrorCode::invalid_argument,
           "seq_start: expected values that do not fall, found {} after {}", end, begin);
    const std::int64_t row = access::load_index(slot, b, before_->dims[0], "slot");
    const bool fresh = access::load_index(past, b, INT32_MAX, "past") == 0;
    if (end > begin) runs_.push_back({begin, end, row, fresh});
    begin = end;
  }
}

std::vector<double> Runs::load(std::int64_t b, std::int64_t first, std::int64_t n,
                               std::int64_t step) const {
  std::vector<double> values(static_cast<std::size_t>(n), 0.0);
  if (at(b).fresh) return values;
  for (std::int64_t i = 0; i < n; ++i)
    values[static_cast<std::size_t>(i)] =
        access::load_at(*before_, at(b).row * size_ + first + i * step);
  return values;
}

void Runs::store(std::int64_t b, std::int64_t first, const std::vector<double>& values,
                 std::int64_t step) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    access::store_at(*after_, at(b).row * size_ + first + static_cast<std::int64_t>(i) * step,
                     values[i]);
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace rlx::recurrent
