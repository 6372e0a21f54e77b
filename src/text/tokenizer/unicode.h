// Character classes and normal forms (https://www.unicode.org/reports/tr44, tr15) in the versions
// that the reference libraries use.
#pragma once

#include <string>
#include <string_view>

namespace rlx::tokenizer {

bool is_whitespace(char32_t c) noexcept;       ///< property White_Space
bool is_numeric(char32_t c) noexcept;          ///< categories Nd, Nl, No
bool is_punctuation(char32_t c) noexcept;      ///< ASCII punctuation and the categories P*
bool is_nonspacing_mark(char32_t c) noexcept;  ///< category Mn
bool is_other(char32_t c) noexcept;            ///< categories Cc, Cf, Cn, Co, Cs
bool is_word(char32_t c) noexcept;             ///< Alphabetic, M, Nd, Pc, Join_Control

enum class NormalForm { nfc, nfd, nfkc, nfkd };

/// `text` is valid UTF-8. Time O(n log n) for any text: long runs of combining marks are sorted,
/// not bubbled.
std::string normalize(std::string_view text, NormalForm form);

/// Each character's full lower case, without regard to its neighbours.
std::string lowercase(std::string_view text);

}  // namespace rlx::tokenizer
