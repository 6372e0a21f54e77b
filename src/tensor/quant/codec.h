// Reference decoding and encoding of every storage type of tensors to and from float32. The layouts
// are those of GGUF files; decoding is bit-exact against ggml's reference.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace rlx {

/// Decodes a row of n stored values (n a multiple of the block size) to float32.
using DecodeRow = void (*)(const std::byte* in, float* out, std::int64_t n);
/// Encodes n float32 values; the formats that nothing needs to encode have none.
using EncodeRow = void (*)(const float* in, std::byte* out, std::int64_t n);

DecodeRow decoder(DType dtype);  ///< every float, integer and block type; boolean as 0/1
EncodeRow encoder(DType dtype);  ///< nullptr when there is none; floats, integers, q4_0 q4_1 q5_0
                                 ///< q5_1 q8_0 q4_K q6_K xq8
/// Whether values can be stored in this block format: all with an encoder but xq8, the rows of a product.
inline bool encodes_blocks(DType dtype) {
  return is_quantized(dtype) && dtype != DType::xq8 && encoder(dtype) != nullptr;
}

/// 16-bit floats, round to nearest even; NaN stays NaN, overflow to infinity.
float f16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_f16(float value);
float bf16_to_f32(std::uint16_t bits);
std::uint16_t f32_to_bf16(float value);

}  // namespace rlx
