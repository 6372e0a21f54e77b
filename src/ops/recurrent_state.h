// The operands that the recurrent ops have in common (ops/recurrent.h): the state and the sequences
// of a step, in the state form and in the functional one.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "ir/infer.h"
#include "ir/kernel_args.h"

namespace rlx::recurrent {

/// What the operand `state` makes of a call.
enum class Form : std::uint8_t { from_zeros, functional, stateful };

/// The form of a call whose state is operand `first`, followed by seq_start, past and slot where the
/// state is one. Fails for another count of operands.
Form infer_form(InferContext& c, int first);
/// Operand 0, x: f32, [rows, n] in the state form, else [batch, seq, n].
void infer_x(InferContext& c, Form form);
/// Operand i: f32 with the leading dims of x and `n` columns; `of` says what asks for n.
void infer_rows(InferContext& c, int i, Dim n, std::string_view of);
/// The last operands, from `first` on. Adds the result for the state: the state itself, or f32[batch,
/// dims].
void infer_state(InferContext& c, Form form, int first, std::initializer_list<Dim> dims);
/// An attribute that divides a size: sizes of heads. The quotient; fails when it is not whole.
std::int64_t divide(InferContext& c, int i, std::int64_t by, std::string_view attribute);
/// The last dim of operand i as a number of at least 1; these ops have no symbolic widths.
std::int64_t width(InferContext& c, int i);

/// A value of a state as it is kept between rows: rounded to f32, but as it is where `like` is f64 (the interpreter's
/// f64 mode).
inline double rounded(const TensorView& like, double x) {
  return like.dtype == DType::f64 ? x : double{static_cast<float>(x)};
}

/// The sequences of a call, as the references read them. Result 1 is the state after the call.
/// Error(invalid_argument): starts that fall, a slot outside the state.
class Runs {
 public:
  Runs(const KernelArgs& a, int first);

  std::int64_t count() const { return static_cast<std::int64_t>(runs_.size()); }
  std::int64_t begin(std::int64_t b) const { return at(b).begin; }  ///< first row, of all rows
  std::int64_t end(std::int64_t b) const { return at(b).end; }
  /// Elements first, first + step, ... of a sequence's state before its first row: zeros where it
  /// starts.
  std::vector<double> load(std::int64_t b, std::int64_t first, std::int64_t n,
                           std::int64_t step = 1) const;
  double rounded(double x) const { return recurrent::rounded(*after_, x); }
  void store(std::int64_t b, std::int64_t first, const std::vector<double>& values,
             std::int64_t step = 1) const;

 private:
  struct Run {
    std::int64_t begin, end;
    std::int64_t row;  ///< of the state
    bool fresh;        ///< starts from zeros
  };
  const Run& at(std::int64_t b) const { return runs_[static_cast<std::size_t>(b)]; }
  void read_sequences(const KernelArgs& a, int first);

  const TensorView* before_ = nullptr;  ///< absent: zeros
  const TensorView* after_;
  std::int64_t size_ = 1;  ///< elements of one sequence's state
  std::vector<Run> runs_;
};

/// log(1 + e^x), without overflow.
double softplus(double x);

}  // namespace rlx::recurrent
