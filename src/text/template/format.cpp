// Python's two ways to format: "%s" % x and "{}".format(x).
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/template/convert.h"
#include "text/template/evaluator.h"
#include "text/template/number_text.h"
#include "text/template/operators.h"
#include "text/template/strings.h"

namespace rlx::jinja {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxPrecision = 4096;

// Flags, width, precision and type of one conversion of either kind.
struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', type = '\0', grouping = '\0';
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;
};

int64_t read_number(std::string_view s, size_t& at, int64_t most) {
  int64_t n = 0;
  while (at < s.size() && s[at] >= '0' && s[at] <= '9') {
    n = n * 10 + (s[at++] - '0');
    if (n > most) limit_fault("a format asks for a width or precision above {}", most);
  }
  return n;
}

std::string group_digits(const std::string& digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out;
}

std::string sign_text(bool negative, char sign) {
  return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

// Puts sign, zeros and digits into the field.
void add_number(TextBuilder& out, const Spec& spec, const std::string& sign,
                const std::string& body) {
  const auto size = static_cast<int64_t>(sign.size() + body.size());
  const int64_t missing = std::max<int64_t>(spec.width - size, 0);
  const char align = spec.align != '\0' ? spec.align : spec.zero ? '=' : '>';
  const std::string fill = spec.zero && spec.align == '\0' ? "0" : spec.fill;
  const int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  out.add_repeated(fill, left);
  out.add(sign);
  if (align == '=') out.add_repeated(fill, missing);
  out.add(body);
  if (align == '<' || align == '^') out.add_repeated(fill, missing - left);
}

void add_integer(TextBuilder& out, const Spec& spec, Int v) {
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  std::string digits = digits_of(v, base);
  if (v < 0) digits.erase(0, 1);
  if (spec.precision > static_cast<int64_t>(digits.size()))
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string sign = sign_text(v < 0, spec.sign);
  if (spec.alternate && base != 10) sign += base == 16 ? "0x" : base == 8 ? "0o" : "0b";
  if (spec.type == 'X')
    for (std::string* s : {&digits, &sign})
      for (char& c : *s) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  add_number(out, spec, sign, digits);
}

void add_float(TextBuilder& out, const Spec& spec, double v) {
  const bool negative = std::signbit(v) && !std::isnan(v);
  std::string body;
  if (spec.type == '\0' && spec.precision < 0) {
    body = float_text(std::fabs(v));
  } else {
    const char type = spec.type == '\0' || spec.type == 'n' ? 'g'
                      : spec.type == '%'                    ? 'f'
                                                            : spec.type;
    const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    const double shown = std::fabs(spec.type == '%' ? v * 100 : v);
    body =
        float_notation(shown, type, type == 'g' || type == 'G' ? std::max(precision, 1) : precision,
                       spec.alternate);
    // Without a type a float keeps a digit after the point.
    if (spec.type == '\0' && body.find_first_of(".en") == std::string::npos) body += ".0";
    if (spec.type == '%') body += '%';
  }
  if (spec.grouping != '\0' && std::isfinite(v)) {
    const size_t whole = std::min(body.find_first_not_of("0123456789"), body.size());
    body = group_digits(body.substr(0, whole), spec.grouping, 3) + body.substr(whole);
  }
  add_number(out, spec, sign_text(negative, spec.sign), body);
}

void add_text(TextBuilder& out, const Spec& spec, const Text& text) {
  size_t end = text.bytes.size();
  size_t length = text.length;
  if (spec.precision >= 0 && static_cast<size_t>(spec.precision) < length) {
    length = static_cast<size_t>(spec.precision);
    end = byte_offset(text, length);
  }
  const int64_t missing = std::max<int64_t>(spec.width - static_cast<int64_t>(length), 0);
  const int64_t left = spec.align == '>' ? missing : spec.align == '^' ? missing / 2 : 0;
  out.add_repeated(spec.fill, left);
  out.add(text, 0, end);
  out.add_repeated(spec.fill, missing - left);
}

TextPtr repr_text(const Value& v, Budget& budget) {
  TextBuilder out(budget);
  write_repr(out, v);
  return out.finish();
}

// "%..." % values
class Percent {
 public:
  Percent(Evaluator& ev, const Text& format, const Value& values)
      : ev_(ev), format_(format), values_(values), out_(ev.budget()) {}

  Value run() {
    const std::string_view s = format_.bytes;
    size_t at = 0;
    while (at < s.size()) {
      const size_t percent = std::min(s.find('%', at), s.size());
      out_.add(format_, at, percent);
      at = percent;
      if (at < s.size()) conversion(++at);
    }
    // What can be indexed might be a mapping and need not be used.
    const Kind kind = values_.kind();
    const bool indexed =
        kind == Kind::dict || kind == Kind::list || kind == Kind::range || kind == Kind::undefined;
    const bool unused =
        kind == Kind::tuple ? next_ < values_.items().size() : next_ == 0 && !named_ && !indexed;
    if (unused) fault("not all arguments converted during string formatting");
    return out_.finish(format_.markup);
  }

 private:
  Value take() {
    if (!values_.is(Kind::tuple)) {
      if (next_++ > 0) fault("not enough arguments for format string");
      return values_;
    }
    if (next_ >= values_.items().size()) fault("not enough arguments for format string");
    return values_.items()[next_++];
  }

  int64_t number_or_star(size_t& at, int64_t most) {
    const std::string_view s = format_.bytes;
    if (at >= s.size() || s[at] != '*') return read_number(s, at, most);
    ++at;
    const Value v = take();
    if (!v.is_integral()) fault("* wants int");
    const Int n = v.integer();
    if (n > most || n < -most) limit_fault("a format asks for a width or precision above {}", most);
    return static_cast<int64_t>(n);
  }

  void conversion(size_t& at) {
    const std::string_view s = format_.bytes;
    std::optional<Value> value;
    if (at < s.size() && s[at] == '(') {
      const size_t end = s.find(')', at);
      if (end == std::string_view::npos) fault("incomplete format key");
      if (!values_.is(Kind::dict)) fault("format requires a mapping");
      const Value* found = values_.dict()->find(s.substr(at + 1, end - at - 1));
      if (found == nullptr)
        fault("no value for the format key '{}'", s.substr(at + 1, end - at - 1));
      value = *found;
      named_ = true;
      at = end + 1;
    }
    Spec spec;
    for (; at < s.size() && std::string_view("-+ #0").find(s[at]) != std::string_view::npos; ++at) {
      if (s[at] == '-')
        spec.align = '<';
      else if (s[at] == '#')
        spec.alternate = true;
      else if (s[at] == '0')
        spec.zero = true;
      else if (spec.sign != '+')
        spec.sign = s[at];
    }
    spec.width = number_or_star(at, kMaxWidth);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (at < s.size() && s[at] == '.')
      spec.precision = std::max<int64_t>(number_or_star(++at, kMaxPrecision), 0);
    while (at < s.size() && (s[at] == 'l' || s[at] == 'h' || s[at] == 'L')) ++at;
    if (at >= s.size()) fault("incomplete format");
    spec.type = s[at++];
    if (spec.type == '%') return out_.add('%');
    convert(spec, value ? *value : take());
  }

  void convert(Spec& spec, const Value& v) {
    Budget& budget = ev_.budget();
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a':
        if (spec.align == '\0') spec.align = '>';
        return add_text(out_, spec, spec.type == 's' ? *to_text(v, budget) : *repr_text(v, budget));
      case 'd':
      case 'i':
      case 'u':
        if (v.is(Kind::real) && std::isfinite(v.real()) && std::fabs(v.real()) < 1e38)
          return add_integer(out_, spec, static_cast<Int>(v.real()));
        [[fallthrough]];
      case 'x':
      case 'X':
      case 'o':
        if (!v.is_integral())
          fault("%{} format: a number is required, not {}", spec.type, v.type_name());
        return add_integer(out_, spec, v.integer());
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!v.is_number()) fault("must be real number, not {}", v.type_name());
        return add_float(out_, spec, v.real());
      case 'c':
        if (spec.align == '\0') spec.align = '>';
        if (v.is_string() && v.text().length == 1) return add_text(out_, spec, v.text());
        if (!v.is_integral() || v.integer() < 0 || v.integer() > 0x10FFFF)
          fault("%c requires int or char");
        {
          std::string c;
          append_utf8(c, static_cast<char32_t>(v.integer()));
          return add_text(out_, spec, *make_text(c, &budget));
        }
      default:
        fault("unsupported format character '{}'", spec.type);
    }
  }

  Evaluator& ev_;
  const Text& format_;
  const Value& values_;
  TextBuilder out_;
  size_t next_ = 0;
  bool named_ = false;
};

