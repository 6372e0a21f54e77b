// Operands of the references: rows of any dtype as double, the part of a worker, indices that are
// checked.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/kernel_args.h"
#include "tensor/tensor.h"

namespace rlx::access {

/// A contiguous view of a tensor's bytes. References write only through views of their results.
TensorView view_of(const Tensor& tensor);

/// The half-open range of 0..n that this worker does.
struct Part {
  std::int64_t begin, end;
};
Part part_of(const KernelArgs& a, std::int64_t n);

std::int64_t row_count(const TensorView& v);  ///< product of all dims but the last
std::int64_t columns(const TensorView& v);    ///< the last dim; 1 for rank 0
/// Start of row `row` of the row_count(v) rows.
std::byte* row_pointer(const TensorView& v, std::int64_t row);

/// All values of a row as double; block formats are decoded. `out` holds columns(v) values.
void load_row(const TensorView& v, std::int64_t row, double* out);
/// Rows begin..end one after the other.
std::vector<double> load_rows(const TensorView& v, std::int64_t begin, std::int64_t end);
/// Row `row` of the result's rows, of an operand that broadcasts to `result`; `out` holds
/// columns(result) values.
void load_broadcast(const TensorView& v, const TensorView& result, std::int64_t row, double* out);
/// One value of a plain dtype.
double load(const TensorView& v, std::int64_t row, std::int64_t column);
/// Rounds to the dtype of the view: f32, f16, bf16 (f64: as it is); i32 modulo 2^32 (wrap_i32); boolean 1 for
/// anything but 0.
void store(const TensorView& v, std::int64_t row, std::int64_t column, double value);
void store_row(const TensorView& v, std::int64_t row, const double* values);

/// The int32 that `value` is modulo 2^32, fractions dropped; values of 2^62 and more end at the
/// limits, NaN is 0.
std::int32_t wrap_i32(double value);

/// Element i in row-major order, and its value.
std::byte* element(const TensorView& v, std::int64_t i);
double load_at(const TensorView& v, std::int64_t i);
void store_at(const TensorView& v, std::int64_t i, double value);

/// Axis `axis` of `rank`, a negative one counted from the end.
int axis_of(int axis, int rank);
/// A tensor as lines along one axis: element k of line l lies at(l, k) in row-major order.
struct Lines {
  std::int64_t outer, length, inner;  ///< products of the dims before, of and after the axis
  std::int64_t count() const { return outer * inner; }
  std::int64_t at(std::int64_t line, std::int64_t k) const {
    return (line / inner * length + k) * inner + line % inner;
  }
};
Lines lines_of(const TensorView& v, int axis);

/// The view that reads v's axis axes[i] as its axis i; there may be fewer axes than v has.
TensorView permuted(const TensorView& v, const int* axes, int count);
/// The view of v with the dims of `to` (rank and sizes), which v broadcasts to.
TensorView broadcast(const TensorView& v, const TensorView& to);
/// Copies the rows of a worker, as bytes, between views of the same dims and plain dtype.
void copy_rows(const KernelArgs& a, const TensorView& from, const TensorView& to);

/// Element i, in row-major order, of an i32 view. One outside [0, limit) is an
/// Error(invalid_argument) that names `what`.
std::int64_t load_index(const TensorView& v, std::int64_t i, std::int64_t limit, const char* what);
/// Element i, in row-major order, of an i32 view.
std::int64_t load_int(const TensorView& v, std::int64_t i);

}  // namespace rlx::access
