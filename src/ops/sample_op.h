// Choosing tokens inside a graph.
#pragma once

#include <cstddef>

#include "ir/op.h"

namespace rlx {

/// A token of each row of logits: the best `top_k` (0: all), of those the smallest set that reaches
/// probability `top_p` (https://arxiv.org/abs/1904.09751), of those what has at least `min_p` of the
/// best probability (https://arxiv.org/abs/2407.01082), one drawn at `temperature`; 0: the best,
/// of equal ones the lower id. The order is that of text/sampler.h without its penalties, which need
/// the text so far: with the same options, seed and step both choose the same token.
/// Random numbers are Philox 4x32-10 (base/philox.h) of (seed, counter), so that a row's token depends
/// on neither the other rows nor threads.
/// logits: f32[rows, vocab]. With `streams` two operands follow: seeds i32[rows, 2], the low and the
/// high half of each row's 64-bit seed, and steps i32[rows], the row's counter. Without them the key
/// is `seed` and the counter the number of the row. Result: i32[rows]; -1 for a row with a NaN or
/// +inf, or of only -inf.
struct SampleToken {
  float temperature = 0.8f;
  std::int32_t top_k = 40;
  float top_p = 0.95f;
  float min_p = 0.05f;
  std::int64_t seed = 0;
  bool streams = false;

  static constexpr std::string_view name = "sample";
  static constexpr Trait traits = Trait::sampling;
  static constexpr std::array<std::string_view, 3> operands = {"logits", "seeds", "steps"};
  static constexpr int optional_operands = 2;
  static constexpr auto fields(auto...) {
    using S = SampleToken;
    return std::tuple{field("temperature", &S::temperature), field("top_k", &S::top_k),
                      field("top_p", &S::top_p),             field("min_p", &S::min_p),
                      field("seed", &S::seed),               field("streams", &S::streams)};
  }
  bool operator==(const SampleToken&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// Bytes of working memory for a row of `vocab` logits.
std::size_t sample_scratch_bytes(std::int64_t vocab);
/// The rows of the worker of `args`; `scratch` is that worker's, 8-byte aligned. What both the
/// reference and the CPU kernel run: a draw has no tolerance, so there is one implementation.
void sample_rows(const SampleToken& op, const KernelArgs& args, std::byte* scratch) noexcept;

using SampleOps = OpList<SampleToken>;

}  // namespace rlx