Spec parse_spec(std::string_view s) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [&](size_t i) {
    return i < s.size() && std::string_view("<>=^").find(s[i]) != s.npos;
  };
  if (!s.empty()) {
    const size_t n = char_bytes(s, 0);
    if (is_align(n)) {
      spec.fill = s.substr(0, n);
      spec.align = s[n];
      at = n + 1;
    } else if (is_align(0)) {
      spec.align = s[0];
      at = 1;
    }
  }
  if (at < s.size() && (s[at] == '+' || s[at] == '-' || s[at] == ' ')) spec.sign = s[at++];
  if (at < s.size() && s[at] == '#') spec.alternate = s[at++] != '\0';
  if (at < s.size() && s[at] == '0') spec.zero = s[at++] != '\0';
  spec.width = read_number(s, at, kMaxWidth);
  if (at < s.size() && (s[at] == ',' || s[at] == '_')) spec.grouping = s[at++];
  if (at < s.size() && s[at] == '.') {
    ++at;
    if (at >= s.size() || s[at] < '0' || s[at] > '9') fault("Format specifier missing precision");
    spec.precision = read_number(s, at, kMaxPrecision);
  }
  if (at < s.size()) spec.type = s[at++];
  if (at != s.size()) fault("Invalid format specifier");
  return spec;
}

