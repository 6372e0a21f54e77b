// A llama-like decoder of any depth without a checkpoint: what the compiler is measured on. Its weights have names,
// types and shapes, and address space that nobody backs with memory until somebody reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "flow/built_model.h"
#include "models/config.h"

namespace rlx {

struct SyntheticShape {
  std::int64_t layers = 32, hidden = 4096, heads = 32, kv_heads = 8, head_dim = 128, inner = 14336, vocab = 128256;
  /// The same graph with rows of a few values, whose weights can be packed in milliseconds.
  static SyntheticShape narrow(std::int64_t layers) { return {layers, 64, 4, 2, 16, 128, 320}; }
};

class SyntheticDecoder {
 public:
  /// Matrices in q8_0, norms in f32. Error(memory): no address space for the largest tensor.
  explicit SyntheticDecoder(const SyntheticShape& shape);
  /// The same over a new file of zeros, mapped as a checkpoint is; where the file system can, without blocks on disk.
  /// Errors (io): the file cannot be made.
  SyntheticDecoder(const SyntheticShape& shape, const std::filesystem::path& file);

  /// The flow over the weights: a new HIR each time.
  BuiltModel build() const;
  /// Bytes of weights that were read since the start, in pages of the system; 0 with a file.
  std::int64_t touched_bytes() const;
  const DecoderConfig& config() const { return config_; }

 private:
  class Weights;
  SyntheticDecoder(const SyntheticShape& shape, std::shared_ptr<const Weights> weights);
  DecoderConfig config_;
  std::shared_ptr<const Weights> weights_;
};

}  // namespace rlx
