#include "ops/attr_lists.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace rlx {
namespace {

// The parts between the commas that stand in no parentheses.
std::vector<std::string_view> list_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (text[i] != ',' || depth > 0) continue;
    parts.push_back(text.substr(from, i - from));
    from = i + 1;
  }
  parts.push_back(text.substr(from));
  return parts;
}

void check_list_length(std::size_t count, std::string_view what) {
  if (count > kMaxRank)
    fail(ErrorCode::shape, "a list of {} {}: expected at most {}", count, what, kMaxRank);
}

}  // namespace

Axes::Axes(std::initializer_list<int> axes)
    : Axes(std::span<const int>(axes.begin(), axes.size())) {}
Axes::Axes(std::span<const int> axes) : count_(static_cast<std::int8_t>(axes.size())) {
  check_list_length(axes.size(), "axes");
  for (std::size_t i = 0; i < axes.size(); ++i)  // far outside stays outside of every rank
    values_[i] = static_cast<std::int8_t>(std::clamp(axes[i], -128, 127));
}

DimList::DimList(std::initializer_list<Dim> dims)
    : DimList(std::span<const Dim>(dims.begin(), dims.size())) {}
DimList::DimList(std::span<const Dim> dims) : count_(static_cast<std::int32_t>(dims.size())) {
  check_list_length(dims.size(), "sizes");
  std::copy(dims.begin(), dims.end(), values_.begin());
}

DimList DimList::bind(const DimBinding& binding) const {
  DimList list = *this;
  for (Dim& d : list.values_) d = d.bind(binding);
  return list;
}

void DimList::collect(std::vector<Symbol>& out) const {
  for (Dim d : dims()) d.collect(out);
}

std::string DimList::text() const {
  std::string text = "[";
  for (Dim d : dims()) text += (text.size() > 1 ? ", " : "") + d.text();
  return text + "]";
}

Extents::Extents(std::initializer_list<int> values) {
  const std::vector<std::int64_t> wide(values.begin(), values.end());
  set(wide.size(), wide.data());
}
Extents::Extents(std::span<const std::int64_t> values) { set(values.size(), values.data()); }

void Extents::set(std::size_t count, const std::int64_t* values) {
  if (count > kMax)
    fail(ErrorCode::shape, "a list of {} numbers: expected at most {}, one for each spatial axis", count, int{kMax});
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i] < 0 || values[i] > INT16_MAX)
      fail(ErrorCode::shape, "expected a number in [0, {}], found {}", INT16_MAX, values[i]);
    values_[i] = static_cast<std::int16_t>(values[i]);
  }
  count_ = static_cast<std::int16_t>(count);
}

std::string Extents::text() const { return "[" + print_value(*this) + "]"; }

std::string print_value(const Extents& v) {
  std::string text;
  for (int i = 0; i < v.size(); ++i) text += fmt::format("{}{}", i > 0 ? "," : "", v[i]);
  return text;
}

std::string print_value(const Axes& v) {
  std::string text;
  for (int i = 0; i < v.size(); ++i) text += fmt::format("{}{}", i > 0 ? "," : "", v[i]);
  return text;
}

std::string print_value(const DimList& v) {
  std::string text;
  for (Dim d : v.dims()) text += (text.empty() ? "" : ",") + d.text();
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());  // values end at a space
  return text;
}

bool parse_value(std::string_view text, Axes& v) {
  std::vector<int> axes;
  for (const std::string_view part : list_parts(text)) {
    int axis = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), axis);
    if (error != std::errc{} || end != part.data() + part.size()) return false;
    axes.push_back(axis);
  }
  if (axes.size() > kMaxRank) return false;
  v = Axes(axes);
  return true;
}

bool parse_value(std::string_view text, Extents& v) {
  std::vector<std::int64_t> values;
  for (const std::string_view part : list_parts(text)) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || value < 0 || value > INT16_MAX) return false;
    values.push_back(value);
  }
  if (values.size() > Extents::kMax) return false;
  v = Extents(std::span<const std::int64_t>(values));
  return true;
}

bool parse_value(std::string_view text, DimList& v) {
  std::vector<Dim> dims;
  try {
    for (const std::string_view part : list_parts(text)) dims.push_back(Dim::parse(part));
  } catch (const Error&) {
    return false;
  }
  if (dims.size() > kMaxRank) return false;
  v = DimList(dims);
  return true;
}

}  // namespace rlx
