// Lists as attributes: axes and sizes, held by value in the 64 bytes of an op.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/shape.h"

namespace rlx {

/// Up to kMaxRank axes, negative ones counted from the end. In text: "0,2,1".
class Axes {
 public:
  Axes() = default;
  Axes(std::initializer_list<int> axes);  ///< Error(shape) for more than kMaxRank axes
  explicit Axes(std::span<const int> axes);
  int size() const { return count_; }
  int operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  bool operator==(const Axes&) const = default;

 private:
  std::array<std::int8_t, kMaxRank> values_{};  // unused places stay 0, so that equal is equal
  std::int8_t count_ = 0;
};

/// Up to kMaxRank sizes. In text: "rows,4,ceil_div(rows,16)".
class DimList {
 public:
  DimList() = default;
  DimList(std::initializer_list<Dim> dims);  ///< Error(shape) for more than kMaxRank sizes
  explicit DimList(std::span<const Dim> dims);
  int size() const { return count_; }
  Dim operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  std::span<const Dim> dims() const { return {values_.data(), static_cast<std::size_t>(count_)}; }
  DimList bind(const DimBinding& binding) const;
  void collect(std::vector<Symbol>& out) const;
  std::string text() const;
  bool operator==(const DimList&) const = default;

 private:
  std::array<Dim, kMaxRank> values_{};
  std::int32_t count_ = 0;
};

/// A number for each of up to three spatial axes, each in [0, 32767]: strides, dilations, paddings, the sizes of a
/// window. In text: "2,1". An empty list stands for the same number on every axis, which the op states.
class Extents {
 public:
  static constexpr int kMax = 3;
  Extents() = default;
  Extents(std::initializer_list<int> values);  ///< Error(shape) for more than kMax numbers or one outside
  explicit Extents(std::span<const std::int64_t> values);
  [[gnu::always_inline]] int size() const { return count_; }
  [[gnu::always_inline]] int operator[](int i) const { return values_[i]; }
  /// The number of axis i; `otherwise` for an empty list.
  [[gnu::always_inline]] int get(int i, int otherwise) const { return count_ == 0 ? otherwise : values_[i]; }
  std::string text() const;
  bool operator==(const Extents&) const = default;

 private:
  void set(std::size_t count, const std::int64_t* values);
  std::int16_t values_[kMax] = {};  // unused places stay 0, so that equal is equal
  std::int16_t count_ = 0;
};

// Found by the printer, the parser and the binder of attributes (ir/op_impl.h).
std::string print_value(const Axes& v);
std::string print_value(const DimList& v);
std::string print_value(const Extents& v);
bool parse_value(std::string_view text, Axes& v);  ///< false for another form, and for no axis
bool parse_value(std::string_view text, DimList& v);
bool parse_value(std::string_view text, Extents& v);  ///< as for Axes
inline void bind_field(DimList& v, const DimBinding& binding) { v = v.bind(binding); }
inline void collect_field(const DimList& v, std::vector<Symbol>& out) { v.collect(out); }

}  // namespace rlx