// "{...}".format(...)
class Brace {
 public:
  Brace(Evaluator& ev, const CallArgs& args) : ev_(ev), args_(args) {}

  void run(TextBuilder& out, const Text& format, int depth) {
    const std::string_view s = format.bytes;
    for (size_t at = 0; at < s.size();) {
      ev_.budget().step();
      const size_t brace = std::min(s.find_first_of("{}", at), s.size());
      out.add(format, at, brace);
      at = brace;
      if (at == s.size()) return;
      if (at + 1 < s.size() && s[at + 1] == s[at]) {
        out.add(format, at, at + 1);
        at += 2;
        continue;
      }
      if (s[at] == '}') fault("Single '}}' encountered in format string");
      if (depth == 0) fault("Max string recursion exceeded");
      const size_t end = closing(s, at);
      field(out, s.substr(at + 1, end - at - 1), depth);
      at = end + 1;
    }
  }

 private:
  static size_t closing(std::string_view s, size_t at) {
    int open = 0;
    for (size_t i = at; i < s.size(); ++i) {
      if (s[i] == '{') ++open;
      if (s[i] == '}' && --open == 0) return i;
    }
    fault("expected '}}' before end of string");
  }

  void field(TextBuilder& out, std::string_view field, int depth) {
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value v = lookup(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2) fault("end of string while looking for conversion specifier");
      if (rest[1] == 'r' || rest[1] == 'a')
        v = repr_text(v, ev_.budget());
      else if (rest[1] == 's')
        v = to_text(v, ev_.budget());
      else
        fault("Unknown conversion specifier {}", rest[1]);
      rest.remove_prefix(2);
    }
    if (!rest.empty() && rest[0] != ':') fault("expected ':' after conversion specifier");
    if (!rest.empty()) rest.remove_prefix(1);
    TextBuilder spec(ev_.budget());
    run(spec, *make_text(std::string(rest), &ev_.budget()), depth - 1);
    format_value(ev_, out, v, spec.bytes());
  }

  Value lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value v = argument(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      ev_.budget().step();
      if (name[0] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", 1), name.size());
        v = get_attribute(ev_, v, name.substr(1, stop - 1));
        name.remove_prefix(stop);
      } else {
        const size_t stop = name.find(']');
        if (name[0] != '[' || stop == std::string_view::npos) fault("Missing ']' in format string");
        const std::string_view key = name.substr(1, stop - 1);
        int64_t index = 0;
        const auto r = std::from_chars(key.data(), key.data() + key.size(), index);
        const bool number = !key.empty() && key[0] != '-' && r.ec == std::errc() &&
                            r.ptr == key.data() + key.size();
        v = get_item(ev_, v,
                     number ? Value(index) : Value(make_text(std::string(key), &ev_.budget())));
        name.remove_prefix(stop + 1);
      }
      if (v.is_undefined()) undefined_fault(v);
    }
    return v;
  }

  Value argument(std::string_view name) {
    size_t index = 0;
    if (name.empty()) {
      index = next_++;
    } else {
      const auto r = std::from_chars(name.data(), name.data() + name.size(), index);
      if (r.ec != std::errc() || r.ptr != name.data() + name.size()) {
        for (const auto& [key, value] : args_.named)
          if (key == name) return value;
        fault("no value for the format field '{}'", name);
      }
    }
    if (index >= args_.positional.size())
      fault("Replacement index {} out of range for positional args tuple", index);
    return args_.positional[index];
  }

  Evaluator& ev_;
  const CallArgs& args_;
  size_t next_ = 0;
};

}  // namespace

