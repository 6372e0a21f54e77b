#include "tensor/dim.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <mutex>
#include <numeric>
#include <unordered_map>

#include "base/checked.h"

namespace rlx {
namespace {

// An atom is a symbol (by < 0) or ceil_div(of, by).
struct Atom {
  std::uint32_t symbol = 0;
  Dim of;
  std::int64_t by = -1;
  std::string text;  // also the order of atoms, so that it is the same in every process
};

using Power = std::pair<std::uint32_t, std::int32_t>;  // atom, exponent
struct Term {
  std::vector<Power> powers;  // sorted by the atoms' text
  std::int64_t coefficient = 0;
};
using Polynomial = std::vector<Term>;  // sorted; the constant term last

constexpr std::uint32_t kPolynomialBit = 0x80000000u;
constexpr std::size_t kMostTerms = 4096;  // of a product, before equal terms are joined

}  // namespace

// All symbols, atoms and polynomials of the process. Entries are never removed: models have a few
// hundred.
class DimTable {
 public:
  // The ids of sym:: are the places of these names.
  DimTable() {
    for (const char* name : {"batch", "seq", "rows", "out_rows", "past_seq"}) symbol(name);
  }

  static DimTable& get() {
    static DimTable* const table = new DimTable;  // never destroyed: static Dims may outlive main
    return *table;
  }

  Symbol symbol(std::string_view name) {
    const bool good =
        !name.empty() && (std::islower(static_cast<unsigned char>(name[0])) || name[0] == '_') &&
        std::all_of(name.begin(), name.end(),
                    [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; });
    if (!good)
      fail(ErrorCode::invalid_argument, "\"{}\" is no name of a symbol: expected [a-z_][a-z0-9_]*",
           name);
    std::lock_guard lock(mutex_);
    auto [it, fresh] =
        symbol_ids_.try_emplace(std::string(name), static_cast<std::uint32_t>(symbols_.size()));
    if (fresh) symbols_.push_back(it->first);
    return Symbol(it->second);
  }
  std::string_view symbol_name(std::uint32_t id) {
    std::lock_guard lock(mutex_);
    return symbols_[id];
  }

  std::uint32_t atom(Atom a) {
    std::lock_guard lock(mutex_);
    auto [it, fresh] = atom_ids_.try_emplace(a.text, static_cast<std::uint32_t>(atoms_.size()));
    if (fresh) atoms_.push_back(std::move(a));
    return it->second;
  }
  const Atom& atom(std::uint32_t id) {
    std::lock_guard lock(mutex_);
    return atoms_[id];
  }

  Polynomial polynomial(Dim d) {
    const std::uint32_t h = d.handle();
    if ((h & kPolynomialBit) == 0)
      return h == 0 ? Polynomial{} : Polynomial{{{}, static_cast<std::int64_t>(h)}};
    std::lock_guard lock(mutex_);
    return polynomials_[h & ~kPolynomialBit];
  }

  Dim intern(const Polynomial& p) {
    if (p.empty()) return Dim{};
    if (p.size() == 1 && p[0].powers.empty() && p[0].coefficient > 0 &&
        p[0].coefficient < std::int64_t{kPolynomialBit})
      return from_handle(static_cast<std::uint32_t>(p[0].coefficient));
    std::string key;
    for (const Term& t : p) {
      for (auto [a, e] : t.powers) key += fmt::format("{}^{}*", a, e);
      key += fmt::format("{};", t.coefficient);
    }
    std::lock_guard lock(mutex_);
    auto [it, fresh] = polynomial_ids_.try_emplace(std::move(key),
                                                   static_cast<std::uint32_t>(polynomials_.size()));
    if (fresh) polynomials_.push_back(p);
    return from_handle(it->second | kPolynomialBit);
  }

  bool less(const std::vector<Power>& a, const std::vector<Power>& b) {
    if (a.empty() != b.empty()) return b.empty();  // the constant comes last
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [&](Power x, Power y) {
                                          if (x.first == y.first) return x.second > y.second;
                                          return atom(x.first).text < atom(y.first).text;
                                        });
  }

 private:
  static Dim from_handle(std::uint32_t h) {
    Dim d;
    d.handle_ = h;
    return d;
  }

