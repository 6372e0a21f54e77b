#include "tensor/dim.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
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
constexpr std::size_t kMaxTerms = 1024, kMaxAtomText = 4096;
constexpr std::int32_t kMaxDegree = 64;
constexpr const char* kWellKnown[] = {"batch", "seq", "rows", "out_rows", "past_seq"};  // ids 0, 1, ...

// Entries that stay where they are, so that reading one takes no lock: whoever has its number got it from push() or
// from someone who did. Writers hold a lock. Blocks of 64, 128, 256, ... entries.
template <typename T>
class StableList {
 public:
  std::size_t size() const { return size_; }
  const T& operator[](std::size_t i) const {
    const Place p = place(i);
    return blocks_[p.block].load(std::memory_order_acquire)[p.index];
  }
  void push(T value) {
    const Place p = place(size_);
    if (p.block >= kBlocks) fail(ErrorCode::limit, "too many sizes");
    if (p.index == 0) blocks_[p.block].store(new T[kFirst << p.block], std::memory_order_release);
    blocks_[p.block].load(std::memory_order_relaxed)[p.index] = std::move(value);
    ++size_;
  }

 private:
  static constexpr std::size_t kFirst = 64, kBlocks = 25;  // handles have 31 bits
  struct Place {
    std::size_t block, index;
  };
  static Place place(std::size_t i) {
    const auto block = static_cast<std::size_t>(std::bit_width(i / kFirst + 1) - 1);
    return {block, i - ((kFirst << block) - kFirst)};
  }

  std::array<std::atomic<T*>, kBlocks> blocks_{};  // never freed, as the table is not
  std::size_t size_ = 0;
};

}  // namespace

// All symbols, atoms and polynomials of the process. Entries are never removed: models have a few
// hundred.
class DimTable {
 public:
  // The ids of sym:: are the places of these names.
  DimTable() {
    for (const char* name : kWellKnown) symbol(name);
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
    if (fresh) symbols_.push(it->first);
    return Symbol(it->second);
  }
  std::string_view symbol_name(std::uint32_t id) const { return symbols_[id]; }

  std::uint32_t atom(Atom a) {
    std::lock_guard lock(mutex_);
    auto [it, fresh] = atom_ids_.try_emplace(a.text, static_cast<std::uint32_t>(atoms_.size()));
    if (fresh) atoms_.push(std::move(a));
    return it->second;
  }
  const Atom& atom(std::uint32_t id) const { return atoms_[id]; }

  Polynomial polynomial(Dim d) const {
    const std::uint32_t h = d.handle();
    if ((h & kPolynomialBit) == 0)
      return h == 0 ? Polynomial{} : Polynomial{{{}, static_cast<std::int64_t>(h)}};
    return stored(d);
  }
  // Of a size that is no small number. Entries never change and never move.
  const Polynomial& stored(Dim d) const { return polynomials_[d.handle() & ~kPolynomialBit]; }

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
    if (fresh) polynomials_.push(p);
    return from_handle(it->second | kPolynomialBit);
  }

  bool less(const std::vector<Power>& a, const std::vector<Power>& b) const {
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
  StableList<std::string> symbols_;
  std::unordered_map<std::string, std::uint32_t> symbol_ids_;
  StableList<Atom> atoms_;
  std::unordered_map<std::string, std::uint32_t> atom_ids_;
  StableList<Polynomial> polynomials_;
  std::unordered_map<std::string, std::uint32_t> polynomial_ids_;
};

