#include "text/template/search.h"

#include <cstring>

namespace rlx::jinja {

size_t find_bytes(Budget& budget, std::string_view s, std::string_view needle, size_t from) {
  if (from > s.size()) return std::string::npos;
  if (needle.empty()) return from;
  // memmem is linear also for long needles, which string_view::find is not.
  const void* found = memmem(s.data() + from, s.size() - from, needle.data(), needle.size());
  const size_t at = found == nullptr
                        ? std::string::npos
                        : static_cast<size_t>(static_cast<const char*>(found) - s.data());
  budget.work((found == nullptr ? s.size() : at) - from + needle.size() + 16, 4);
  return at;
}

size_t find_last_bytes(Budget& budget, std::string_view s, std::string_view needle, size_t end) {
  if (needle.size() > end) return std::string::npos;
  if (needle.empty()) return end;
  // Searching both texts backwards with memmem keeps the cost linear.
  budget.work(end + needle.size() + 16, 8);
  const std::string reversed(s.rend() - static_cast<std::ptrdiff_t>(end), s.rend());
  const std::string wanted(needle.rbegin(), needle.rend());
  const void* found = memmem(reversed.data(), reversed.size(), wanted.data(), wanted.size());
  if (found == nullptr) return std::string::npos;
  return end - static_cast<size_t>(static_cast<const char*>(found) - reversed.data()) -
         needle.size();
}

void add_escaped(TextBuilder& out, const Text& text) {
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    switch (text.bytes[i]) {
      case '&':
        out.add_derived("&amp;", text, i);
        break;
      case '<':
        out.add_derived("&lt;", text, i);
        break;
      case '>':
        out.add_derived("&gt;", text, i);
        break;
      case '\'':
        out.add_derived("&#39;", text, i);
        break;
      case '"':
        out.add_derived("&#34;", text, i);
        break;
      default:
        out.add(text, i, i + 1);
    }
  }
}

}  // namespace rlx::jinja
