// Weights files (compiler.md, section 9): the packed tensors of one checkpoint, set of layouts and level of
// instructions.
#pragma once

#include <memory>

#include "base/hash.h"
#include "device/backend.h"
#include "runtime/aot_shared.h"
#include "runtime/weight_store.h"

namespace rlx {

/// Below this sum of bytes a weights file is read and checked at once, else by a thread behind the gate.
inline constexpr std::int64_t kAotReadAtOnce = std::int64_t{64} << 20;

/// Entries of one checkpoint in a cache, in files "weights-<device>-<32 digits>.rlxw", the digits made of the source's
/// identity, the build, the device's features and the set of entries. A background read goes through the file in order,
/// 1 MiB at a time by offset (so that a file that is cut meanwhile is no signal), straight into the store's arena, and
/// compares each piece with its digest before an entry becomes readable; an entry whose bytes are damaged is packed
/// anew in its place.
class CachedWeights final : public PackedWeights {
 public:
  struct Options {
    std::int64_t read_at_once = kAotReadAtOnce;
    bool verify_content = false;  ///< a file whose source has another content digest than now is not used
  };
  /// `identity`: of the source, source_identity or weights_identity.
  CachedWeights(std::shared_ptr<AotShared> cache, std::shared_ptr<const WeightSource> source, const Digest& identity,
                const Backend& backend, const Options& options);
  ~CachedWeights() override;
  void fill(std::vector<Item> items, const Pack& pack, Workers& workers, WeightGate& gate) override;

 private:
  class Load;
  std::unique_ptr<Load> open(const std::string& name, const std::vector<Item>& items);
  void keep(const std::string& name, std::vector<Item> items, WeightGate& gate);
  void read_rest(std::shared_ptr<Load> load, std::vector<Item> items, const Pack& pack, WeightGate& gate);

  std::shared_ptr<AotShared> cache_;
  std::shared_ptr<const WeightSource> source_;
  const Backend& backend_;
  Digest identity_;
  Options options_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> readers_;
};

}  // namespace rlx
