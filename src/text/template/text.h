// Strings of the interpreter: UTF-8 with the byte ranges that came from the user, indexed by
// character as in Python.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/budget.h"

namespace rlx::jinja {

/// Immutable string. `markup` marks text that counts as escaped HTML (the |safe and |escape
/// filters).
struct Text {
  std::string bytes;
  std::vector<TextSpan> user;  // ascending, disjoint, not touching
  bool markup = false;
  size_t length = 0;  // characters
  MemoryCharge charge;

  bool ascii() const { return length == bytes.size(); }
};
using TextPtr = std::shared_ptr<const Text>;

/// Text of the template or of the interpreter itself.
TextPtr make_text(std::string bytes, Budget* budget = nullptr);
/// Text of the user.
TextPtr make_user_text(std::string bytes);

/// Bytes of the character at `at` (1 to 4); a byte that is not UTF-8 is a character of its own.
size_t char_bytes(std::string_view s, size_t at);
/// Code point at `at`; a byte that is not UTF-8 gives U+FFFD.
char32_t code_point(std::string_view s, size_t at);
void append_utf8(std::string& out, char32_t c);
size_t char_count(std::string_view s);
/// Byte offset of character `index` (at most the length) of a text.
size_t byte_offset(const Text& text, size_t index);

/// Puts a string together and keeps track of the origin of every byte.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  void add(std::string_view bytes) { put(bytes, false); }
  void add(char c) { put(std::string_view(&c, 1), false); }
  void add(const Text& text) { add(text, 0, text.bytes.size()); }
  /// Bytes [begin, end) of `text` with their origin.
  void add(const Text& text, size_t begin, size_t end);
  /// Bytes made from the character at byte `at` of `source` (a case change, an escape): they share
  /// its origin.
  void add_derived(std::string_view bytes, const Text& source, size_t at);
  void add_char(char32_t c);
  void add_repeated(std::string_view bytes, int64_t count);

  size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  Budget& budget() { return budget_; }
  TextPtr finish(bool markup = false);
  /// The parts of a finished result.
  std::string take_bytes() { return std::move(bytes_); }
  std::vector<TextSpan> take_spans() { return std::move(user_); }

 private:
  void put(std::string_view bytes, bool user);
  void mark(size_t begin, size_t end);

  Budget& budget_;
  std::string bytes_;
  std::vector<TextSpan> user_;
};

/// Bytes [begin, end) of a text.
TextPtr slice_bytes(const Text& text, size_t begin, size_t end, Budget& budget);
/// True when byte `at` came from the user.
bool is_user(const Text& text, size_t at);

}  // namespace rlx::jinja
