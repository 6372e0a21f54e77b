// Filters on single values: defaults, numbers, JSON.
#include <algorithm>
#include <cmath>

#include "text/template/convert.h"
#include "text/template/filters.h"
#include "text/template/number_text.h"

namespace rlx::jinja {
namespace {

Value default_filter(Args& a) {
  const bool replaced = a[0].is_undefined() || (a.flag(2, false) && !a[0].truth());
  if (!replaced) return a[0];
  return a.has(1) ? a[1] : Value(make_text("", &a.budget));
}

Value abs_filter(Args& a) {
  if (a[0].is_undefined()) undefined_fault(a[0]);
  if (!a[0].is_number()) fault("bad operand type for abs(): '{}'", a[0].type_name());
  if (a[0].is(Kind::real)) return std::fabs(a[0].real());
  return a[0].integer() < 0 ? negate(a[0]) : Value(a[0].integer());
}

// A float as an integer, nothing for infinities and NaN.
std::optional<Int> truncated(double d) {
  if (!std::isfinite(d)) return std::nullopt;
  if (std::fabs(d) >= 1.7e38) limit_fault("the integer does not fit in 128 bits");
  return static_cast<Int>(d);
}

Value int_filter(Args& a) {
  const Value& v = a[0];
  const Value fallback = a.has(1) ? a[1] : Value(0);
  if (v.is_undefined()) undefined_fault(v);
  if (v.is_integral()) return v.integer();
  std::optional<double> d;
  if (v.is(Kind::real)) {
    // int(inf) raises what the reference does not catch at first, but float() then gives the same.
    d = v.real();
  } else if (v.is_string()) {
    a.budget.work(v.text().bytes.size(), 8);
    if (const auto i = parse_int(v.text().bytes, static_cast<int>(a.integer_or(2, 10))))
      return Value(*i);
    d = parse_float(v.text().bytes);
  }
  if (!d) return fallback;
  const auto i = truncated(*d);
  return i ? Value(*i) : fallback;
}

Value float_filter(Args& a) {
  const Value& v = a[0];
  if (v.is_undefined()) undefined_fault(v);
  if (v.is_number()) return v.real();
  if (v.is_string()) {
    a.budget.work(v.text().bytes.size(), 8);
    if (const auto d = parse_float(v.text().bytes)) return *d;
  }
  return a.has(1) ? a[1] : Value(0.0);
}

Value round_filter(Args& a) {
  const std::string method = a.has(2) ? a.text(2).bytes : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    fault("round: method must be common, ceil or floor");
  if (a[0].is_undefined()) undefined_fault(a[0]);
  if (!a[0].is_number()) fault("type {} doesn't define __round__ method", a[0].type_name());
  const int64_t precision = a.integer_or(1, 0);
  if (method == "common") {
    if (a[0].is_integral() && precision >= 0) return a[0].integer();
    const double r = round_float(a[0].real(), precision);
    return a[0].is_integral() ? Value(static_cast<Int>(r)) : Value(r);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = a[0].real() * scale;
  const auto whole = truncated(method == "ceil" ? std::ceil(scaled) : std::floor(scaled));
  if (!whole) fault("cannot convert {} to an integer", float_text(scaled));
  return static_cast<double>(*whole) / scale;
}

Value attr_filter(Args& a) {
  const std::string& name = a.text(1).bytes;
  // Only attributes, never keys.
  if (a[0].is(Kind::dict) && find_method(a[0], name) == nullptr)
    return Value::undefined(fmt::format("'dict object' has no attribute '{}'", name));
  return get_attribute(a.ev, a[0], name);
}

void set_separators(JsonStyle& style, const Value& v) {
  if (!v.is_sequence() || v.items().size() != 2 || !v.items()[0].is_string() ||
      !v.items()[1].is_string())
    fault("tojson: separators must be two strings");
  style.item_separator = v.items()[0].text().bytes;
  style.key_separator = v.items()[1].text().bytes;
}

Value tojson_filter(Args& a) {
  JsonStyle style;
  style.ensure_ascii = a.flag(1, false);
  if (!a.absent(2)) {
    style.multiline = true;
    style.item_separator = ",";
    if (a[2].is_string()) {
      style.indent = a[2].text().bytes;
    } else {
      const auto n = static_cast<size_t>(std::max<int64_t>(a.integer(2), 0));
      a.budget.check_size(n);
      a.budget.work(n);
      style.indent.assign(n, ' ');
    }
  }
  if (!a.absent(3)) set_separators(style, a[3]);
  style.sort_keys = a.flag(4, false);
  TextBuilder out(a.budget);
  write_json(out, a[0], style);
  return out.finish();
}

Value filesizeformat_filter(Args& a) {
  CallArgs none;
  double bytes = 0;
  if (a[0].is_number())
    bytes = a[0].real();
  else if (const auto d = parse_float(a.text(0).bytes))
    bytes = *d;
  else
    fault("filesizeformat expects a number");
  const bool binary_units = a.flag(1, false);
  const double base = binary_units ? 1024 : 1000;
  if (bytes == 1) return make_text("1 Byte", &a.budget);
  if (bytes < base) return make_text(int_text(static_cast<Int>(bytes)) + " Bytes", &a.budget);
  constexpr const char* kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr const char* kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  double unit = base;
  size_t i = 0;
  for (; i < 7 && bytes >= unit * base; ++i) unit *= base;
  return make_text(
      float_notation(bytes / unit, 'f', 1, false) + " " + (binary_units ? kBinary : kDecimal)[i],
      &a.budget);
}

constexpr Function kValueFilters[] = {
    {"default", "value,default_value,boolean", 1, default_filter},
    {"d", "value,default_value,boolean", 1, default_filter},
    {"abs", "value", 1, abs_filter},
    {"int", "value,default,base", 1, int_filter},
    {"float", "value,default", 1, float_filter},
    {"round", "value,precision,method", 1, round_filter},
    {"attr", "value,name", 2, attr_filter},
    {"tojson", "value,ensure_ascii,indent,separators,sort_keys", 1, tojson_filter},
    {"from_json", "value", 1, [](Args& a) { return parse_json(a.text(0), a.budget); }},
    {"filesizeformat", "value,binary", 1, filesizeformat_filter},
};

}  // namespace

FunctionTable value_filters() { return kValueFilters; }

}  // namespace rlx::jinja
