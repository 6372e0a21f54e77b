#include "tensor/quant/codec.h"

#include "tensor/quant/code_book.h"
#include "tensor/quant/iq4_nl.h"
#include "tensor/quant/mxfp4.h"
#include "tensor/quant/plain.h"
#include "tensor/quant/q2_k.h"
#include "tensor/quant/q3_k.h"
#include "tensor/quant/q4_0.h"
#include "tensor/quant/q4_1.h"
#include "tensor/quant/q4_k.h"
#include "tensor/quant/q5_0.h"
#include "tensor/quant/q5_1.h"
#include "tensor/quant/q5_k.h"
#include "tensor/quant/q6_k.h"
#include "tensor/quant/q8_0.h"
#include "tensor/quant/tq.h"
#include "tensor/quant/xq8.h"

namespace rlx {
namespace {

struct Row {
  DType dtype;
  DecodeRow decode;
  EncodeRow encode;
};

template <const CodeBook& book>
void decode_book(const std::byte* in, float* out, std::int64_t n) {
  decode_coded(book, in, out, n);
}

constexpr Row kBlockFormats[] = {
    {DType::q4_0, decode_q4_0, encode_q4_0}, {DType::q4_1, decode_q4_1, encode_q4_1},
    {DType::q5_0, decode_q5_0, encode_q5_0}, {DType::q5_1, decode_q5_1, encode_q5_1},
    {DType::q8_0, decode_q8_0, encode_q8_0}, {DType::q2_K, decode_q2_k, nullptr},
    {DType::q3_K, decode_q3_k, nullptr},     {DType::q4_K, decode_q4_k, encode_q4_k},
    {DType::q5_K, decode_q5_k, nullptr},     {DType::q6_K, decode_q6_k, encode_q6_k},
    {DType::iq4_nl, decode_iq4_nl, nullptr}, {DType::xq8, decode_xq8, encode_xq8},
    {DType::iq4_xs, decode_book<kIq4Xs>, nullptr},   {DType::iq3_xxs, decode_book<kIq3Xxs>, nullptr},
    {DType::iq3_s, decode_book<kIq3S>, nullptr},     {DType::iq2_xxs, decode_book<kIq2Xxs>, nullptr},
    {DType::iq2_xs, decode_book<kIq2Xs>, nullptr},   {DType::iq2_s, decode_book<kIq2S>, nullptr},
    {DType::iq1_s, decode_book<kIq1S>, nullptr},     {DType::iq1_m, decode_book<kIq1M>, nullptr},
    {DType::tq1_0, decode_tq1_0, nullptr},           {DType::tq2_0, decode_tq2_0, nullptr},
    {DType::mxfp4, decode_mxfp4, nullptr},
};

const Row* find(DType dtype) {
  for (const Row& row : kBlockFormats)
    if (row.dtype == dtype) return &row;
  return nullptr;
}

}  // namespace

DecodeRow decoder(DType dtype) {
  const Row* row = find(dtype);
  return row != nullptr ? row->decode : plain_decoder(dtype);
}

EncodeRow encoder(DType dtype) {
  const Row* row = find(dtype);
  return row != nullptr ? row->encode : plain_encoder(dtype);
}

}  // namespace rlx
