// Attention in functional form: queries, keys and values are rows of this step, without a cache. One op serves encoders
// (ragged, padding-free batches), cross-attention (keys of other sequences) and decoders in functional form.
#pragma once

#include "ir/op.h"

namespace rlx {

/// What is added to the scores, by head and position. pairs: bias[h, i, j] for query position i and key position j.
/// distances: bias[h, clamp(j - i, -n, n) + n], a line of 2n + 1 values per head. Positions beyond a table's end take
/// its last entry.
enum class AttentionBias : std::uint8_t { none, pairs, distances };
inline constexpr std::array<std::string_view, 3> kAttentionBiasNames = {"none", "pairs", "distances"};
constexpr std::span<const std::string_view> enum_names(AttentionBias) { return kAttentionBiasNames; }

/// softmax(scale * q k^T [soft-capped] + bias) v per head and sequence (https://arxiv.org/abs/1706.03762).
/// q: f32[q_rows, heads * head_dim]. k: f32[kv_rows, kv_heads * head_dim]. v: f32[kv_rows, kv_heads * value_dim].
/// q_start, k_start: i32[batch + 1], where each sequence's rows begin, rising; sequence b of q attends to sequence b of
/// k and v. bias, when there is one: f32[heads or 1, n, m] (pairs) or f32[heads or 1, 2n + 1] (distances). y:
/// f32[q_rows, heads * value_dim].
///
/// Query r of a sequence stands at position r; with `causal` at r + (its keys - its queries), so that new rows follow a
/// prefix, and it sees no later key. With window w > 0 it sees keys nearer than w (causal: w - 1 before it and its
/// own). Query head h uses KV head h / (heads / kv_heads). softcap > 0: scores become cap * tanh(score / cap) before
/// the bias. A query that sees no key, and a row of no sequence, gives zeros.
struct DenseAttention {
  std::int32_t heads = 1;
  std::int32_t kv_heads = 1;
  float scale = 1.0f;
  float softcap = 0.0f;
  std::int32_t window = 0;
  bool causal = false;
  AttentionBias bias = AttentionBias::none;

  static constexpr std::string_view name = "dense_attention";
  static constexpr Trait traits = Trait::compute;
  static constexpr std::array<std::string_view, 6> operands = {"q", "k", "v", "q_start", "k_start", "bias"};
  static constexpr int optional_operands = 1;
  static constexpr auto fields(auto...) {
    using D = DenseAttention;
    return std::tuple{field("heads", &D::heads),     field("kv_heads", &D::kv_heads), field("scale", &D::scale),
                      field("softcap", &D::softcap), field("window", &D::window),     field("causal", &D::causal),
                      field("bias", &D::bias)};
  }
  bool operator==(const DenseAttention&) const = default;
  void infer(InferContext&) const;
  /// Products over all pairs of rows, with AttentionMask between sequences: quadratic in the rows of the batch.
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// Which key each query of a DenseAttention sees, for its common form. q, k: f32[q_rows, *] and f32[kv_rows, *], of
/// which only the row counts matter; q_start, k_start as there. Results: mask f32[q_rows, kv_rows], 0 for a key that is
/// seen, else -1e30; seen f32[q_rows, 1], 1 for a query that sees a key, else 0; and, with a bias, index i32[q_rows,
/// kv_rows]: the pair's place in a head of the bias table of `first` (distances: 2n + 1) or `first` x `second` (pairs)
/// entries.
struct AttentionMask {
  Dim first = 1, second = 1;
  std::int32_t window = 0;
  bool causal = false;
  AttentionBias bias = AttentionBias::none;

  static constexpr std::string_view name = "attention_mask";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 4> operands = {"q", "k", "q_start", "k_start"};
  static constexpr auto fields(auto...) {
    using A = AttentionMask;
    return std::tuple{field("first", &A::first), field("second", &A::second), field("window", &A::window),
                      field("causal", &A::causal), field("bias", &A::bias)};
  }
  bool operator==(const AttentionMask&) const = default;
  static constexpr float kHidden = -1e30f;
  /// A half-open range of keys.
  struct Keys {
    std::int64_t begin, end;
  };
  /// The keys that a query at a position sees, of `count`; empty ranges have end <= begin.
  Keys seen_from(std::int64_t position, std::int64_t count) const;
  /// The place of a pair in a head of the table, whose sizes are constants.
  std::int64_t place_of(std::int64_t position, std::int64_t key) const;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// The bias by distance of T5 (https://arxiv.org/abs/1910.10683, section 2.1): y[h, d + n] = table[bucket(d), h] for
/// key minus query position d in -n .. n, n = max_distance. Half of the buckets hold one distance each, the others
/// logarithmic ranges up to max_distance. `bidirectional`: half of the buckets serve keys after the query; else those
/// share the bucket of distance 0. table: f32[buckets, heads]; y: f32[heads, 2 * max_distance + 1].
/// Errors (shape): fewer than 2 buckets (bidirectional: 4), an odd number with `bidirectional`, a max_distance that is
/// not above the distances with a bucket of their own.
struct RelativeBias {
  std::int32_t max_distance = 128;
  bool bidirectional = true;

  static constexpr std::string_view name = "relative_bias";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 1> operands = {"table"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("max_distance", &RelativeBias::max_distance),
                      field("bidirectional", &RelativeBias::bidirectional)};
  }
  bool operator==(const RelativeBias&) const = default;
  /// The bucket of a distance (key minus query position) among `buckets`.
  std::int64_t bucket(std::int64_t distance, std::int64_t buckets) const;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// One row per sequence. first, last: its first or last row (a class token). mean, max: over its rows. A sequence
/// without rows gives zeros.
enum class SequencePooling : std::uint8_t { first, last, mean, max };
inline constexpr std::array<std::string_view, 4> kSequencePoolingNames = {"first", "last", "mean", "max"};
constexpr std::span<const std::string_view> enum_names(SequencePooling) { return kSequencePoolingNames; }

/// x: f32[rows, n]; seq_start: i32[batch + 1], rising; y: f32[batch, n].
struct PoolSequences {
  SequencePooling kind = SequencePooling::mean;

  static constexpr std::string_view name = "pool_sequences";
  static constexpr Trait traits = Trait::reduction;
  static constexpr std::array<std::string_view, 2> operands = {"x", "seq_start"};
  static constexpr auto fields(auto...) { return std::tuple{field("kind", &PoolSequences::kind)}; }
  bool operator==(const PoolSequences&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using DenseAttentionOps = OpList<DenseAttention, AttentionMask, RelativeBias, PoolSequences>;

}  // namespace rlx
