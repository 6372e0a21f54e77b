#include "text/template/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "text/template/convert.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

std::string_view trim(std::string_view s) {
  while (!s.empty() && is_space(code_point(s, 0))) s.remove_prefix(char_bytes(s, 0));
  while (!s.empty() && static_cast<unsigned char>(s.back()) < 0x80 &&
         is_space(static_cast<char32_t>(s.back())))
    s.remove_suffix(1);
  return s;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'z' ? low - 'a' + 10 : 99;
}

}  // namespace

std::optional<Int> parse_int(std::string_view s, int base) {
  s = trim(s);
  const bool negative = s.starts_with('-');
  if (negative || s.starts_with('+')) s.remove_prefix(1);
  const auto prefix = [&](char c, int b) {
    if ((base != b && base != 0) || s.size() < 3 || s[0] != '0' || (s[1] | 0x20) != c) return false;
    s.remove_prefix(2);
    if (s.starts_with('_')) s.remove_prefix(1);
    base = b;
    return true;
  };
  if (!prefix('x', 16) && !prefix('o', 8) && !prefix('b', 2) && base == 0) {
    base = 10;
    if (s.size() > 1 && s[0] == '0' && s.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
  }
  Int value = 0;
  bool digit_before = false;
  if (s.empty()) return std::nullopt;
  for (const char c : s) {
    if (c == '_') {
      if (!digit_before) return std::nullopt;
      digit_before = false;
      continue;
    }
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value))
      limit_fault("the integer in a string does not fit in 128 bits");
    digit_before = true;
  }
  if (!digit_before) return std::nullopt;
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view s) {
  s = trim(s);
  std::string text;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') {
      text.push_back(static_cast<char>(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 32 : s[i]));
      continue;
    }
    const auto digit = [&](size_t k) { return k < s.size() && s[k] >= '0' && s[k] <= '9'; };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  std::string_view body = text;
  if (body.starts_with('-') || body.starts_with('+')) body.remove_prefix(1);
  if (body == "inf" || body == "infinity" || body == "nan")
    return std::strtod(text.c_str(), nullptr);
  // What strtod takes beyond Python: hexadecimal numbers and names.
  if (body.empty() || body.find_first_not_of("0123456789.e+-") != std::string_view::npos)
    return std::nullopt;
  if (body[0] != '.' && (body[0] < '0' || body[0] > '9')) return std::nullopt;
  char* end = nullptr;
  const double d = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() ? std::optional(d) : std::nullopt;
}

std::string digits_of(Int v, int base) {
  std::string s;
  auto rest = v < 0 ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v);
  do {
    s.push_back("0123456789abcdef"[static_cast<size_t>(rest % static_cast<unsigned>(base))]);
    rest /= static_cast<unsigned>(base);
  } while (rest != 0);
  if (v < 0) s.push_back('-');
  std::reverse(s.begin(), s.end());
  return s;
}

double round_float(double v, int64_t digits) {
  if (!std::isfinite(v) || digits > 323) return v;
  if (digits < -308) return std::copysign(0.0, v);
  if (digits >= 0)
    return std::strtod(float_notation(v, 'f', static_cast<int>(digits), false).c_str(), nullptr);
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(v / scale) * scale;
}

std::string float_notation(double v, char type, int precision, bool alternate) {
  if (!std::isfinite(v)) {
    std::string s = std::isnan(v) ? "nan" : v < 0 ? "-inf" : "inf";
    if (type < 'a')
      for (char& c : s) c = static_cast<char>(c >= 'a' ? c - 32 : c);
    return s;
  }
  // The longest: 309 digits, a point and the fraction.
  std::string buffer(static_cast<size_t>(precision) + 400, '\0');
  std::string format = alternate ? "%#.*" : "%.*";
  format += type;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int n = std::snprintf(buffer.data(), buffer.size(), format.c_str(), precision, v);
#pragma GCC diagnostic pop
  buffer.resize(static_cast<size_t>(std::max(n, 0)));
  return buffer;
}

}  // namespace rlx::jinja
