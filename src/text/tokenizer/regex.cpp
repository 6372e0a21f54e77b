#include "text/tokenizer/regex.h"

#include <pcre2.h>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

constexpr std::size_t kMaxPattern = 64 << 10;      // bytes; the longest of known files has 1.5 KiB
constexpr std::size_t kJitStack = 16 << 20;        // mapped by need
constexpr std::uint32_t kHeapLimitKib = 64 << 10;  // of the interpreter, where there is no JIT

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};

/// What a match needs beside the pattern; one for each thread, since it is written to.
struct Scratch {
  std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>> data{
      pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(32 << 10, kJitStack, nullptr)};
  std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};

  Scratch() {
    if (!data || !context) fail(ErrorCode::memory, "no memory for matching a pattern");
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  }
};

Scratch& scratch() {
  thread_local Scratch s;
  return s;
}

std::string message_of(int code) {
  char text[256] = {};
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

/// Whether a compile error is about something that PCRE2 does not do, not about a malformed
/// pattern.
bool is_refusal(int error) {
  switch (error) {
    case PCRE2_ERROR_PATTERN_TOO_LARGE:
    case PCRE2_ERROR_LOOKBEHIND_NOT_FIXED_LENGTH:
    case PCRE2_ERROR_UNSUPPORTED_ESCAPE_SEQUENCE:
    case PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY:
    case PCRE2_ERROR_LOOKBEHIND_INVALID_BACKSLASH_C:
    case PCRE2_ERROR_POSIX_NO_SUPPORT_COLLATING:
    case PCRE2_ERROR_UNKNOWN_POSIX_CLASS:
    case PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP:
    case PCRE2_ERROR_BACKSLASH_C_CALLER_DISABLED:
    case PCRE2_ERROR_PATTERN_TOO_COMPLICATED:
    case PCRE2_ERROR_LOOKBEHIND_TOO_LONG:
    case PCRE2_ERROR_LOOKBEHIND_TOO_COMPLICATED:
    case PCRE2_ERROR_SUPPORTED_ONLY_IN_UNICODE:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct Regex::Code {
  std::string pattern;
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> code;
};

Regex::Regex(std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    fail(ErrorCode::unsupported, "a pattern of {} bytes: the limit is {}", pattern.size(),
         kMaxPattern);
  }
  const std::string translated = to_pcre2(pattern);
  std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>> context{
      pcre2_compile_context_create(nullptr)};
  if (!context) fail(ErrorCode::memory, "no memory for a pattern");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, context.get());
  if (!code) {
    fail(is_refusal(error) ? ErrorCode::unsupported : ErrorCode::format,
         "pattern {} does not compile: {} (before {})", quote(pattern), message_of(error),
         quote(std::string_view(translated).substr(offset)));
  }
  auto shared = std::make_shared<Code>();
  shared->pattern = pattern;
  shared->code.reset(code);
  pcre2_jit_compile(
      code, PCRE2_JIT_COMPLETE);  // without it pcre2_match interprets: slower, not different
  code_ = std::move(shared);
}

void Regex::split(std::string_view text, std::vector<Part>& parts) const {
  if (text.empty()) return;
  Scratch& s = scratch();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(s.data.get());
  std::size_t previous = 0;
  std::size_t from = 0;
  while (from <= text.size()) {
    const int rc = pcre2_match(code_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                               s.data.get(), s.context.get());
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) {
      fail(rc == PCRE2_ERROR_NOMEMORY ? ErrorCode::memory : ErrorCode::format,
           "pattern {} on a text of {} bytes: {}", quote(code_->pattern), text.size(),
           message_of(rc));
    }
    const std::size_t begin = found[0];
    const std::size_t end = found[1];
    if (end < begin || begin < previous) {  // \K in a lookaround
      fail(ErrorCode::unsupported, "pattern {} matches backwards", quote(code_->pattern));
    }
    if (begin == end && begin == previous && begin != 0 && !parts.empty() && parts.back().match) {
      // An empty match where the last one ended is no new one.
    } else {
      if (previous != begin) parts.push_back({previous, begin, false});
      parts.push_back({begin, end, true});
      previous = end;
    }
    from = end != begin ? end : end < text.size() ? end + utf8_length(text[end]) : end + 1;
  }
  if (previous != text.size()) parts.push_back({previous, text.size(), false});
}

}  // namespace rlx::tokenizer
