#include "ir/constant_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

constexpr std::int64_t kInlineValues = 16;
constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// Exactly the texts that base64() makes; false for any other.
bool from_base64(std::string_view text, std::vector<std::byte>& out) {
  constexpr std::uint8_t kNone = 255;
  std::array<std::uint8_t, 256> digits;
  digits.fill(kNone);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    digits[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
  if (text.size() % 4 != 0) return false;
  out.clear();
  out.reserve(text.size() / 4 * 3 + 1);  // data() of no bytes is no null pointer
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::size_t n = 4;
    if (i + 4 == text.size()) n = text[i + 3] != '=' ? 4 : text[i + 2] != '=' ? 3 : 2;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::uint8_t digit = k < n ? digits[static_cast<unsigned char>(text[i + k])] : 0;
      if (digit == kNone) return false;
      group = group << 6 | digit;
    }
    for (std::size_t k = 0; k + 1 < n; ++k) out.push_back(static_cast<std::byte>(group >> (16 - 8 * k) & 255));
    if (n < 4 && (group & ((1u << (8 * (4 - n))) - 1)) != 0) return false;
  }
  return true;
}

// Plain dtypes whose values print as numbers: calls f(T{}) with the type that the text is read as; false for others.
template <typename F>
bool with_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::i16:
      return f(std::int16_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::u8:
    case DType::boolean:
      return f(std::uint8_t{});
    case DType::u16:
      return f(std::uint16_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::u64:
      return f(std::uint64_t{});
    default:
      return false;
  }
}

bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }

// The values of a short constant; nothing when text would not give the same bytes back.
std::optional<std::string> values_text(const Tensor& t) {
  std::string out = "{";
  const auto n = static_cast<std::size_t>(t.elements());
  const bool printed = with_number(t.dtype(), [&]<typename T>(T) {
    std::vector<T> values(n);
    if (is_half(t.dtype())) {
      const std::vector<float> wide = t.to_floats();
      std::copy(wide.begin(), wide.end(), values.begin());
    } else if (n > 0) {
      std::memcpy(values.data(), t.data(), n * sizeof(T));
    }
    for (std::size_t i = 0; i < n; ++i) {
      if constexpr (std::is_floating_point_v<T>)
        if (std::isnan(values[i])) return false;
      if (t.dtype() == DType::boolean && values[i] > T{1}) return false;
      std::array<char, 64> buffer;
      out += i > 0 ? ", " : "";
      out.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), values[i]).ptr);
    }
    return true;
  });
  if (!printed) return std::nullopt;
  return out + "}";
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// "1, 2.5" into `out`, which has room for as many values as the shape has.
void parse_values(std::string_view list, Tensor& out) {
  const auto n = static_cast<std::size_t>(out.elements());
  const bool known = with_number(out.dtype(), [&]<typename T>(T) {
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t comma = std::min(list.find(','), list.size());
      const std::string_view word = trimmed(list.substr(0, comma));
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), values[i]);
      if (error != std::errc{} || end != word.data() + word.size() ||
          (out.dtype() == DType::boolean && values[i] > T{1}))
        fail(ErrorCode::format, "constant: \"{}\" is no {}", word, name(out.dtype()));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
    if constexpr (std::is_same_v<T, float>)
      encoder(out.dtype())(values.data(), out.mutable_data(), out.elements());
    else if (n > 0)
      std::memcpy(out.mutable_data(), values.data(), n * sizeof(T));
    return true;
  });
  if (!known) fail(ErrorCode::format, "constant: values of {} are written in base64", name(out.dtype()));
}

std::vector<std::int64_t> constant_dims(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (Dim d : shape.dims()) {
    const auto n = d.constant();
    if (!n) fail(ErrorCode::format, "constant: expected sizes without symbols, found {}", shape.text());
    dims.push_back(*n);
  }
  if (shape.is_state() || shape.layout != Layout::plain)
    fail(ErrorCode::format, "constant: expected a plain tensor, found {}", shape.text());
  return dims;
}

}  // namespace

std::string constant_text(const ConstantData& data, bool with_data) {
  const Tensor& t = data.value;
  if (t.elements() <= kInlineValues)
    if (auto values = values_text(t)) return *values;
  std::string text = fmt::format("xxh3={}", data.digest.hex());
  if (with_data) text += " base64=" + base64({t.data(), static_cast<std::size_t>(t.byte_size())});
  return text;
}

std::shared_ptr<const ConstantData> parse_constant(std::string_view text, const Shape& shape) {
  std::vector<std::int64_t> dims = constant_dims(shape);
  text = trimmed(text);
  if (text.starts_with('{') && text.ends_with('}')) {
    const std::string_view list = trimmed(text.substr(1, text.size() - 2));
    const auto count = list.empty() ? 0 : std::count(list.begin(), list.end(), ',') + 1;
    // Counted before anything is allocated.
    const auto expected = shape.elements().constant();
    if (!expected || *expected != count)
      fail(ErrorCode::format, "constant: {} values for {}", count, shape.text());
    Tensor t = Tensor::zeros(std::move(dims), shape.dtype);
    parse_values(list, t);
    return make_constant(t);
  }
  const std::size_t space = std::min(text.find(' '), text.size());
  const std::string_view id = text.substr(0, space), coded = trimmed(text.substr(space));
  if (!id.starts_with("xxh3=") || !coded.starts_with("base64="))
    fail(ErrorCode::format, "constant: expected {{values}} or xxh3=... base64=...");
  std::vector<std::byte> bytes;
  if (!from_base64(coded.substr(7), bytes)) fail(ErrorCode::format, "constant: the base64 text is damaged");
  auto data = make_constant(Tensor::borrow(std::move(dims), shape.dtype, bytes));
  if (data->digest.hex() != id.substr(5))
    fail(ErrorCode::format, "constant: expected bytes of the digest {}, found {}", id.substr(5), data->digest.hex());
  return data;
}

}  // namespace rlx
