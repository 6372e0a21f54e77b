// Cases of models beside decoders: hidden rows of tokens and of images, logits of encoder-decoders.
#pragma once

#include "runtime/encoder.h"
#include "runtime/verify_compare.h"
#include "runtime/verify_tensors.h"

namespace rlx {

/// Compares all cases (verify.h). Errors: format, shape (tensors that are missing, or of sizes that disagree with each
/// other or the model); as EncoderModel.
void check_encoder_cases(EncoderModel& model, const ReferenceTensors& tensors, GoldenComparison& comparison);

}  // namespace rlx
