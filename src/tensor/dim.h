// Symbolic sizes: integers and polynomials over named symbols, hash-consed so that equality is one
// compare.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace rlx {

/// An interned name of a size. Equal names give equal symbols in a process.
class Symbol {
 public:
  /// The symbol of a name ([a-z_][a-z0-9_]*); Error(invalid_argument) for another form.
  static Symbol named(std::string_view name);
  std::string_view name() const;
  /// The symbol of an id that id() gave, or of a well-known one.
  explicit constexpr Symbol(std::uint32_t id) : id_(id) {}
  std::uint32_t id() const { return id_; }
  friend bool operator==(Symbol, Symbol) = default;
  friend bool operator<(Symbol a, Symbol b) {
    return a.name() < b.name();
  }  ///< by name: the same in every process

 private:
  std::uint32_t id_;
};

/// The well-known symbols (compiler.md, section 1). Constants, so that sizes may be built before
/// main.
namespace sym {
inline constexpr Symbol batch(0);     ///< sequences of this step
inline constexpr Symbol seq(1);       ///< tokens per sequence
inline constexpr Symbol rows(2);      ///< new tokens over all sequences
inline constexpr Symbol out_rows(3);  ///< rows whose result is wanted
inline constexpr Symbol past_seq(4);  ///< cached prefix, in the functional form only
}  // namespace sym

/// Hands out symbols for names of the caller's own.
class DimEnv {
 public:
  /// The same symbol for the same name. Error(invalid_argument): a name of another form than
  /// Symbol::named takes, or that of a well-known symbol.
  static Symbol symbol(std::string_view name);
};

/// Ordered map symbol -> size; equality and digest do not depend on the order of insertion.
class DimBinding {
 public:
  DimBinding() = default;
  DimBinding(std::initializer_list<std::pair<Symbol, std::int64_t>> sizes);
  /// Binds batch, seq and rows = b * s. Error(shape) when a size is negative or the product does
  /// not fit.
  static DimBinding batch_seq(std::int64_t b, std::int64_t s);
  static DimBinding batch_past_seq(std::int64_t b, std::int64_t p);

  DimBinding& set(Symbol s,
                  std::int64_t size);  ///< the last value of a symbol wins; Error(shape) below 0
  std::optional<std::int64_t> get(Symbol s) const;
  bool empty() const { return sizes_.empty(); }
  const std::map<Symbol, std::int64_t>& sizes() const { return sizes_; }
  Digest digest() const;
  std::string text() const;  ///< "batch=1,rows=7"
  bool operator==(const DimBinding&) const = default;

 private:
  std::map<Symbol, std::int64_t> sizes_;
};

/// A size: an integer or a polynomial over symbols and ceil_div terms, in canonical form. 4 bytes.
/// Equal handles mean equal values for every binding, and equal polynomials have equal handles.
/// By construction ceil_div(x, 1) = x, ceil_div of constants folds, ceil_div(c*x, c) = x, and
/// ceil_div(x + c*y, c) = ceil_div(x, c) + y, for an integer c > 0. Arithmetic that leaves 64 bits
/// throws Error(limit), and so do expressions of more than 1024 terms, of a degree above 64, or with a
/// ceil_div of more than 4096 characters: no model has them, and hostile text would grow without end.
class Dim {
 public:
  constexpr Dim() = default;                    ///< 0
  Dim(std::int64_t value);                      // NOLINT: sizes are written as plain numbers
  Dim(int value) : Dim(std::int64_t{value}) {}  // NOLINT
  Dim(Symbol symbol);                           // NOLINT

  friend Dim operator+(Dim a, Dim b);
  friend Dim operator-(Dim a, Dim b);
  friend Dim operator*(Dim a, Dim b);
  friend Dim ceil_div(Dim a, std::int64_t by);  ///< Error(shape) when by < 1
  friend bool operator==(Dim, Dim) = default;

  bool is_constant() const;
  std::optional<std::int64_t> constant() const;  ///< the value of a size without symbols
  /// Replaces bound symbols; what is unbound stays.
  Dim bind(const DimBinding& binding) const;
  /// The value under a binding; Error(shape) names the first symbol that is unbound, or a negative
  /// result.
  std::int64_t evaluate(const DimBinding& binding) const;
  void collect(std::vector<Symbol>& out) const;  ///< appends each symbol of the size once
  /// The quotient when `by` divides this size exactly as a polynomial (rows*16 / 16 = rows);
  /// nothing otherwise.
  std::optional<Dim> divided_by(Dim by) const;
  std::string text() const;                 ///< "rows", "16*rows + 3", "ceil_div(rows, 4)"
  static Dim parse(std::string_view text);  ///< inverse of text(); Error(format) with the position
  std::uint32_t handle() const { return handle_; }

 private:
  friend class DimTable;
  std::uint32_t handle_ = 0;
};

}  // namespace rlx
