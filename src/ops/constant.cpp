#include "ops/constant.h"

#include <cmath>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {

void Full::infer(InferContext& c) const {
  checks::operand_count(c, 0);
  const bool is_integer = dtype == DType::i32 || dtype == DType::boolean;
  if (!is_integer && dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    c.fail("dtype: expected f32, f16, bf16, i32 or boolean, found {}", rlx::name(dtype));
  if (is_integer && !(std::abs(value) < 0x1p31f && value == std::floor(value)))
    c.fail("value: expected an integer for {}, found {}", rlx::name(dtype), value);
  c.out(Shape(dims.dims(), dtype));
}

void Full::reference(const KernelArgs& a) const {
  const TensorView& y = a.out[0];
  const auto part = access::part_of(a, access::row_count(y));
  for (std::int64_t r = part.begin; r < part.end; ++r)
    for (std::int64_t i = 0; i < access::columns(y); ++i) access::store(y, r, i, double{value});
}

void Iota::infer(InferContext& c) const {
  checks::operand_count(c, 0);
  const int rank = dims.size();
  if (axis < -rank || axis >= rank) c.fail("axis: expected {} to {}, found {}", -rank, rank - 1, axis);
  c.out(Shape(dims.dims(), DType::i32));
}

void Iota::reference(const KernelArgs& a) const {
  const TensorView& y = a.out[0];
  const auto lines = access::lines_of(y, axis);
  const auto first = static_cast<std::uint32_t>(start.constant().value_or(0)),
             by = static_cast<std::uint32_t>(step.constant().value_or(0));
  const auto part = access::part_of(a, lines.count());
  for (std::int64_t line = part.begin; line < part.end; ++line)
    for (std::int64_t k = 0; k < lines.length; ++k)
      access::store_at(y, lines.at(line, k),
                       static_cast<double>(static_cast<std::int32_t>(first + by * static_cast<std::uint32_t>(k))));
}

std::vector<Sample> Full::samples() {
  return {make_sample("zeros", Full{.dims = {5, 17}}, {}),
          make_sample("vector", Full{.dims = {100}, .value = -2.5f}, {}),
          make_sample("scalar", Full{.dims = {}, .value = 1.0f}, {}),
          make_sample("f16", Full{.dims = {3, 2, 7}, .value = 0.1f, .dtype = DType::f16}, {}),
          make_sample("bf16", Full{.dims = {33}, .value = 0.1f, .dtype = DType::bf16}, {}),
          make_sample("i32", Full{.dims = {2, 9}, .value = -7.0f, .dtype = DType::i32}, {}),
          make_sample("true", Full{.dims = {19}, .value = 1.0f, .dtype = DType::boolean}, {})};
}

std::vector<Sample> Iota::samples() {
  return {make_sample("vector", Iota{.dims = {100}}, {}),
          make_sample("rows", Iota{.dims = {5, 17}, .start = 3, .step = 17}, {}),
          make_sample("columns", Iota{.dims = {5, 17}, .axis = 1, .step = -2}, {}),
          make_sample("last", Iota{.dims = {2, 3, 4}, .axis = -1, .start = -1}, {}),
          make_sample("middle", Iota{.dims = {2, 3, 4}, .axis = 1, .start = 100, .step = 0}, {})};
}

}  // namespace rlx
