// How the work of attention is cut and dealt. A job is a tile of rows of one sequence with one KV
// head; it runs over the splits that its rows see. Nothing here changes a result, only who computes
// it.
#pragma once

#include "backends/cpu/attention_layout.h"
#include "backends/cpu/work.h"
#include "ops/attention.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

struct Job {
  std::int64_t first_row = 0, first_token = 0, tokens = 0;  // rows of q and their places in the cache
  std::int64_t kv_head = 0, head0 = 0, heads = 0;           // query heads head0 .. of the KV head's group
  std::int64_t first_split = 0, splits = 0;
  const std::int32_t* pages = nullptr;
  std::int64_t rows() const noexcept { return tokens * heads; }

  // Writes which tokens of the cache each row sees: [from, to). window 0: all up to its own.
  void find_seen(std::int64_t window, std::int64_t* from, std::int64_t* to) const noexcept {
    for (std::int64_t i = 0; i < rows(); ++i) {
      const std::int64_t token = first_token + i / heads;
      to[i] = token + 1;
      from[i] = window > 0 && token >= window ? token - window + 1 : 0;
    }
  }
};

// Rows are jobs of whole sequences for long work (a job takes all its splits in turn), or the
// single splits for a few rows.
class Plan {
 public:
  Plan(const Attention& op, const KernelArgs& a) noexcept
      : head_dim(a.in[1].dims[1]), kv_heads(a.in[1].dims[0]), group_(op.heads / kv_heads), window_(op.window),
        places_(a.in[2], a.in[3], a.in[4], a.in[5]) {
    heads_ = tile_heads(group_);
    chunks_ = (group_ + heads_ - 1) / heads_;
    tokens_ = kTileRows / heads_;
    Cost cost = measure();
    // Uneven jobs leave threads idle at the end: few rows are dealt split by split, more rows in smaller tiles.
    const auto uneven = [&] { return a.threads > 1 && cost.most * 4 * a.threads > cost.total; };
    by_split = uneven() && rows() <= kSplitModeTokens && cost.partial_bytes <= kMaxPartialBytes;
    while (!by_split && uneven() && tokens_ > 4) {
      tokens_ /= 2;
      cost = measure();
    }
    jobs = cost.jobs;
    splits = cost.splits;
  }

  std::int64_t rows() const noexcept { return places_.seq_start[places_.batch]; }

  /// Job j of 0 .. jobs - 1; a thread asks for rising j. The last tiles of a sequence see most tokens and come first.
  Job job(std::int64_t j) noexcept {
    while (j >= base_ + tiles(seq_) * units()) base_ += tiles(seq_++) * units();
    const std::int64_t local = j - base_, tile = tiles(seq_) - 1 - local / units(), unit = local % units();
    Job job = tile_of(seq_, tile);
    job.kv_head = unit / chunks_;
    const std::int64_t begin = unit % chunks_ * heads_;
    job.head0 = job.kv_head * group_ + begin;
    job.heads = group_ - begin < heads_ ? group_ - begin : heads_;
    job.pages = places_.page_row(seq_);
    return job;
  }

  std::int64_t window() const noexcept { return window_; }

  std::int64_t head_dim, kv_heads, jobs = 0, splits = 0;  ///< splits: of all jobs
  bool by_split = false;

 private:
  struct Cost {
    std::int64_t jobs = 0, splits = 0, total = 0, most = 0, partial_bytes = 0;
  };

  std::int64_t units() const noexcept { return kv_heads * chunks_; }
  std::int64_t tiles(std::int64_t seq) const noexcept {
    return (places_.seq_start[seq + 1] - places_.seq_start[seq] + tokens_ - 1) / tokens_;
  }
  Job tile_of(std::int64_t seq, std::int64_t tile) const noexcept {
    Job job;
    const std::int64_t count = places_.seq_start[seq + 1] - places_.seq_start[seq], begin = tile * tokens_;
    job.first_row = places_.seq_start[seq] + begin;
    job.first_token = places_.past[seq] + begin;
    job.tokens = count - begin < tokens_ ? count - begin : tokens_;
    const std::int64_t seen = window_ > 0 && job.first_token >= window_ ? job.first_token - window_ + 1 : 0;
    job.first_split = seen / kSplitTokens;
    job.splits = (job.first_token + job.tokens - 1) / kSplitTokens - job.first_split + 1;
    return job;
  }
  Cost measure() const noexcept {
    Cost cost;
    for (std::int64_t seq = 0; seq < places_.batch; ++seq)
      for (std::int64_t tile = 0; tile < tiles(seq); ++tile) {
        const Job job = tile_of(seq, tile);
        // Reading K and V costs about as much as the arithmetic of eight rows.
        const std::int64_t work = job.splits * (job.tokens * heads_ + 8);
        cost.jobs += units();
        cost.splits += units() * job.splits;
        cost.total += units() * work;
        cost.most = work > cost.most ? work : cost.most;
        cost.partial_bytes += units() * job.splits * partial_floats(job.tokens * heads_, head_dim) * 4;
      }
    return cost;
  }

  std::int64_t group_, window_, heads_, chunks_, tokens_;
  RowPlaces places_;
  std::int64_t seq_ = 0, base_ = 0;
};

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
