// xq8: activations in int8 groups of 32 along the row (dtype.h gives the planes of a row). d =
// max|x| / 127 and q = x * (127 / max|x|), rounded to nearest even; a group whose largest magnitude
// is so small that 127 / max|x| is not finite (below 3.8e-37) is all zeros. A value that is not
// finite makes its group's d NaN.
#pragma once

#include "tensor/quant/codec.h"

namespace rlx {

void decode_xq8(const std::byte* in, float* out, std::int64_t n);
void encode_xq8(const float* in, std::byte* out, std::int64_t n);

}  // namespace rlx
