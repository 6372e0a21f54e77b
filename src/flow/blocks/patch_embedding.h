// The first hidden state of a vision model: rows of patches.
#pragma once

#include "flow/flow.h"

namespace rlx {

struct PatchEmbeddingSpec {
  std::string weight, bias;  ///< keys of the kernel [hidden, channels, patch_height, patch_width] and of [hidden]; no
                             ///< bias when its key is empty
  std::string class_token;  ///< key of [1, 1, hidden]: a row before the patches; empty: none
  std::string positions;    ///< key of [1, rows of an image, hidden], added; empty: none
  std::int64_t hidden = 0, channels = 0;
  std::int64_t height = 0, width = 0;  ///< of an image, multiples of the patch
  std::int64_t patch_height = 0, patch_width = 0;

  std::int64_t patches() const { return (height / patch_height) * (width / patch_width); }
  std::int64_t rows() const { return patches() + (class_token.empty() ? 0 : 1); }
};

/// hidden = f32[batch * rows(), hidden] from the input "pixels" f32[batch, channels, height, width]: each patch,
/// flattened, times the kernel (https://arxiv.org/abs/2010.11929, section 3.1). A convolution whose stride is its
/// kernel is that product.
FlowStage patch_embedding(PatchEmbeddingSpec spec);

}  // namespace rlx