  std::mutex mutex_;
  std::deque<std::string> symbols_;
  std::unordered_map<std::string, std::uint32_t> symbol_ids_;
  std::deque<Atom> atoms_;
  std::unordered_map<std::string, std::uint32_t> atom_ids_;
  std::deque<Polynomial> polynomials_;
  std::unordered_map<std::string, std::uint32_t> polynomial_ids_;
};

namespace {

DimTable& table() { return DimTable::get(); }

[[noreturn]] void too_large() {
  fail(ErrorCode::limit, "a size expression does not fit in 64 bits");
}

std::int64_t add(std::int64_t a, std::int64_t b) {
  const auto r = checked_add(a, b);
  if (!r) too_large();
  return *r;
}
std::int64_t mul(std::int64_t a, std::int64_t b) {
  const auto r = checked_mul(a, b);
  if (!r) too_large();
  return *r;
}

// Sorts terms, joins equal monomials and drops zeros.
Dim normal(Polynomial p) {
  std::sort(p.begin(), p.end(),
            [](const Term& a, const Term& b) { return table().less(a.powers, b.powers); });
  Polynomial out;
  for (Term& t : p) {
    if (!out.empty() && out.back().powers == t.powers) {
      out.back().coefficient = add(out.back().coefficient, t.coefficient);
    } else {
      out.push_back(std::move(t));
    }
    if (out.back().coefficient == 0) out.pop_back();
  }
  return table().intern(out);
}

std::vector<Power> multiply(const std::vector<Power>& a, const std::vector<Power>& b) {
  std::vector<Power> out = a;
  for (Power p : b) {
    auto it = std::find_if(out.begin(), out.end(), [&](Power q) { return q.first == p.first; });
    if (it != out.end())
      it->second += p.second;
    else
      out.push_back(p);
  }
  std::sort(out.begin(), out.end(), [](Power x, Power y) {
    return table().atom(x.first).text < table().atom(y.first).text;
  });
  return out;
}

std::string term_text(const Term& t) {
  std::string text;
  if (t.powers.empty() || t.coefficient != 1) text = fmt::format("{}", t.coefficient);
  for (auto [a, e] : t.powers) {
    if (!text.empty()) text += "*";
    text += table().atom(a).text;
    if (e != 1) text += fmt::format("^{}", e);
  }
  return text;
}

// The value of d with atoms replaced through `value`, which gives a Dim for each atom.
template <typename F>
Dim replace_atoms(Dim d, F&& value) {
  Dim sum;
  for (const Term& t : table().polynomial(d)) {
    Dim product(t.coefficient);
    for (auto [a, e] : t.powers) {
      const Dim v = value(a);
      for (int i = 0; i < e; ++i) product = product * v;
    }
    sum = sum + product;
  }
  return sum;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Dim whole() {
    const Dim d = sum(0);
    skip();
    if (at_ != text_.size()) error("expected the end");
    return d;
  }

 private:
  [[noreturn]] void error(std::string_view what) const {
    fail(ErrorCode::format, "size \"{}\": {} at position {}", text_, what, at_);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t integer() {
    skip();
    std::int64_t v = 0;
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (ec != std::errc{}) error("expected an integer");
    at_ = static_cast<std::size_t>(end - text_.data());
    return v;
  }
  Dim sum(int depth) {
    if (depth > 32) error("nested too deeply");
    Dim d = product(depth);
    for (;;) {
      if (take('+'))
        d = d + product(depth);
      else if (take('-'))
        d = d - product(depth);
      else
        return d;
    }
  }
  Dim product(int depth) {
    Dim d = factor(depth);
    while (take('*')) d = d * factor(depth);
    return d;
  }
  Dim factor(int depth) {
    skip();
    if (at_ >= text_.size()) error("expected a size");
    if (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-')
      return Dim(integer());
    std::size_t end = at_;
    while (end < text_.size() &&
           (std::islower(static_cast<unsigned char>(text_[end])) || text_[end] == '_' ||
            std::isdigit(static_cast<unsigned char>(text_[end]))))
      ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.empty()) error("expected a size");
    at_ = end;
    Dim base;
    if (word == "ceil_div" && take('(')) {
      const Dim of = sum(depth + 1);
      if (!take(',')) error("expected ','");
      base = ceil_div(of, integer());
      if (!take(')')) error("expected ')'");
    } else {
      base = Dim(Symbol::named(word));
    }
    if (!take('^')) return base;
    const std::int64_t e = integer();
    if (e < 1 || e > 64) error("expected an exponent of 1 to 64");
    Dim d = base;
    for (std::int64_t i = 1; i < e; ++i) d = d * base;
    return d;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Symbol Symbol::named(std::string_view name) { return DimTable::get().symbol(name); }
std::string_view Symbol::name() const { return DimTable::get().symbol_name(id_); }

DimBinding::DimBinding(std::initializer_list<std::pair<Symbol, std::int64_t>> sizes) {
  for (auto [s, n] : sizes) set(s, n);
}

DimBinding DimBinding::batch_seq(std::int64_t b, std::int64_t s) {
  DimBinding binding{{sym::batch, b}, {sym::seq, s}};
  const auto rows = checked_mul(b, s);
  if (!rows) fail(ErrorCode::shape, "batch {} times seq {} does not fit in 64 bits", b, s);
  return binding.set(sym::rows, *rows);
}

DimBinding DimBinding::batch_past_seq(std::int64_t b, std::int64_t p) {
  return {{sym::batch, b}, {sym::past_seq, p}};
}

DimBinding& DimBinding::set(Symbol s, std::int64_t size) {
  if (size < 0)
    fail(ErrorCode::shape, "symbol \"{}\": expected a size of at least 0, found {}", s.name(),
         size);
  sizes_.insert_or_assign(s, size);
  return *this;
}

std::optional<std::int64_t> DimBinding::get(Symbol s) const {
  const auto it = sizes_.find(s);
  if (it == sizes_.end()) return std::nullopt;
  return it->second;
}

std::string DimBinding::text() const {
  std::string text;
  for (auto [s, n] : sizes_) text += fmt::format("{}{}={}", text.empty() ? "" : ",", s.name(), n);
  return text;
}

Digest DimBinding::digest() const { return rlx::digest("binding-1:" + text()); }

Dim::Dim(std::int64_t value) {
  if (value >= 0 && value < std::int64_t{kPolynomialBit})
    handle_ = static_cast<std::uint32_t>(value);
  else
    handle_ = table().intern({Term{{}, value}}).handle_;
}

Dim::Dim(Symbol symbol) {
  const std::uint32_t a = table().atom(Atom{symbol.id(), {}, -1, std::string(symbol.name())});
  handle_ = table().intern({Term{{{a, 1}}, 1}}).handle_;
}

Dim operator+(Dim a, Dim b) {
  if (((a.handle_ | b.handle_) & kPolynomialBit) == 0)
    return Dim(std::int64_t{a.handle_} + b.handle_);
  Polynomial p = table().polynomial(a);
  for (Term& t : table().polynomial(b)) p.push_back(std::move(t));
  return normal(std::move(p));
}

Dim operator-(Dim a, Dim b) { return a + b * Dim(std::int64_t{-1}); }

Dim operator*(Dim a, Dim b) {
  Polynomial p;
  const Polynomial left = table().polynomial(a), right = table().polynomial(b);
  // Texts come from files: (a + b + c + ...)^64 would take all memory.
  if (left.size() * right.size() > kMostTerms)
    fail(ErrorCode::limit, "a size expression of more than {} terms", kMostTerms);
  for (const Term& x : left)
    for (const Term& y : right)
      p.push_back({multiply(x.powers, y.powers), mul(x.coefficient, y.coefficient)});
  return normal(std::move(p));
}

Dim ceil_div(Dim a, std::int64_t by) {
  if (by < 1) fail(ErrorCode::shape, "ceil_div: expected a divisor of at least 1, found {}", by);
  if (by == 1) return a;
  // ceil((x + by*y) / by) = y + ceil(x / by): every coefficient becomes its remainder in [0, by).
  Polynomial whole, rest;
  std::int64_t divisor = by;
  for (const Term& t : table().polynomial(a)) {
    std::int64_t q = t.coefficient / by, r = t.coefficient % by;
    if (r < 0) {
      r += by;
      --q;
    }
    if (q != 0) whole.push_back({t.powers, q});
    if (r != 0) rest.push_back({t.powers, r});
    if (r != 0 && !t.powers.empty()) divisor = std::gcd(divisor, r);
  }
  const Dim y = normal(std::move(whole));
  if (rest.empty()) return y;
  if (rest.size() == 1 && rest[0].powers.empty()) return y + Dim(1);
  // A common factor g of the divisor and of all coefficients but the constant goes out; the
  // constant becomes ceil(c / g).
  for (Term& t : rest)
    t.coefficient =
        t.powers.empty() ? rlx::ceil_div(t.coefficient, divisor) : t.coefficient / divisor;
  by /= divisor;
  Dim x = normal(std::move(rest));
  // The new constant may reach the smaller divisor: once more from the start.
  if (divisor > 1) return y + ceil_div(x, by);
  // ceil((ceil(u / v) + c) / by) = ceil((u + c*v) / (v*by)).
  const Polynomial p = table().polynomial(x);
  if (p[0].coefficient == 1 && p[0].powers.size() == 1 && p[0].powers[0].second == 1 &&
      (p.size() == 1 || (p.size() == 2 && p[1].powers.empty()))) {
    const Atom inner = table().atom(p[0].powers[0].first);
    if (inner.by > 0) {
      const std::int64_t c = p.size() == 2 ? p[1].coefficient : 0;
      return y + ceil_div(inner.of + Dim(mul(c, inner.by)), mul(inner.by, by));
    }
  }
  const std::uint32_t id =
      table().atom(Atom{0, x, by, fmt::format("ceil_div({}, {})", x.text(), by)});
  return y + table().intern({Term{{{id, 1}}, 1}});
}

bool Dim::is_constant() const { return constant().has_value(); }

std::optional<std::int64_t> Dim::constant() const {
  if ((handle_ & kPolynomialBit) == 0) return std::int64_t{handle_};
  const Polynomial p = table().polynomial(*this);
  if (p.size() == 1 && p[0].powers.empty()) return p[0].coefficient;
  return std::nullopt;
}

Dim Dim::bind(const DimBinding& binding) const {
  if ((handle_ & kPolynomialBit) == 0) return *this;
  return replace_atoms(*this, [&](std::uint32_t id) {
    const Atom a = table().atom(id);
    if (a.by > 0) return ceil_div(a.of.bind(binding), a.by);
    const Symbol s = Symbol::named(a.text);
    if (const auto v = binding.get(s)) return Dim(*v);
    return Dim(s);
  });
}

std::int64_t Dim::evaluate(const DimBinding& binding) const {
  const Dim bound = bind(binding);
  const auto v = bound.constant();
  if (!v) {
    std::vector<Symbol> left;
    bound.collect(left);
    fail(ErrorCode::shape, "size {}: the symbol \"{}\" is not bound", text(), left[0].name());
  }
  if (*v < 0)
    fail(ErrorCode::shape, "size {} is negative ({}) under {}", text(), *v, binding.text());
  return *v;
}

void Dim::collect(std::vector<Symbol>& out) const {
  if ((handle_ & kPolynomialBit) == 0) return;
  for (const Term& t : table().polynomial(*this))
    for (auto [id, e] : t.powers) {
      const Atom a = table().atom(id);
      if (a.by > 0) {
        a.of.collect(out);
      } else {
        const Symbol s = Symbol::named(a.text);
        if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
      }
    }
}

std::optional<Dim> Dim::divided_by(Dim by) const {
  const Polynomial d = table().polynomial(by);
  if (d.size() != 1) return *this == by ? std::optional<Dim>(Dim(1)) : std::nullopt;
  Polynomial p = table().polynomial(*this);
  for (Term& t : p) {
    if (t.coefficient % d[0].coefficient != 0) return std::nullopt;
    t.coefficient /= d[0].coefficient;
    for (auto [a, e] : d[0].powers) {
      auto it =
          std::find_if(t.powers.begin(), t.powers.end(), [a = a](Power q) { return q.first == a; });
      if (it == t.powers.end() || it->second < e) return std::nullopt;
      it->second -= e;
      if (it->second == 0) t.powers.erase(it);
    }
  }
  return normal(std::move(p));
}

std::string Dim::text() const {
  if ((handle_ & kPolynomialBit) == 0) return fmt::format("{}", handle_);
  std::string text;
  for (const Term& t : table().polynomial(*this)) {
    if (text.empty()) {
      text = term_text(t);
    } else if (t.coefficient < 0 && t.coefficient != std::numeric_limits<std::int64_t>::min()) {
      text += " - " + term_text({t.powers, -t.coefficient});
    } else {
      text += " + " + term_text(t);
    }
  }
  return text;
}

Dim Dim::parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace rlx
