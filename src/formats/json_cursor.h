// A strict JSON reader for headers that files of unknown origin carry: a cursor, not a tree, so
// that nothing is built that the caller did not ask for; it knows the offset of every fault and
// never recurses deeper than kMaxDepth.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "formats/byte_reader.h"

namespace rlx {

/// Reads RFC 8259 JSON. Errors: format ("file: offset N: reason"; N counts from the start of the
/// file).
class JsonCursor {
 public:
  static constexpr int kMaxDepth = 32;

  /// `base` is the offset of `text` in the file.
  JsonCursor(std::string_view text, std::uint64_t base, std::string_view file)
      : text_(text), base_(base), file_(file) {}

  /// Calls member(key, offset of the key) for each member; it must consume the value. Keys are
  /// unescaped; whether two may be equal is the caller's business.
  template <typename F>
  void object(std::string_view what, F&& member) {
    open('{', what);
    if (!close('}')) {
      do {
        const std::uint64_t at = next_offset();
        std::string key = string("key");
        expect(':', "':' after a key");
        member(std::move(key), at);
      } while (!end('}'));
    }
    --depth_;
  }

  /// Calls element() for each element; it must consume the value.
  template <typename F>
  void array(std::string_view what, F&& element) {
    open('[', what);
    if (!close(']')) {
      do element();
      while (!end(']'));
    }
    --depth_;
  }

  std::string string(std::string_view what);  ///< unescaped, valid UTF-8
  std::uint64_t unsigned_integer(std::string_view what);
  void skip_value();
  void end_of_text();  ///< only white space may follow

  /// Offset in the file of the next value.
  std::uint64_t next_offset() {
    skip_space();
    return offset();
  }

  template <typename... Args>
  [[noreturn]] void fail(std::uint64_t offset, fmt::format_string<Args...> text,
                         Args&&... args) const {
    fail_at(ErrorCode::format, file_, offset, text, std::forward<Args>(args)...);
  }

 private:
  std::uint64_t offset() const { return base_ + pos_; }
  bool at_end() const { return pos_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[pos_]; }
  void skip_space();
  void expect(char c, std::string_view what);
  void open(char c, std::string_view what);
  bool close(char c);  // takes the bracket when it comes next
  bool end(char c);    // takes a comma (false) or the bracket (true)
  [[noreturn]] void unexpected(std::string_view what) const;
  void escape(std::string& out);
  std::uint32_t hex4();
  void utf8_sequence(std::string& out);
  void number();

  std::string_view text_;
  std::uint64_t base_;
  std::string_view file_;
  std::size_t pos_ = 0;
  int depth_ = 0;
};

}  // namespace rlx
