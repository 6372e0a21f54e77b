// Arithmetic on sizes that come from outside: every overflow is seen (quality.md, section 2).
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"

namespace rlx {

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) noexcept {
  T r{};
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) noexcept {
  T r{};
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// Rounds n up to a multiple of align (align > 0); nothing when the result does not fit.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_round_up(T n, T align) noexcept {
  const T rest = n % align;
  if (rest == 0) return n;
  return checked_add<T>(n, align - rest);
}

/// Converts between integer types; nothing when the value does not fit.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr std::optional<To> checked_cast(From v) noexcept {
  if (!std::in_range<To>(v)) return std::nullopt;
  return static_cast<To>(v);
}

/// The value of a checked operation, or Error(limit) that names the quantity.
template <typename T>
[[nodiscard]] T require(std::optional<T> v, const char* what) {
  if (!v) fail(ErrorCode::limit, "{}: the size does not fit in 64 bits", what);
  return *v;
}

/// Plain helpers for sizes that are already known to be small.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace rlx
