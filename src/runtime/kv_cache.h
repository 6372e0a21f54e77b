// The states of decoder sequences: paged KV pools, one per attention layer, and the page table that
// they share.
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

  /// What an operand of state entry i points at: a KvPool, or the table.
  void* state(std::size_t i) { return states_[i]; }
  std::int64_t slots() const { return slots_; }
  std::int64_t pages_per_slot() const { return pages_per_slot_; }
  std::int64_t bytes() const { return arena_.size(); }

 private:
  std::int64_t slots_, pages_per_slot_;
  Arena arena_;
  std::vector<KvPool> pools_;
  std::vector<std::int32_t> table_;
  std::vector<void*> states_;
};

}  // namespace rlx
