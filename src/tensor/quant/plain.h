// Plain numbers: floats and integers as rows of float32. Encoding to integers rounds to nearest
// even and saturates, NaN gives 0; boolean is 0 or 1.
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

/// Codecs of the plain types (nullptr for block formats).
DecodeRow plain_decoder(DType dtype);
EncodeRow plain_encoder(DType dtype);

}  // namespace rlx
