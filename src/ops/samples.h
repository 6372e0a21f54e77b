// Words that the samples() of the ops are written in.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ir/sample.h"

namespace rlx::samples {

// Row counts and widths around the edges of kernel tiles (4, 8, 16 and 64 rows, panels of 16
// columns), each in turn.
inline constexpr std::int64_t kRows[] = {1, 2, 3, 5, 8, 17, 65};
inline constexpr std::int64_t kWidths[] = {1, 15, 16, 17, 48};

/// Deals the values of a list one after the other, so that combinations vary without multiplying.
template <std::size_t N>
std::int64_t deal(const std::int64_t (&list)[N], std::size_t turn) {
  return list[turn % N];
}

/// Every dtype that weights are stored in.
std::vector<DType> weight_dtypes();
/// Lengths of a weight's rows for a dtype: tails for plain floats, whole blocks for block formats.
std::int64_t deal_row_length(DType dtype, std::size_t turn);

SampleOperand normal(std::initializer_list<Dim> dims, DType dtype = DType::f32, float scale = 1.0f);
/// Integers in [0, limit), in any dtype that encodes them.
SampleOperand integers(std::initializer_list<Dim> dims, float limit, DType dtype = DType::f32);
SampleOperand frequencies(std::int64_t n, float base = 10000.0f);
SampleOperand given(std::vector<std::int32_t> values);
SampleOperand given(std::initializer_list<Dim> dims, std::vector<std::int32_t> values);

/// The sequences of a step: per sequence its cached tokens, its new rows and its slot.
struct Batch {
  std::string name;
  std::vector<std::int32_t> past, rows, slot;
  std::int32_t slots, pages_per_slot;

  std::int64_t total_rows() const;
  SampleOperand cache(std::int64_t kv_heads, std::int64_t head_dim, DType dtype) const;
  SampleOperand seq_start() const;
  SampleOperand pasts() const { return given(past); }
  SampleOperand slot_ids() const { return given(slot); }
  SampleOperand pages() const;
  SampleOperand positions() const;
  /// A recurrent state for the slots.
  SampleOperand recurrent(std::initializer_list<std::int64_t> dims) const;
};

/// Prompts, decode steps and mixed batches: pages partly filled, tokens at the edges of pages and
/// splits (63, 64, 127, 128), sequences without rows, slots in another order than the sequences.
std::vector<Batch> batches();

}  // namespace rlx::samples
