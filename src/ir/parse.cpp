#include "ir/parse.h"

#include <charconv>

#include "base/nearest.h"
#include "ir/constant_text.h"
#include "ir/source.h"
#include "ir/stage.h"

namespace rlx {
namespace {

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpDef& def : all_ops()) names.emplace_back(def.name);
  return names;
}

std::string bad_attribute(const OpDef& def, const std::string& key, std::string_view value) {
  const std::string expected = def.expects(key);
  if (!expected.empty()) return fmt::format("{}: {}: expected {}, found \"{}\"", def.name, key, expected, value);
  return fmt::format("{}: no attribute \"{}\"{}", def.name, key, did_you_mean(key, def.attributes()));
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// One line with a cursor.
class Line {
 public:
  Line(std::string_view text, std::string where) : text_(text), where_(std::move(where)) {}

  [[noreturn]] void error(const std::string& what) const {
    fail(ErrorCode::format, "{}:{}: {}", where_, at_ + 1, what);
  }
  void skip() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool done() {
    skip();
    return at_ == text_.size();
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c))
      error(fmt::format("expected '{}', found {}", c,
                        done() ? "the end of the line" : fmt::format("'{}'", text_[at_])));
  }
  std::string_view word(const char* what) {
    skip();
    const std::size_t from = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (from == at_) error(fmt::format("expected {}", what));
    return text_.substr(from, at_ - from);
  }
  std::int32_t number() {  // %N
    expect('%');
    return plain_number("the number of a value after '%'");
  }
  std::int32_t plain_number(const char* what) {
    std::int32_t n = 0;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (ec != std::errc{} || n < 0) error(fmt::format("expected {}", what));
    at_ = static_cast<std::size_t>(end - text_.data());
    return n;
  }
  std::string string() {
    expect('"');
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') c = escape();
      out += c;
    }
    if (at_ == text_.size()) error("a string without its closing quote");
    ++at_;
    return out;
  }
  // Up to a space or the end, as attribute values are.
  std::string_view value() {
    const std::size_t from = at_;
    int depth = 0;
    while (at_ < text_.size() && (depth > 0 || !is_space(text_[at_]))) {
      if (text_[at_] == '(') ++depth;
      if (text_[at_] == ')') --depth;
      ++at_;
    }
    return text_.substr(from, at_ - from);
  }
  // What stands before a ':', trimmed by its reader.
  std::string_view up_to_colon() {
    const std::size_t from = at_;
    at_ = std::min(text_.find(':', at_), text_.size());
    return text_.substr(from, at_ - from);
  }
  // One shape: up to its closing bracket and layout, or the word "pages".
  std::string_view shape() {
    skip();
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] != '[' && text_[at_] != ',' && text_[at_] != ' ') ++at_;
    if (at_ < text_.size() && text_[at_] == '[') {
      const std::size_t close = text_.find(']', at_);
      if (close == std::string_view::npos) error("expected ']'");
      at_ = close + 1;
      if (at_ < text_.size() && text_[at_] == '@') {
        ++at_;
        while (at_ < text_.size() && is_word(text_[at_])) ++at_;
      }
    }
    return text_.substr(from, at_ - from);
  }

 private:
  char escape() {
    if (at_ == text_.size()) error("a string without its closing quote");
    const char c = text_[at_++];
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case '"':
      case '\\':
        return c;
      case 'x': {
        unsigned v = 0;
        const char* from = text_.data() + at_;
        const char* to = text_.data() + std::min(at_ + 2, text_.size());
        const auto [end, ec] = std::from_chars(from, to, v, 16);
        if (ec != std::errc{} || end != from + 2)
          error("expected two hexadecimal digits after \\x");
        at_ += 2;
        return static_cast<char>(v);
      }
      default:
        error(fmt::format("unknown escape \\{}", c));
    }
  }

  std::string_view text_;
  std::string where_;
  std::size_t at_ = 0;
};

