// Ten thousand random sizes: equality of handles is equality of meaning.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "base/error.h"
#include "error_text.h"
#include "tensor/dim.h"

namespace rlx {
namespace {

using Values = std::vector<std::int64_t>;  // of the four symbols
const Symbol kSymbols[] = {sym::rows, sym::batch, sym::past_seq, Symbol::named("width")};

// An expression apart from Dim: what a size means.
struct Expression {
  enum class Kind { number, symbol, sum, difference, product, ceil } kind;
  std::int64_t number = 0;
  std::shared_ptr<const Expression> a, b;

  std::int64_t value(const Values& at) const {
    switch (kind) {
      case Kind::number:
        return number;
      case Kind::symbol:
        return at[static_cast<std::size_t>(number)];
      case Kind::sum:
        return a->value(at) + b->value(at);
      case Kind::difference:
        return a->value(at) - b->value(at);
      case Kind::product:
        return a->value(at) * b->value(at);
      case Kind::ceil: {
        const std::int64_t v = a->value(at);
        return v / number + (v % number > 0 ? 1 : 0);
      }
    }
    return 0;
  }
  Dim dim() const {
    switch (kind) {
      case Kind::number:
        return Dim(number);
      case Kind::symbol:
        return Dim(kSymbols[static_cast<std::size_t>(number)]);
      case Kind::sum:
        return a->dim() + b->dim();
      case Kind::difference:
        return a->dim() - b->dim();
      case Kind::product:
        return a->dim() * b->dim();
      case Kind::ceil:
        return ceil_div(a->dim(), number);
    }
    return {};
  }
};
using Kind = Expression::Kind;
using Pointer = std::shared_ptr<const Expression>;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(engine_); }
  Values values(std::int64_t below_) { return {below(below_), below(below_), below(below_), below(below_)}; }

  Pointer expression(int depth, bool ceil) {
    if (depth == 0 || below(6) == 0)
      return below(2) == 0 ? node({Kind::number, below(13) - 6, {}, {}}) : node({Kind::symbol, below(4), {}, {}});
    const std::int64_t kind = below(ceil ? 4 : 3);
    if (kind == 3) return node({Kind::ceil, below(7) + 1, expression(depth - 1, ceil), {}});
    const Kind kinds[] = {Kind::sum, Kind::difference, Kind::product};
    return node({kinds[kind], 0, expression(depth - 1, ceil), expression(depth - 1, ceil)});
  }

  // The same meaning in another form: exchanged, distributed, with something added and taken away again.
  Pointer rearranged(const Pointer& e, int depth = 0) {
    if (!e->a) return e;
    if (e->kind == Kind::ceil) return node({Kind::ceil, e->number, rearranged(e->a, depth + 1), {}});
    Pointer a = rearranged(e->a, depth + 1), b = rearranged(e->b, depth + 1);
    const std::int64_t how = below(4);
    if (how == 0 && e->kind != Kind::difference) std::swap(a, b);
    if (how == 1 && e->kind == Kind::product && b->kind == Kind::sum)
      return node({Kind::sum, 0, node({Kind::product, 0, a, b->a}), node({Kind::product, 0, a, b->b})});
    if (how == 2 && depth < 2) {
      const Pointer more = expression(1, false);
      return node({Kind::difference, 0, node({Kind::sum, 0, node({e->kind, 0, a, b}), more}), more});
    }
    if (how == 3 && e->kind == Kind::difference)
      return node({Kind::sum, 0, a, node({Kind::product, 0, b, node({Kind::number, -1, {}, {}})})});
    return node({e->kind, 0, a, b});
  }

 private:
  static Pointer node(Expression e) { return std::make_shared<const Expression>(std::move(e)); }
  std::mt19937 engine_;
};

// Values of the symbols, and the same as a binding.
struct Point {
  explicit Point(Values v) : values(std::move(v)) {
    for (std::size_t i = 0; i < 4; ++i) binding.set(kSymbols[i], values[i]);
  }
  Values values;
  DimBinding binding;
};

