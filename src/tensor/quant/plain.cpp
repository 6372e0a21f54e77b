#include "tensor/quant/plain.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tensor/quant/blocks.h"

namespace rlx {
namespace {

struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t value;
};

template <typename T>
float to_float(T v) {
  if constexpr (std::is_same_v<T, F16>)
    return f16_to_f32(v.bits);
  else if constexpr (std::is_same_v<T, Bf16>)
    return bf16_to_f32(v.bits);
  else if constexpr (std::is_same_v<T, Bool>)
    return v.value != 0 ? 1.0f : 0.0f;
  else
    return static_cast<float>(v);
}

template <typename T>
T to_integer(float x) {
  if (std::isnan(x)) return 0;
  // The limits as floats round outwards, so values at or beyond them saturate before the cast.
  const float rounded = std::nearbyintf(x);
  if (rounded <= static_cast<float>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  if (rounded >= static_cast<float>(std::numeric_limits<T>::max()))
    return std::numeric_limits<T>::max();
  return static_cast<T>(rounded);
}

template <typename T>
T from_float(float x) {
  if constexpr (std::is_same_v<T, F16>)
    return {f32_to_f16(x)};
  else if constexpr (std::is_same_v<T, Bf16>)
    return {f32_to_bf16(x)};
  else if constexpr (std::is_same_v<T, Bool>)
    return {static_cast<std::uint8_t>(x != 0.0f)};
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(x);
  else
    return to_integer<T>(x);
}

template <typename T>
void decode(const std::byte* in, float* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = to_float(load_block<T>(in, i));
}

template <typename T>
void encode(const float* in, std::byte* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) store_block(from_float<T>(in[i]), out, i);
}

// Calls use with a value of the type that stores the dtype.
template <typename Use>
auto with_type(DType dtype, Use use) -> decltype(use(0.0f)) {
  switch (dtype) {
    case DType::f32:
      return use(0.0f);
    case DType::f16:
      return use(F16{});
    case DType::bf16:
      return use(Bf16{});
    case DType::f64:
      return use(0.0);
    case DType::i8:
      return use(std::int8_t{});
    case DType::i16:
      return use(std::int16_t{});
    case DType::i32:
      return use(std::int32_t{});
    case DType::i64:
      return use(std::int64_t{});
    case DType::u8:
      return use(std::uint8_t{});
    case DType::u16:
      return use(std::uint16_t{});
    case DType::u32:
      return use(std::uint32_t{});
    case DType::u64:
      return use(std::uint64_t{});
    case DType::boolean:
      return use(Bool{});
    default:
      return nullptr;
  }
}

}  // namespace

DecodeRow plain_decoder(DType dtype) {
  return with_type(dtype, [](auto type) -> DecodeRow { return decode<decltype(type)>; });
}

EncodeRow plain_encoder(DType dtype) {
  return with_type(dtype, [](auto type) -> EncodeRow { return encode<decltype(type)>; });
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;  // exact
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(subnormal) | sign);
}

std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [&](std::uint32_t half) {
    return static_cast<std::uint16_t>(sign | half);
  };
  if (magnitude > 0x7f800000u)
    return with_sign(0x7e00u | (magnitude >> 13 & 0x3ffu));  // NaN, made quiet
  if (magnitude >= 0x477ff000u) return with_sign(0x7c00u);   // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 halves are multiples of 2^-24: adding 0.5, whose last bit is 2^-24, lets the
    // hardware round.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return with_sign(std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f));
  }
  // Half of the last kept bit, less one unless that bit is odd: round to nearest even. A carry
  // moves the exponent on.
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return with_sign((rounded - 0x38000000u) >> 13);
}

float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<std::uint16_t>(bits >> 16 | 0x40u);  // NaN, made quiet
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace rlx
