#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

utf8proc_category_t category(char32_t c) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

/// Sorts every run of combining marks by class, stably: the canonical order.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  const auto mark_class = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  for (auto it = codes.begin(); it != codes.end();) {
    if (*it < 0x300 || mark_class(*it) == 0) {
      ++it;
      continue;
    }
    const auto end =
        std::find_if(it, codes.end(), [&](utf8proc_int32_t c) { return mark_class(c) == 0; });
    std::stable_sort(it, end, [&](utf8proc_int32_t a, utf8proc_int32_t b) {
      return mark_class(a) < mark_class(b);
    });
    it = end;
  }
}

/// True when no form can change the text: all below U+00A0, or for NFC all below U+0300.
bool is_plain(std::string_view text, NormalForm form) noexcept {
  const unsigned char limit =
      form == NormalForm::nfc ? 0xCC : 0x80;  // the lead byte of U+0300, of any non-ASCII
  return std::all_of(text.begin(), text.end(), [&](char c) {
    const auto b = static_cast<unsigned char>(c);
    return b < 0x80 || (limit == 0xCC && b < limit);
  });
}

}  // namespace

bool is_whitespace(char32_t c) noexcept {
  if (c < 0x80) return (c >= 9 && c <= 13) || c == 32;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) noexcept {
  if (c < 0x80) return c >= '0' && c <= '9';
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) noexcept {
  if (c < 0x80)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool is_nonspacing_mark(char32_t c) noexcept {
  return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN;
}

bool is_other(char32_t c) noexcept {
  if (c < 0x80) return c < 32 || c == 127;
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CN ||
         k == UTF8PROC_CATEGORY_CO || k == UTF8PROC_CATEGORY_CS;
}

bool is_word(char32_t c) noexcept {
  if (c < 0x80)
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  const auto k = category(c);
  if (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) return true;  // L*, M*, Nd, Nl
  if (k == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D) return true;
  // Other_Alphabetic symbols: circled, squared and negative letters.
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

std::string normalize(std::string_view text, NormalForm form) {
  if (is_plain(text, form)) return std::string(text);
  const bool compat = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compat ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const auto code = static_cast<utf8proc_int32_t>(utf8_at(text, at));
    utf8proc_int32_t parts[32];  // the longest decomposition has 18 characters
    int boundary = 0;
    const auto n = utf8proc_decompose_char(code, parts, 32, options, &boundary);
    RLX_CHECK(n >= 0 && n <= 32, "a decomposition is longer than the standard's longest");
    codes.insert(codes.end(), parts, parts + n);
  }
  order_marks(codes);
  if (compose) {
    const auto n = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    RLX_CHECK(n >= 0, "composition failed");
    codes.resize(static_cast<std::size_t>(n));
  }
  std::string out;
  out.reserve(text.size());
  for (const auto c : codes) append_utf8(out, static_cast<char32_t>(c));
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); at += utf8_length(text[at])) {
    const char32_t c = utf8_at(text, at);
    if (c < 0x80) {
      out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    } else if (c == 0x130) {  // the one character whose lower case is two
      out += "i\xCC\x87";
    } else {
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    }
  }
  return out;
}

}  // namespace rlx::tokenizer
