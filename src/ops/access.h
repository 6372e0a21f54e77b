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
/// Rounds to the dtype of the view (f32, f16, bf16).
void store(const TensorView& v, std::int64_t row, std::int64_t column, double value);
void store_row(const TensorView& v, std::int64_t row, const double* values);

/// Element i of an i32 view of rank 1, which must lie in [0, limit); Error(invalid_argument) that
/// names `what` when not.
std::int64_t load_index(const TensorView& v, std::int64_t i, std::int64_t limit, const char* what);
/// Element i of an i32 view of rank 1.
std::int64_t load_int(const TensorView& v, std::int64_t i);

}  // namespace rlx::access