std::int64_t bound_value(Dim d, const Point& at) { return d.bind(at.binding).constant().value(); }

constexpr int kPolynomials = 10000, kBindings = 20;

TEST(section1_Polynomials, EqualHandlesIffEqualValues) {
  Random random(1);
  std::map<Values, Dim> seen;  // by the values at the same bindings
  std::vector<Point> at;
  for (int i = 0; i < kBindings; ++i) at.emplace_back(random.values(40));  // degree 8 at most: within 64 bits
  int repeated = 0;
  for (int i = 0; i < kPolynomials; ++i) {
    const Pointer e = random.expression(3, false);
    const Dim d = e->dim();
    Values values;
    for (const Point& point : at) {
      values.push_back(e->value(point.values));
      ASSERT_EQ(bound_value(d, point), values.back()) << d.text();
    }
    // Two polynomials of this size that agree at twenty random points are the same one.
    const auto [place, fresh] = seen.try_emplace(values, d);
    ASSERT_EQ(place->second, d) << place->second.text() << " and " << d.text();
    repeated += fresh ? 0 : 1;
    ASSERT_EQ(random.rearranged(e)->dim(), d) << d.text();
    ASSERT_EQ(Dim::parse(d.text()), d);
  }
  std::map<std::uint32_t, int> handles;
  for (const auto& [values, d] : seen) ASSERT_EQ(++handles[d.handle()], 1) << d.text() << " has two meanings";
  EXPECT_GT(repeated, 500) << "the small ones come again and again";
}

TEST(section1_Polynomials, WithCeilDivEqualHandlesMeanEqualValues) {
  Random random(2);
  std::map<std::uint32_t, std::pair<Values, std::string>> seen;
  std::vector<Point> at;
  for (int i = 0; i < kBindings; ++i) at.emplace_back(random.values(i < 8 ? 7 : 40));
  int with_ceil = 0;
  for (int i = 0; i < kPolynomials; ++i) {
    const Pointer e = random.expression(3, true);
    const Dim d = e->dim();
    Values values;
    for (const Point& point : at) {
      values.push_back(e->value(point.values));
      ASSERT_EQ(bound_value(d, point), values.back()) << d.text();
    }
    const auto [place, fresh] = seen.try_emplace(d.handle(), values, d.text());
    ASSERT_EQ(place->second.first, values) << d.text();
    ASSERT_EQ(Dim::parse(d.text()), d) << d.text();
    with_ceil += d.text().find("ceil_div") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(with_ceil, 1000);
}

TEST(section1_Polynomials, TheIdentitiesOfDimHold) {
  Random random(3);
  for (int i = 0; i < 2000; ++i) {
    const Dim x = random.expression(3, true)->dim(), y = random.expression(3, true)->dim();
    const std::int64_t c = random.below(40) + 1, n = random.below(1000) - 500;
    ASSERT_EQ(ceil_div(x, 1), x);
    ASSERT_EQ(ceil_div(Dim(n), c), Dim(n / c + (n % c > 0 ? 1 : 0)));
    ASSERT_EQ(ceil_div(Dim(c) * x, c), x) << x.text();
    ASSERT_EQ(ceil_div(x + Dim(c) * y, c), ceil_div(x, c) + y) << x.text() << ", " << y.text() << ", " << c;
  }
}

TEST(section1_Polynomials, PartialBindingsMeetTheWholeOne) {
  Random random(4);
  for (int i = 0; i < 2000; ++i) {
    const Pointer e = random.expression(3, true);
    const Values v = random.values(100);
    Dim d = e->dim();
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t which = (k + static_cast<std::size_t>(i)) % 4;
      d = d.bind({{kSymbols[which], v[which]}});
    }
    ASSERT_EQ(d.constant(), e->value(v)) << e->dim().text();
  }
}

