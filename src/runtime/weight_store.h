// The immutable weights of one checkpoint, outside every program: an entry is packed when it is
// first bound and shared by all executables of the model.
#pragma once

#include <atomic>
#include <functional>
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
#include "runtime/weight_gate.h"

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

/// Packed entries that were kept by an earlier process (aot_weights.h).
class PackedWeights {
 public:
  /// An entry that a program needs and that is not the stored tensor itself. `wanted`: its bytes are not filled yet.
  struct Item {
    WeightEntry entry;
    std::byte* bytes;
    std::int64_t size;
    bool wanted;
  };
  /// Makes the bytes of an item from the stored tensor, on the workers given. Errors as fill_entry.
  using Pack = std::function<void(const Item&, Workers&)>;

  virtual ~PackedWeights() = default;
  /// Fills the wanted items from what is kept, at once or behind the gate, and the rest by `pack`; keeps them all when
  /// something had to be packed. `pack` and the bytes stay valid until this object is gone.
  virtual void fill(std::vector<Item> items, const Pack& pack, Workers& workers, WeightGate& gate) = 0;
};

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

  /// Where bind() looks for packed entries and keeps them; before the first bind.
  void set_packed(std::unique_ptr<PackedWeights> packed) { packed_ = std::move(packed); }
  std::shared_ptr<const WeightSource> shared_source() const { return source_; }
  /// Entries that are still being filled: Executor::Bindings::gate.
  WeightGate* gate() { return &gate_; }

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
  void fill(const Program& program, const std::vector<Missing>& list, const Backend& backend, Workers& workers);
  static std::int64_t padded_bytes(const std::vector<Missing>& list);
  static Key key_of(const WeightEntry& entry);
  bool as_stored(const WeightEntry& entry) const;
  const ModelParam& param_of(const WeightEntry& entry) const;

  std::shared_ptr<const WeightSource> source_;
  std::map<std::string, ModelParam> params_;
  std::map<Key, const std::byte*> entries_;
  std::vector<Arena> arenas_;
  std::atomic<std::int64_t> packed_tensors_ = 0;
  std::int64_t bytes_ = 0;
  WeightGate gate_;
  std::unique_ptr<PackedWeights> packed_;  // last: its threads end before what they fill goes
};

}  // namespace rlx