namespace {

DimTable& table() { return DimTable::get(); }

[[noreturn]] void too_large() {
  fail(ErrorCode::limit, "a size expression does not fit in 64 bits");
}

[[noreturn]] void too_long() {
  fail(ErrorCode::limit, "a size expression is too long: expected at most {} terms, a degree of {} and {} characters",
       kMaxTerms, kMaxDegree, kMaxAtomText);
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
  if (p.size() > 1 << 16) too_long();
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
  if (out.size() > kMaxTerms) too_long();
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
  std::int32_t degree = 0;
  for (Power p : out) degree += p.second;
  if (degree > kMaxDegree) too_long();
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

// The value under a binding; the first symbol that it lacks goes to `open`, and the value is none then.
std::int64_t value_under(Dim d, const DimBinding& binding, std::optional<Symbol>& open) {
  if ((d.handle() & kPolynomialBit) == 0) return std::int64_t{d.handle()};
  std::int64_t sum = 0;
  for (const Term& t : table().stored(d)) {
    std::int64_t product = t.coefficient;
    for (auto [id, exponent] : t.powers) {
      const Atom& a = table().atom(id);
      std::int64_t v = 0;
      if (a.by > 0) {
        const std::int64_t of = value_under(a.of, binding, open);
        v = of / a.by + (of % a.by > 0 ? 1 : 0);
      } else if (const auto size = binding.get(Symbol(a.symbol))) {
        v = *size;
      } else {
        open = Symbol(a.symbol);
      }
      if (open) return 0;
      for (std::int32_t i = 0; i < exponent; ++i) product = mul(product, v);
    }
    sum = add(sum, product);
  }
  return sum;
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

}  // namespace

Symbol DimEnv::symbol(std::string_view name) {
  const Symbol s = Symbol::named(name);
  if (s.id() < std::size(kWellKnown))
    fail(ErrorCode::invalid_argument, "the symbol \"{}\" is a well-known one (sym::{}): expected another name",
         name, name);
  return s;
}

Symbol Symbol::named(std::string_view name) { return DimTable::get().symbol(name); }
std::string_view Symbol::name() const { return DimTable::get().symbol_name(id_); }

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

namespace {

// The last results of one operator in this thread, by both handles. Shapes are inferred again at every verification:
// the same few sums and products, whose polynomials cost a microsecond each.
class DimMemo {
 public:
  template <typename F>
  Dim get(Dim a, Dim b, F&& make) {
    const std::uint64_t key = std::uint64_t{a.handle()} << 32 | b.handle();
    Slot& slot = slots_[(a.handle() * 31 + b.handle()) % slots_.size()];
    if (slot.used && slot.key == key) return slot.value;
    const Dim value = make();
    slot = {true, key, value};
    return value;
  }

 private:
  struct Slot {
    bool used = false;
    std::uint64_t key = 0;
    Dim value;
  };
  std::array<Slot, 128> slots_{};
};

Dim sum(Dim a, Dim b) {
  Polynomial p = table().polynomial(a);
  for (Term& t : table().polynomial(b)) p.push_back(std::move(t));
  return normal(std::move(p));
}

Dim product(Dim a, Dim b) {
  const Polynomial left = table().polynomial(a), right = table().polynomial(b);
  if (left.size() * right.size() > 1 << 16) too_long();
  Polynomial p;
  p.reserve(left.size() * right.size());
  for (const Term& x : left)
    for (const Term& y : right)
      p.push_back({multiply(x.powers, y.powers), mul(x.coefficient, y.coefficient)});
  return normal(std::move(p));
}

}  // namespace

Dim operator+(Dim a, Dim b) {
  if (((a.handle_ | b.handle_) & kPolynomialBit) == 0)
    return Dim(std::int64_t{a.handle_} + b.handle_);
  thread_local DimMemo memo;
  return memo.get(a, b, [&] { return sum(a, b); });
}

Dim operator-(Dim a, Dim b) { return a + b * Dim(std::int64_t{-1}); }

Dim operator*(Dim a, Dim b) {
  if (a == Dim(1)) return b;
  if (b == Dim(1)) return a;
  thread_local DimMemo memo;
  return memo.get(a, b, [&] { return product(a, b); });
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
  std::string text = fmt::format("ceil_div({}, {})", x.text(), by);
  if (text.size() > kMaxAtomText) too_long();
  const std::uint32_t id = table().atom(Atom{0, x, by, std::move(text)});
  return y + table().intern({Term{{{id, 1}}, 1}});
}

bool Dim::is_constant() const { return constant().has_value(); }

std::optional<std::int64_t> Dim::constant() const {
  if ((handle_ & kPolynomialBit) == 0) return std::int64_t{handle_};
  const Polynomial& p = table().stored(*this);
  if (p.size() == 1 && p[0].powers.empty()) return p[0].coefficient;
  return std::nullopt;
}

Dim Dim::bind(const DimBinding& binding) const {
  if ((handle_ & kPolynomialBit) == 0) return *this;
  // Specialising binds every size of a model, nearly always all of it: numbers then, no expressions.
  std::optional<Symbol> open;
  const std::int64_t bound = value_under(*this, binding, open);
  if (!open) return Dim(bound);
  return replace_atoms(*this, [&](std::uint32_t id) {
    const Atom& a = table().atom(id);
    if (a.by > 0) return ceil_div(a.of.bind(binding), a.by);
    const Symbol s(a.symbol);
    if (const auto v = binding.get(s)) return Dim(*v);
    return Dim(s);
  });
}

std::int64_t Dim::evaluate(const DimBinding& binding) const {
  if ((handle_ & kPolynomialBit) == 0) return std::int64_t{handle_};
  std::optional<Symbol> open;
  const std::int64_t v = value_under(*this, binding, open);
  if (open) fail(ErrorCode::shape, "size {}: the symbol \"{}\" is not bound", text(), open->name());
  if (v < 0) fail(ErrorCode::shape, "size {} is negative ({}) under {}", text(), v, binding.text());
  return v;
}

void Dim::collect(std::vector<Symbol>& out) const {
  if ((handle_ & kPolynomialBit) == 0) return;
  for (const Term& t : table().polynomial(*this))
    for (auto [id, e] : t.powers) {
      const Atom& a = table().atom(id);
      if (a.by > 0) {
        a.of.collect(out);
      } else {
        const Symbol s(a.symbol);
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

}  // namespace rlx