Value percent_format(Evaluator& ev, const Text& format, const Value& values) {
  return Percent(ev, format, values).run();
}

Value brace_format(Evaluator& ev, const Text& format, CallArgs& args) {
  TextBuilder out(ev.budget());
  Brace(ev, args).run(out, format, 2);
  return out.finish(format.markup);
}

void format_value(Evaluator& ev, TextBuilder& out, const Value& v, std::string_view spec_text) {
  if (spec_text.empty()) return write_str(out, v);
  Spec spec = parse_spec(spec_text);
  const auto one_of = [&](std::string_view types) {
    return spec.type != '\0' && types.find(spec.type) != types.npos;
  };
  if (v.is_string()) {
    if (spec.type != '\0' && spec.type != 's')
      fault("Unknown format code '{}' for object of type 'str'", spec.type);
    if (spec.align == '=' || spec.sign != '-') fault("the format is not allowed for a string");
    if (spec.zero && spec.align == '\0') spec.fill = "0";
    return add_text(out, spec, v.text());
  }
  if (!v.is_number()) fault("unsupported format string passed to {}.__format__", v.type_name());
  if (v.is(Kind::boolean) && spec.type == '\0') {
    if (spec.align == '\0') spec.align = '<';
    if (spec.zero) spec.fill = "0";
  }
  if (v.is_integral() && (spec.type == '\0' || one_of("dxXobn"))) {
    if (spec.precision >= 0) fault("Precision not allowed in integer format specifier");
    return add_integer(out, spec, v.integer());
  }
  if (v.is_integral() && spec.type == 'c') {
    if (v.integer() < 0 || v.integer() > 0x10FFFF) fault("%c arg not in range");
    std::string c;
    append_utf8(c, static_cast<char32_t>(v.integer()));
    return add_text(out, spec, *make_text(c, &ev.budget()));
  }
  if (spec.type != '\0' && !one_of("eEfFgGn%"))
    fault("Unknown format code '{}' for object of type '{}'", spec.type, v.type_name());
  add_float(out, spec, v.real());
}

}  // namespace rlx::jinja
