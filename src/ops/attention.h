// Rotary positions and attention over a paged cache. All work on rows: `seq_start` i32[batch+1]
// says where each sequence starts, `past` i32[batch] how many tokens it has in the cache before
// this step, `slot` i32[batch] which row of the page table is its own, `positions` i32[rows] the
// position of each row. Row r of sequence b is token past[b] + r - seq_start[b] of the cache; its
// page is pages[slot[b]][token / 64].
#pragma once

#include "ir/op.h"

namespace rlx {

/// half: lanes i and i + d/2 form a pair (GPT-NeoX); adjacent: lanes 2i and 2i+1 (the paper).
enum class RopeStyle : std::uint8_t { half, adjacent };
inline constexpr std::array<std::string_view, 2> kRopeStyleNames = {"half", "adjacent"};
constexpr std::span<const std::string_view> enum_names(RopeStyle) { return kRopeStyleNames; }

/// Rotary position embedding (https://arxiv.org/abs/2104.09864) of the first `rotary_dim` lanes of
/// each head: angle = positions[r] * inv_freq[i], rounded to f32 as in the training of the models
/// (at position 100000 half a unit is 0.004 rad); cos and sin times `magnitude` (YaRN's attention
/// factor). x, y: f32[rows, heads * head_dim]; inv_freq: f32[rotary_dim / 2]; positions: i32[rows].
struct Rope {
  std::int32_t head_dim = 64;
  std::int32_t rotary_dim = 64;
  RopeStyle style = RopeStyle::half;
  float magnitude = 1.0f;

  static constexpr std::string_view name = "rope";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 3> operands = {"x", "inv_freq", "positions"};
  static constexpr int in_place = 0;
  static constexpr auto fields(auto...) {
    return std::tuple{field("head_dim", &Rope::head_dim), field("rotary_dim", &Rope::rotary_dim),
                      field("style", &Rope::style), field("magnitude", &Rope::magnitude)};
  }
  bool operator==(const Rope&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// Writes the rows' keys and values into the cache: cache' = append(cache, k, v).
/// k, v: f32[rows, kv_heads * head_dim]; the result is the same state.
struct KvAppend {
  static constexpr std::string_view name = "kv_append";
  static constexpr Trait traits = Trait::state;
  static constexpr std::array<std::string_view, 7> operands = {"cache", "k",    "v",    "seq_start",
                                                               "past",  "slot", "pages"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const KvAppend&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// Per-head norm of q and k (when `norm`), RoPE of both, and the append of k and v, in one pass
/// over the rows. q: f32[rows, heads * head_dim]; k, v: f32[rows, kv_heads * head_dim]; q_norm,
/// k_norm: f32[head_dim], present when `norm`. Results: q' and the cache.
struct RopeAppend {
  std::int32_t head_dim = 64;
  std::int32_t rotary_dim = 64;
  RopeStyle style = RopeStyle::half;
  float magnitude = 1.0f;
  bool norm = false;
  float eps = 1e-6f;
  float weight_offset = 0.0f;

  static constexpr std::string_view name = "rope_append";
  static constexpr Trait traits = Trait::state;
  static constexpr std::array<std::string_view, 12> operands = {
      "cache", "q",     "k",        "v",         "seq_start", "past",
      "slot",  "pages", "inv_freq", "positions", "q_norm",    "k_norm"};
  static constexpr int optional_operands = 2;
  static constexpr auto fields(auto...) {
    return std::tuple{field("head_dim", &RopeAppend::head_dim),
                      field("rotary_dim", &RopeAppend::rotary_dim),
                      field("style", &RopeAppend::style),
                      field("magnitude", &RopeAppend::magnitude),
                      field("norm", &RopeAppend::norm),
                      field("eps", &RopeAppend::eps),
                      field("weight_offset", &RopeAppend::weight_offset)};
  }
  bool operator==(const RopeAppend&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// Causal attention of the rows over their own sequences in the cache, which already holds the
/// rows' keys and values. score = scale * q.k, then cap * tanh(score / cap) when softcap > 0; a row
/// at position p sees keys p - window + 1 .. p (window = 0: all). Grouped heads: query head h reads
/// KV head h / (heads / kv_heads). q, y: f32[rows, heads * head_dim]. In blocks of 64 tokens at
/// absolute positions, each split of 128 tokens with its own running maximum, splits merged in
/// increasing position (kernels.md, 2.7): the bits do not depend on batch, chunks or threads.
struct Attention {
  std::int32_t heads = 1;
  float scale = 1.0f;
  float softcap = 0.0f;
  std::int32_t window = 0;

  static constexpr std::string_view name = "attention";
  static constexpr Trait traits = Trait::state | Trait::compute;
  static constexpr std::array<std::string_view, 6> operands = {"q",    "cache", "seq_start",
                                                               "past", "slot",  "pages"};
  static constexpr auto fields(auto...) {
    return std::tuple{field("heads", &Attention::heads), field("scale", &Attention::scale),
                      field("softcap", &Attention::softcap), field("window", &Attention::window)};
  }
  bool operator==(const Attention&) const = default;
  void infer(InferContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using AttentionOps = OpList<Rope, KvAppend, RopeAppend, Attention>;

}  // namespace rlx