TEST(section1_Polynomials, WhatWouldGrowWithoutEndIsRefused) {
  const std::string limit =
      "a size expression is too long: expected at most 1024 terms, a degree of 64 and 4096 characters";
  EXPECT_EQ(test::error_text([] {
    Dim d(sym::rows);
    for (int i = 0; i < 40; ++i) d = ceil_div(d * d + d, 2);
  }), limit);
  EXPECT_EQ(test::error_text([] {
    Dim d(1);
    for (int i = 0; i < 40; ++i) d = d * (Dim(sym::rows) + Dim(Symbol::named("s" + std::to_string(i))));
  }), limit);
  EXPECT_EQ(test::error_text([] { Dim::parse("rows^40*rows^40"); }), limit);
  EXPECT_EQ(test::error_text([] { Dim(INT64_MAX) + Dim(1); }), "a size expression does not fit in 64 bits");
  EXPECT_EQ(test::error_text([] { Dim(sym::rows).evaluate({{sym::batch, 2}}); }),
            "size rows: the symbol \"rows\" is not bound");
  EXPECT_EQ(test::error_text([] { (Dim(sym::rows) - Dim(9)).evaluate({{sym::rows, 2}}); }),
            "size rows - 9 is negative (-7) under rows=2");
  EXPECT_EQ(test::error_text([] { ceil_div(Dim(sym::rows), 0); }),
            "ceil_div: expected a divisor of at least 1, found 0");
}

TEST(section1_Symbols, CustomNamesNeverMeetWellKnownOnes) {
  const Symbol mine = DimEnv::symbol("experts");
  EXPECT_EQ(DimEnv::symbol("experts"), mine);
  EXPECT_NE(DimEnv::symbol("experts_2"), mine);
  EXPECT_EQ(mine.name(), "experts");
  for (const Symbol s : {sym::batch, sym::seq, sym::rows, sym::out_rows, sym::past_seq}) {
    EXPECT_NE(mine, s);
    EXPECT_EQ(Symbol::named(s.name()), s);
    EXPECT_EQ(test::error_text([&] { DimEnv::symbol(s.name()); }),
              fmt::format("the symbol \"{0}\" is a well-known one (sym::{0}): expected another name", s.name()));
  }
  EXPECT_EQ(test::error_text([] { DimEnv::symbol("Rows"); }),
            "\"Rows\" is no name of a symbol: expected [a-z_][a-z0-9_]*");
}

TEST(section1_DimBinding, OrderOfInsertionMeansNothing) {
  const Symbol a = Symbol::named("alpha"), b = Symbol::named("beta");
  const DimBinding one{{a, 1}, {sym::rows, 5}, {b, 2}}, other{{b, 9}, {sym::rows, 5}, {a, 1}, {b, 2}};
  EXPECT_EQ(one, other) << "the last value of a symbol wins";
  EXPECT_EQ(one.digest(), other.digest());
  EXPECT_EQ(one.text(), "alpha=1,beta=2,rows=5");
  EXPECT_NE(one.digest(), DimBinding(one).set(b, 3).digest());
  EXPECT_NE(DimBinding{}.digest(), (DimBinding{{a, 0}}).digest());
  EXPECT_EQ(test::error_text([&] { DimBinding{{a, -1}}; }),
            "symbol \"alpha\": expected a size of at least 0, found -1");
}

TEST(section1_DimBinding, BatchAndSequenceBindTheRows) {
  EXPECT_EQ(DimBinding::batch_seq(3, 7).text(), "batch=3,rows=21,seq=7");
  EXPECT_EQ(DimBinding::batch_seq(1, 7).text(), "batch=1,rows=7,seq=7");
  EXPECT_EQ(DimBinding::batch_past_seq(2, 64).text(), "batch=2,past_seq=64");
  EXPECT_EQ(test::error_text([] { DimBinding::batch_seq(INT64_MAX, 2); }),
            "batch 9223372036854775807 times seq 2 does not fit in 64 bits");
}

}  // namespace
}  // namespace rlx