class GraphParser {
 public:
  GraphParser(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {}

  Graph parse() {
    std::size_t at = 0;
    int number = 0;
    bool closed = false;
    while (at < text_.size()) {
      std::size_t end = text_.find('\n', at);
      if (end == std::string_view::npos) end = text_.size();
      Line line(text_.substr(at, end - at), fmt::format("{}:{}", origin_, ++number));
      at = end + 1;
      if (line.done() || line.peek() == '#') continue;
      if (closed) line.error("expected the end after \"return\"");
      if (levels_.empty())
        read_header(line);
      else if (line.peek() == '%')
        read_node(line);
      else
        closed = read_word(line);
    }
    if (!closed)
      fail(ErrorCode::format, "{}: expected a line \"return ...\", found the end", origin_);
    // Rules that no line alone can break. A pass that breaks them is a bug of ours, a text is not.
    try {
      verify(levels_.front().graph, "reading");
    } catch (const InternalError& e) {
      fail(ErrorCode::format, "{}: {}", origin_, e.what());
    }
    return std::move(levels_.front().graph);
  }

 private:
  void read_header(Line& line) {
    if (line.word("\"graph\"") != "graph") line.error("expected: graph \"name\" stage=hir");
    levels_.emplace_back();
    graph().name = line.string();
    if (line.word("\"stage\"") != "stage") line.error("expected stage=hir or stage=mir");
    line.expect('=');
    const std::string_view stage = line.word("a stage");
    if (stage == "hir")
      graph().stage = Stage::hir;
    else if (stage == "mir")
      graph().stage = Stage::mir;
    else
      line.error(fmt::format("unknown stage \"{}\": expected hir or mir", stage));
    if (!line.done()) line.error("expected the end of the line");
  }

  // "graph @0 "name"" begins a sub-graph, "return ..." ends it or the whole; true for the latter.
  bool read_word(Line& line) {
    const std::string_view word = line.word("a value or \"return\"");
    if (word == "graph") {
      begin_subgraph(line);
      return false;
    }
    if (word != "return") line.error("expected a line \"%N = op(...)\", \"graph @N ...\" or \"return ...\"");
    read_return(line);
    if (levels_.size() == 1) return true;
    Graph sub = std::move(levels_.back().graph);
    levels_.pop_back();
    try {
      graph().add_subgraph(std::move(sub));
    } catch (const Error& e) {
      line.error(e.what());
    }
    return false;
  }

  void begin_subgraph(Line& line) {
    line.expect('@');
    const std::int32_t n = line.plain_number("the number of a sub-graph");
    if (static_cast<std::size_t>(n) != graph().subgraph_count())
      line.error(fmt::format("expected @{}, found @{}: sub-graphs are numbered in order", graph().subgraph_count(), n));
    if (!graph().nodes().empty()) line.error("expected sub-graphs before the nodes");
    if (levels_.size() > static_cast<std::size_t>(kMaxGraphNesting))
      line.error(fmt::format("more than {} levels of sub-graphs", kMaxGraphNesting));
    Level level{Graph(line.string(), graph().stage), {}};
    if (!line.done()) line.error("expected the end of the line");
    levels_.push_back(std::move(level));
  }

  Value value(Line& line) {
    const std::int32_t n = line.number();
    if (static_cast<std::size_t>(n) >= values().size())
      line.error(fmt::format("%{} is used before it is made", n));
    return values()[static_cast<std::size_t>(n)];
  }

  void read_node(Line& line) {
    std::size_t results = 0;
    do {
      const std::int32_t n = line.number();
      if (static_cast<std::size_t>(n) != values().size() + results++)
        line.error(fmt::format("expected %{}, found %{}: values are numbered in order",
                               values().size() + results - 1, n));
    } while (line.take(','));
    line.expect('=');
    const std::string_view op = line.word("the name of an op");
    const OpDef* def = find_op(op);
    if (def == nullptr) line.error(fmt::format("unknown op \"{}\"{}", op, did_you_mean(op, op_names())));
    std::string source_name;
    std::string_view constant;
    std::vector<Value> inputs;
    if (def->id == op_id(Constant::name)) {
      constant = line.up_to_colon();
    } else if (def->has(Trait::source)) {
      source_name = line.string();
    } else {
      line.expect('(');
      if (!line.take(')')) {
        do inputs.push_back(value(line));
        while (line.take(','));
        line.expect(')');
      }
    }
    AttrBlob attrs = def->defaults();
    while (line.peek() != ':') {
      const std::string key(line.word("an attribute or ':'"));
      line.expect('=');
      const std::string text(line.value());
      bool known = false;
      try {
        known = def->set(attrs, key, text);
      } catch (const Error& e) {  // of the right form, but refused: the reason
        line.error(e.what());
      }
      if (!known) line.error(bad_attribute(*def, key, text));
    }
    line.expect(':');
    std::vector<Shape> shapes;
    do shapes.push_back(shape(line));
    while (line.take(','));
    std::string origin;
    if (line.take('@')) origin = line.string();
    if (!line.done()) line.error("expected the end of the line");
    if (shapes.size() != results)
      line.error(fmt::format("{} results but {} shapes", results, shapes.size()));
    add(line, Written{def, attrs, std::move(inputs), std::move(source_name), constant, std::move(shapes),
                      std::move(origin)});
  }

  Shape shape(Line& line) {
    try {
      return Shape::parse(line.shape());
    } catch (const Error& e) {
      line.error(e.what());
    }
  }

  // A node as the text has it.
  struct Written {
    const OpDef* def;
    AttrBlob attrs;
    std::vector<Value> inputs;
    std::string source_name;
    std::string_view constant;
    std::vector<Shape> shapes;
    std::string origin;
  };

  void add(Line& line, Written w) {
    const OpDef& def = *w.def;
    Value v;
    try {
      if (def.id == op_id(Constant::name))
        v = graph().add_constant(graph().intern(parse_constant(w.constant, w.shapes[0])), std::move(w.origin));
      else if (def.has(Trait::source))
        v = graph().add_source(def, std::move(w.source_name), w.shapes[0], std::move(w.origin));
      else
        v = graph().add(def, w.attrs, std::move(w.inputs), std::move(w.origin));
    } catch (const Error& e) {
      line.error(e.what());
    }
    const Node& n = graph().node(v);
    if (n.results.size() != w.shapes.size())
      line.error(
          fmt::format("{} gives {} results, found {}", def.name, n.results.size(), w.shapes.size()));
    for (std::size_t i = 0; i < w.shapes.size(); ++i) {
      if (!(w.shapes[i] == n.results[i]))
        line.error(fmt::format("{} gives {}, found {}", def.name, n.results[i].text(),
                               w.shapes[i].text()));
      values().push_back({v.node, static_cast<std::int32_t>(i)});
    }
  }

  void read_return(Line& line) {
    std::vector<Output> outputs;
    if (!line.done()) {
      do {
        std::string name = line.string();
        for (const Output& o : outputs)
          if (o.name == name) line.error(fmt::format("a second output named \"{}\"", name));
        outputs.push_back({std::move(name), value(line)});
      } while (line.take(','));
    }
    if (!line.done()) line.error("expected the end of the line");
    graph().set_outputs(std::move(outputs));
  }

  std::string_view text_;
  const std::string& origin_;
  // The graph and those around it, the outermost first.
  struct Level {
    Graph graph;
    std::vector<Value> values;
  };
  Graph& graph() { return levels_.back().graph; }
  std::vector<Value>& values() { return levels_.back().values; }
  std::vector<Level> levels_;
};

}  // namespace

Graph parse_graph(std::string_view text, const std::string& origin) {
  return GraphParser(text, origin).parse();
}

}  // namespace rlx
