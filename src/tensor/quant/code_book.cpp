#include "tensor/quant/code_book.h"

namespace rlx {

const CodeBook* code_book(DType dtype) {
  switch (dtype) {
    case DType::iq1_s:
      return &kIq1S;
    case DType::iq1_m:
      return &kIq1M;
    case DType::iq2_xxs:
      return &kIq2Xxs;
    case DType::iq2_xs:
      return &kIq2Xs;
    case DType::iq2_s:
      return &kIq2S;
    case DType::iq3_xxs:
      return &kIq3Xxs;
    case DType::iq3_s:
      return &kIq3S;
    case DType::iq4_xs:
      return &kIq4Xs;
    default:
      return nullptr;
  }
}

void decode_coded(const CodeBook& book, const std::byte* in, float* out, std::int64_t n) {
  CodedBlock block;
  for (std::int64_t i = 0; i < n / 256; ++i, in += book.block_bytes, out += 256) {
    book.expand(in, block);
    const float d = f16_to_f32(block.d) * book.factor;
    for (int j = 0; j < 256; ++j)
      out[j] = d * static_cast<float>(block.scale[j / book.per_scale]) * static_cast<float>(book.steps[block.code[j]]);
  }
}

}  // namespace rlx
