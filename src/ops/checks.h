// What the infer() of several ops checks. Messages say which operand and which two extents
// disagree.
#pragma once

#include <concepts>
#include <string>

#include "ir/infer.h"

namespace rlx::checks {

/// "[5, 64]": the dims of a shape.
std::string dims_text(const Shape& shape);

/// An operand and what messages call it: its name in the op's list, or another where optional
/// operands shift the places.
struct Operand {
  Operand(int i) : index(i) {}  // NOLINT: operands are written as plain numbers
  Operand(int i, std::string_view own_name) : index(i), name(own_name) {}
  std::string_view called(const InferContext& c) const {
    return name.empty() ? c.operand(index) : name;
  }
  int index;
  std::string_view name;
};

/// Both sizes are equal: an Error now when they are known to differ, a check for later when that is
/// open. `message()` makes the text without the op's name; it is called only when it is needed.
template <std::invocable Message>
void same(InferContext& c, Dim a, Dim b, Message message) {
  if (a == b) return;
  if ((a - b).is_constant()) c.fail_text(message());
  c.equal(a, b, message());
}

/// least <= most: an Error now when the difference is known, a check for later when that is open.
/// Exact for differences below 2^31.
template <std::invocable Message>
void at_most(InferContext& c, Dim least, Dim most, Message message) {
  const Dim excess = least - most;
  if (const auto known = excess.constant()) {
    if (*known > 0) c.fail_text(message());
    return;
  }
  // Checks are equations: ceil(x / 2^31) is 0 for x in (-2^31, 0] and 1 for x in (0, 2^31].
  c.equal(ceil_div(excess, std::int64_t{1} << 31), 0, message());
}

/// Exactly this many operands; `why` names the attributes that ask for the optional ones.
void operand_count(InferContext& c, int expected, std::string_view why = {});
/// The operand is a tensor of this dtype and rank in the plain layout.
void plain(InferContext& c, Operand o, DType dtype, int rank);
/// The operand is a tensor of any rank in the plain layout, of a dtype without blocks.
void array(InferContext& c, Operand o);
/// The same, of one of these dtypes.
void array(InferContext& c, int i, std::initializer_list<DType> any_of);
/// The shape that two shapes broadcast to as in NumPy, in the dtype of `a`. A symbolic size never
/// repeats: it must equal the other one.
struct NamedShape {
  Shape shape;
  std::string_view name;
};
Shape broadcast(InferContext& c, const NamedShape& a, const NamedShape& b);
/// An axis of an operand, a negative one counted from the end: its place in [0, rank).
int axis(InferContext& c, Operand o, int axis, std::string_view name = "axis");
/// The operand is a tensor [n, k] of a dtype that weights are stored in; of rank 3: [experts, n, k].
void weight(InferContext& c, Operand o, int rank = 2);
/// The operand is a vector of n values of a dtype; `of` says what asks for n: "heads * head_dim".
void vector(InferContext& c, Operand o, DType dtype, Dim n, std::string_view of);
/// The operand has `n` columns (its last dim) or rows (its first); `of` says what asks for n.
void has_columns(InferContext& c, Operand o, Dim n, std::string_view of);
void has_rows(InferContext& c, Operand o, Dim n, std::string_view of);
/// Operand `at`, which is added to the result: f32, plain, of its shape.
void residual(InferContext& c, int at, const Shape& y);
/// The last dim of the operand is a multiple of `of`; `why` says for what: "groups of 32".
void multiple(InferContext& c, Operand o, std::int64_t of, std::string_view why);
/// An attribute lies in [least, most].
void attribute(InferContext& c, std::string_view name, double value, double least, double most);

inline constexpr double kNoLimit =
    3.4e38;  ///< the largest float, about: an attribute that may be anything finite

}  // namespace rlx::checks
