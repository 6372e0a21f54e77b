// What the layers of a model are: the names of its stages, in order, and which of them are the same
// layer (compiler.md, section 3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/key_writer.h"

namespace rlx {

/// A list of layers. A layer is named by [A-Za-z0-9_-] in dotted parts, the last of which is no
/// number ("decoder_layer"), since numbers tell the places of one layer apart. Two compositions are
/// equal, and have equal digests, exactly when they expand to the same stages.
///
/// Errors: invalid_argument (a name of another form, a count below 1, a sequence of nothing), limit
/// (more than kMostStages stages).
class LayerComposition {
 public:
  static constexpr std::int64_t kMostStages = 65536;

  static LayerComposition single(std::string layer);
  /// `count` times the same layer.
  static LayerComposition homogeneous(std::string layer, std::int64_t count);
  static LayerComposition pair(const LayerComposition& head, const LayerComposition& tail);
  static LayerComposition pair(std::string head, std::string tail);
  /// Parts one after the other: an embedding, 32 decoder layers, a head.
  static LayerComposition sequence(const std::vector<LayerComposition>& parts);

  /// A layer that stands once has its own name; one of homogeneous, or one that comes again, has
  /// its place among its kind: "embed", "layers.0", "layers.1", "head".
  std::vector<std::string> stages() const;
  std::int64_t size() const;  ///< stages
  Digest digest() const;      ///< the layer composition key
  void write_key(KeyWriter& key) const;
  bool operator==(const LayerComposition&) const = default;

 private:
  struct Run {
    std::string layer;
    std::int64_t count = 1;
    bool numbered = false;
    bool operator==(const Run&) const = default;
  };

  LayerComposition() = default;
  void normalise();  ///< numbers repeated layers and joins neighbours

  std::vector<Run> runs_;
};

}  // namespace rlx
