#include "text/template/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "text/template/text.h"

namespace rlx::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

struct Special {
  char32_t from;
  std::u32string_view upper;
  std::u32string_view title;
};

// Characters whose upper case is longer than one character: the unconditional part of Unicode's
// SpecialCasing.txt. Greek letters with iota subscript (1F80..1FFC) follow a rule and are made in
// iota_upper.
constexpr std::array kSpecial = {
    Special{0x00DF, U"SS", U"Ss"},
    Special{0x0149, U"\u02BCN", U"\u02BCN"},
    Special{0x01F0, U"J\u030C", U"J\u030C"},
    Special{0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    Special{0x03B0, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    Special{0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    Special{0x1E96, U"H\u0331", U"H\u0331"},
    Special{0x1E97, U"T\u0308", U"T\u0308"},
    Special{0x1E98, U"W\u030A", U"W\u030A"},
    Special{0x1E99, U"Y\u030A", U"Y\u030A"},
    Special{0x1E9A, U"A\u02BE", U"A\u02BE"},
    Special{0x1F50, U"\u03A5\u0313", U"\u03A5\u0313"},
    Special{0x1F52, U"\u03A5\u0313\u0300", U"\u03A5\u0313\u0300"},
    Special{0x1F54, U"\u03A5\u0313\u0301", U"\u03A5\u0313\u0301"},
    Special{0x1F56, U"\u03A5\u0313\u0342", U"\u03A5\u0313\u0342"},
    Special{0x1FB2, U"\u1FBA\u0399", U"\u1FBA\u0345"},
    Special{0x1FB3, U"\u0391\u0399", U"\u1FBC"},
    Special{0x1FB4, U"\u0386\u0399", U"\u0386\u0345"},
    Special{0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
    Special{0x1FB7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    Special{0x1FBC, U"\u0391\u0399", U"\u1FBC"},
    Special{0x1FC2, U"\u1FCA\u0399", U"\u1FCA\u0345"},
    Special{0x1FC3, U"\u0397\u0399", U"\u1FCC"},
    Special{0x1FC4, U"\u0389\u0399", U"\u0389\u0345"},
    Special{0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
    Special{0x1FC7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    Special{0x1FCC, U"\u0397\u0399", U"\u1FCC"},
    Special{0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    Special{0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    Special{0x1FD6, U"\u0399\u0342", U"\u0399\u0342"},
    Special{0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    Special{0x1FE2, U"\u03A5\u0308\u0300", U"\u03A5\u0308\u0300"},
    Special{0x1FE3, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    Special{0x1FE4, U"\u03A1\u0313", U"\u03A1\u0313"},
    Special{0x1FE6, U"\u03A5\u0342", U"\u03A5\u0342"},
    Special{0x1FE7, U"\u03A5\u0308\u0342", U"\u03A5\u0308\u0342"},
    Special{0x1FF2, U"\u1FFA\u0399", U"\u1FFA\u0345"},
    Special{0x1FF3, U"\u03A9\u0399", U"\u1FFC"},
    Special{0x1FF4, U"\u038F\u0399", U"\u038F\u0345"},
    Special{0x1FF6, U"\u03A9\u0342", U"\u03A9\u0342"},
    Special{0x1FF7, U"\u03A9\u0342\u0399", U"\u03A9\u0342\u0345"},
    Special{0x1FFC, U"\u03A9\u0399", U"\u1FFC"},
    Special{0xFB00, U"FF", U"Ff"},
    Special{0xFB01, U"FI", U"Fi"},
    Special{0xFB02, U"FL", U"Fl"},
    Special{0xFB03, U"FFI", U"Ffi"},
    Special{0xFB04, U"FFL", U"Ffl"},
    Special{0xFB05, U"ST", U"St"},
    Special{0xFB06, U"ST", U"St"},
    Special{0xFB13, U"\u0544\u0546", U"\u0544\u0576"},
    Special{0xFB14, U"\u0544\u0535", U"\u0544\u0565"},
    Special{0xFB15, U"\u0544\u053B", U"\u0544\u056B"},
    Special{0xFB16, U"\u054E\u0546", U"\u054E\u0576"},
    Special{0xFB17, U"\u0544\u053D", U"\u0544\u056D"},
};

const Special* find_special(char32_t c) {
  const auto it = std::lower_bound(kSpecial.begin(), kSpecial.end(), c,
                                   [](const Special& s, char32_t x) { return s.from < x; });
  return it != kSpecial.end() && it->from == c ? &*it : nullptr;
}

std::u32string one(utf8proc_int32_t c) { return std::u32string(1, static_cast<char32_t>(c)); }

// 1F80..1FAF: sixteen letters each of alpha, eta, omega with iota subscript.
std::u32string iota_upper(char32_t c) {
  constexpr char32_t kBase[] = {0x1F08, 0x1F28, 0x1F68};
  return {kBase[(c - 0x1F80) / 16] + (c & 7), 0x0399};
}

bool is_iota(char32_t c) { return c >= 0x1F80 && c <= 0x1FAF; }

// Roman numerals and circled letters count as cased without being letters (Other_Uppercase,
// Other_Lowercase).
bool other_upper(char32_t c) {
  return (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF) ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}
bool other_lower(char32_t c) {
  return c == 0xAA || c == 0xBA || (c >= 0x2B0 && c <= 0x2B8) || c == 0x2C0 || c == 0x2C1 ||
         (c >= 0x2E0 && c <= 0x2E4) || c == 0x345 || c == 0x37A || (c >= 0x1D2C && c <= 0x1D6A) ||
         c == 0x1D78 || (c >= 0x1D9B && c <= 0x1DBF) || c == 0x2071 || c == 0x207F ||
         (c >= 0x2090 && c <= 0x209C) || (c >= 0x2170 && c <= 0x217F) ||
         (c >= 0x24D0 && c <= 0x24E9) || c == 0x2C7C || c == 0x2C7D;
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t c) {
  // Superscripts, subscripts and circled digits are digits without being decimals.
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x24F5 && c <= 0x24FD) ||
         c == 0x24FF || (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) ||
         (c >= 0x278A && c <= 0x2792);
}

bool is_numeric(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || other_lower(c); }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU || other_upper(c); }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || is_title(c); }

bool is_case_ignorable(char32_t c) {
  if (c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xB7 || c == 0x2019 ||
      c == 0x2018 || c == 0x2024 || c == 0x2027)
    return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

bool is_identifier(std::string_view s) {
  bool first = true;
  for (size_t i = 0; i < s.size(); i += char_bytes(s, i)) {
    const char32_t c = code_point(s, i);
    const auto k = category(c);
    const bool start = c == '_' || is_alpha(c) || k == UTF8PROC_CATEGORY_NL;
    const bool part = start || is_decimal(c) || k == UTF8PROC_CATEGORY_MN ||
                      k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC;
    if (first ? !start : !part) return false;
    first = false;
  }
  return !first;
}

std::u32string to_upper(char32_t c) {
  if (c < 0x80) return one(c >= 'a' && c <= 'z' ? static_cast<int>(c) - 32 : static_cast<int>(c));
  if (is_iota(c)) return iota_upper(c);
  if (const Special* s = find_special(c)) return std::u32string(s->upper);
  return one(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

std::u32string to_lower(char32_t c) {
  if (c < 0x80) return one(c >= 'A' && c <= 'Z' ? static_cast<int>(c) + 32 : static_cast<int>(c));
  if (c == 0x0130) return U"i\u0307";
  return one(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::u32string to_title(char32_t c) {
  if (c < 0x80) return to_upper(c);
  if (const Special* s = find_special(c)) return std::u32string(s->title);
  return one(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

std::u32string fold_case(char32_t c) {
  if (c < 0x80) return to_lower(c);
  std::array<utf8proc_int32_t, 8> out{};
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), out.data(), out.size(),
                                         UTF8PROC_CASEFOLD, &boundary);
  std::u32string folded;
  for (utf8proc_ssize_t i = 0; i < n && i < static_cast<utf8proc_ssize_t>(out.size()); ++i)
    folded.push_back(static_cast<char32_t>(out[static_cast<size_t>(i)]));
  return folded;
}

}  // namespace rlx::jinja
