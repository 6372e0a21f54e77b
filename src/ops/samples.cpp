#include "ops/samples.h"

#include <numeric>

namespace rlx::samples {

std::vector<DType> weight_dtypes() {
  std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16};
  for (const DTypeInfo& d : all_dtypes())
    if (d.is_quantized && d.dtype != DType::xq8) dtypes.push_back(d.dtype);
  return dtypes;
}

std::int64_t deal_row_length(DType dtype, std::size_t turn) {
  constexpr std::int64_t kFloats[] = {5, 96, 7, 100, 256, 32}, kBlocks[] = {96, 32, 256, 512},
                         kSuperBlocks[] = {256, 512, 768};
  const int block = info(dtype).block_elements;
  if (block == 1) return deal(kFloats, turn);
  return block == 32 ? deal(kBlocks, turn) : deal(kSuperBlocks, turn);
}

SampleOperand normal(std::initializer_list<Dim> dims, DType dtype, float scale) {
  return {Shape(dims, dtype), Fill::normal, scale, {}};
}

SampleOperand integers(std::initializer_list<Dim> dims, float limit, DType dtype) {
  return {Shape(dims, dtype), Fill::range, limit, {}};
}

SampleOperand frequencies(std::int64_t n, float base) {
  return {Shape({n}, DType::f32), Fill::frequencies, base, {}};
}

SampleOperand given(std::vector<std::int32_t> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return {Shape({n}, DType::i32), Fill::given, 1.0f, std::move(values)};
}

SampleOperand given(std::initializer_list<Dim> dims, std::vector<std::int32_t> values) {
  return {Shape(dims, DType::i32), Fill::given, 1.0f, std::move(values)};
}

std::int64_t Batch::total_rows() const {
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

SampleOperand Batch::cache(std::int64_t kv_heads, std::int64_t head_dim, DType dtype) const {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(slots),
                                   3);  // of sequences that rest in this step
  for (std::size_t b = 0; b < slot.size(); ++b) tokens[static_cast<std::size_t>(slot[b])] = past[b];
  return {Shape::kv_state(kv_heads, head_dim, dtype), Fill::kv, 1.0f, std::move(tokens)};
}

SampleOperand Batch::seq_start() const {
  std::vector<std::int32_t> starts = {0};
  for (std::int32_t n : rows) starts.push_back(starts.back() + n);
  return given(std::move(starts));
}

SampleOperand Batch::pages() const {
  const std::int32_t total = slots * pages_per_slot;
  std::int32_t step = total == 1 ? 1 : total - 1;
  for (std::int32_t s : {7, 5, 3})
    if (std::gcd(s, total) == 1) step = s;
  std::vector<std::int32_t> table;
  for (std::int32_t i = 0; i < total; ++i) table.push_back((i * step + 1) % total);
  return {Shape::page_table(), Fill::pages, 1.0f, std::move(table)};
}

SampleOperand Batch::positions() const {
  std::vector<std::int32_t> tokens;
  for (std::size_t b = 0; b < rows.size(); ++b)
    for (std::int32_t r = 0; r < rows[b]; ++r) tokens.push_back(past[b] + r);
  return given(std::move(tokens));
}

SampleOperand Batch::recurrent(std::initializer_list<std::int64_t> dims) const {
  return {Shape::recurrent_state(dims), Fill::recurrent, 1.0f, {slots}};
}

std::vector<Batch> batches() {
  return {
      {"first_token", {0}, {1}, {0}, 1, 1},
      {"prompt_17", {0}, {17}, {0}, 2, 2},
      {"prompt_65", {0}, {65}, {1}, 2, 2},
      {"decode_at_63", {63}, {1}, {0}, 1, 2},
      {"decode_at_64", {64}, {1}, {2}, 3, 2},
      {"decode_past_split", {127}, {2}, {0}, 2, 3},
      {"chunk_over_pages", {61}, {8}, {1}, 2, 3},
      {"decode_three", {5, 130, 0}, {1, 1, 1}, {2, 0, 1}, 4, 3},
      {"ragged", {0, 70, 128, 3}, {5, 1, 3, 8}, {3, 1, 0, 4}, 5, 4},
      {"one_rests", {9, 20, 64}, {2, 0, 1}, {1, 2, 0}, 3, 2},
  };
}

}  // namespace rlx::samples
