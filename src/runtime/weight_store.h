// The immutable weights of one checkpoint, outside every program: an entry is packed when it is
// first bound and shared by all executables of the model.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/arena.h"
#include "base/workers.h"
#include "device/backend.h"
#include "device/program.h"
#include "flow/built_model.h"

namespace rlx {

/// Bytes of an entry, and whether it is the stored tensor as it lies. `turned`: the source has the
/// param's axes exchanged already (ModelParam::transposed).
std::int64_t entry_bytes(const WeightEntry& entry, const Backend& backend);
bool entry_is_stored(const WeightEntry& entry, bool turned);
/// Makes an entry of the stored tensors, whose rows follow one another (ModelParam::stored):
/// entry_bytes at `out`, 64-byte aligned. Entries [experts, n, k] are packed expert by expert. Errors:
/// unsupported (a block format or several tensors with exchanged axes); io (the file was cut).
void fill_entry(const WeightEntry& entry, std::span<const WeightRef> stored, bool turned,
                const Backend& backend, Workers& workers, std::byte* out);

class WeightStore {
 public:
  WeightStore(std::shared_ptr<const WeightSource> source, const std::vector<ModelParam>& params);

  /// The bytes behind each weight entry of a program, in order; packs what is not there yet on all
  /// workers and lets the packed pages of the file go. Errors: memory; io (the file was cut); shape
  /// (an entry whose stored size does not fit).
  std::vector<const std::byte*> bind(const Program& program, const Backend& backend,
                                     Workers& workers);
  /// Bytes that bind() would allocate.
  std::int64_t needed_bytes(const Program& program, const Backend& backend) const;

  std::int64_t packed_tensors() const { return packed_tensors_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  using Key = std::tuple<std::string, DType, Layout, bool>;
  struct Missing {
    const WeightEntry* entry;
    std::int64_t bytes;
    std::byte* out;
  };
  std::vector<Missing> missing(const Program& program, const Backend& backend) const;
  static Key key_of(const WeightEntry& entry);
  bool as_stored(const WeightEntry& entry) const;
  const ModelParam& param_of(const WeightEntry& entry) const;

  std::shared_ptr<const WeightSource> source_;
  std::map<std::string, ModelParam> params_;
  std::map<Key, const std::byte*> entries_;
  std::vector<Arena> arenas_;
  std::int64_t packed_tensors_ = 0, bytes_ = 0;
};

}  // namespace rlx
