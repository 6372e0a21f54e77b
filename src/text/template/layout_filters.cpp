// Filters that lay out text: wordwrap and pprint.
#include <algorithm>

#include "text/template/convert.h"
#include "text/template/filters.h"
#include "text/template/strings.h"
#include "text/template/unicode.h"

namespace rlx::jinja {
namespace {

// A piece of a line: a word, possibly with its hyphen, or white space.
struct Chunk {
  size_t begin, end;  // bytes
  size_t length;      // characters
  bool space;
};

std::vector<Chunk> chunks(const Text& line, bool hyphens) {
  std::vector<Chunk> out;
  const std::string_view s = line.bytes;
  for (size_t i = 0; i < s.size();) {
    Chunk c{i, i, 0, is_space(code_point(s, i))};
    while (c.end < s.size() && is_space(code_point(s, c.end)) == c.space) {
      const size_t n = char_bytes(s, c.end);
      const bool hyphen = s[c.end] == '-';
      c.end += n;
      ++c.length;
      // A break after a hyphen between letters.
      if (hyphens && hyphen && c.length > 2 && c.end + 1 < s.size() &&
          is_alpha(code_point(s, c.end)) && is_alpha(code_point(s, c.end - 2)))
        break;
    }
    out.push_back(c);
    i = c.end;
  }
  return out;
}

class Wrapper {
 public:
  Wrapper(TextBuilder& out, size_t width, const Text& newline, bool break_long)
      : out_(out), width_(width), newline_(newline), break_long_(break_long) {}

  void line(const Text& text, bool hyphens) {
    size_t used = 0;
    std::vector<std::pair<size_t, size_t>> pending;  // spaces and words of the current line
    const auto flush = [&] {
      if (!pending.empty()) {
        begin_line();
        for (const auto& [begin, end] : pending) out_.add(text, begin, end);
      }
      pending.clear();
      used = 0;
    };
    for (Chunk c : chunks(text, hyphens)) {
      if (c.space && pending.empty() && any_) continue;
      while (used + c.length > width_) {
        if (c.space) break;
        if (c.length > width_ && break_long_ && used < width_) {
          const size_t room = width_ - used;
          size_t cut = c.begin;
          for (size_t k = 0; k < room; ++k) cut += char_bytes(text.bytes, cut);
          pending.emplace_back(c.begin, cut);
          c.begin = cut;
          c.length -= room;
          trim(text, pending);
          flush();
          continue;
        }
        if (pending.empty()) break;
        trim(text, pending);
        flush();
      }
      if (c.space && used + c.length > width_) continue;
      pending.emplace_back(c.begin, c.end);
      used += c.length;
    }
    trim(text, pending);
    flush();
  }

  void blank_line() { begin_line(); }

 private:
  void begin_line() {
    if (any_) out_.add(newline_);
    any_ = true;
  }

  static void trim(const Text& text, std::vector<std::pair<size_t, size_t>>& pending) {
    while (!pending.empty() && is_space(code_point(text.bytes, pending.back().first)))
      pending.pop_back();
  }

  TextBuilder& out_;
  size_t width_;
  const Text& newline_;
  bool break_long_;
  bool any_ = false;
};

Value wordwrap_filter(Args& a) {
  a.text(0);
  const TextPtr text = a[0].text_ptr();
  const int64_t width = a.integer_or(1, 79);
  if (width <= 0) fault("wordwrap: invalid width {} (must be > 0)", width);
  const TextPtr newline = a.absent(3) ? make_text("\n", &a.budget) : to_text(a[3], a.budget);
  TextBuilder out(a.budget);
  a.budget.work(text->bytes.size(), 16);
  bool first = true;
  for (const TextPtr& line : split_lines(*text, false, a.budget)) {
    if (!first) out.add(*newline);
    first = false;
    Wrapper(out, static_cast<size_t>(width), *newline, a.flag(2, true))
        .line(*line, a.flag(4, true));
  }
  return out.finish();
}

// Values wider than a line are put one element a line, as Python's pprint does.
void pretty(TextBuilder& out, const Value& v, size_t indent, size_t after, int depth) {
  constexpr size_t kWidth = 80;
  TextBuilder flat(out.budget());
  write_repr(flat, v);
  const bool container = v.is_sequence() || v.is(Kind::dict);
  const TextPtr text = flat.finish();
  if (!container || text->length + indent + after <= kWidth || depth > 100) return out.add(*text);
  const bool dict = v.is(Kind::dict);
  out.add(dict ? '{' : v.is(Kind::list) ? '[' : '(');
  std::vector<std::pair<Value, Value>> entries;
  if (dict)
    entries = v.dict()->entries;
  else
    for (const Value& item : v.items()) entries.emplace_back(Value(), item);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i > 0) {
      out.add(",\n");
      out.add_repeated(" ", static_cast<int64_t>(indent) + 1);
    }
    size_t at = indent + 1;
    if (dict) {
      TextBuilder key(out.budget());
      write_repr(key, entries[i].first);
      const TextPtr name = key.finish();
      out.add(*name);
      out.add(": ");
      at += name->length + 2;
    }
    pretty(out, entries[i].second, at, i + 1 == entries.size() ? after + 1 : 1, depth + 1);
  }
  if (v.is(Kind::tuple) && entries.size() == 1) out.add(',');
  out.add(dict ? '}' : v.is(Kind::list) ? ']' : ')');
}

// Mappings with text keys in the order of their keys.
Value sorted_mappings(const Value& v, Budget& budget) {
  budget.step();
  if (v.is_sequence()) {
    Items items;
    for (const Value& item : v.items()) items.push_back(sorted_mappings(item, budget));
    return v.is(Kind::list) ? Value::list(std::move(items), &budget)
                            : Value::tuple(std::move(items), &budget);
  }
  if (!v.is(Kind::dict)) return v;
  auto entries = v.dict()->entries;
  const auto is_text = [](const auto& e) { return e.first.is_string(); };
  if (std::all_of(entries.begin(), entries.end(), is_text))
    std::stable_sort(entries.begin(), entries.end(), [](const auto& x, const auto& y) {
      return compare(x.first, y.first, "<") < 0;
    });
  DictBuilder out(&budget);
  for (auto& [key, value] : entries) out.set(std::move(key), sorted_mappings(value, budget));
  return out.finish();
}

Value pprint_filter(Args& a) {
  TextBuilder out(a.budget);
  pretty(out, sorted_mappings(a[0], a.budget), 0, 0, 0);
  return out.finish();
}

constexpr Function kLayoutFilters[] = {
    {"wordwrap", "value,width,break_long_words,wrapstring,break_on_hyphens", 1, wordwrap_filter},
    {"pprint", "value", 1, pprint_filter},
};

}  // namespace

FunctionTable layout_filters() { return kLayoutFilters; }

}  // namespace rlx::jinja
