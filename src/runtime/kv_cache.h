// The states of decoder sequences: paged KV pools, one per attention layer, the page table that they
// share, and the states of recurrent layers, one row per slot.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "device/backend.h"
#include "device/program.h"

namespace rlx {

/// Virtual memory for the whole capacity, committed page by page as sequences grow. Slot s owns the
/// pages s * pages_per_slot .. of every pool: an identity table.
class KvCache {
 public:
  /// Errors (memory).
  KvCache(const Program& program, const Backend& backend, std::int64_t slots, std::int64_t context);

  /// Bytes for that capacity, before anything is allocated. Errors (limit).
  static std::int64_t bytes_for(const Program& program, const Backend& backend, std::int64_t slots,
                                std::int64_t context);

  /// What an operand of state entry i points at: a KvPool, the table, or the rows of a recurrent
  /// state.
  void* state(std::size_t i) { return states_[i]; }
  /// Recurrent states hold the end of a sequence only: it cannot be cut back to an earlier token.
  bool can_cut() const { return !recurrent_; }
  std::int64_t slots() const { return slots_; }
  std::int64_t pages_per_slot() const { return pages_per_slot_; }
  std::int64_t bytes() const { return arena_.size(); }

 private:
  std::int64_t slots_, pages_per_slot_;
  Arena arena_;
  std::vector<KvPool> pools_;
  std::vector<std::int32_t> table_;
  std::vector<void*> states_;
  bool recurrent_ = false;
};

}  // namespace rlx
