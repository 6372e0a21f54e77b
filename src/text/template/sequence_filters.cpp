// Filters over sequences: their ends, their elements, groups of them.
#include <algorithm>

#include "text/template/convert.h"
#include "text/template/evaluator.h"
#include "text/template/filters.h"

namespace rlx::jinja {
namespace {

class FunctionGenerator : public Generator {
 public:
  FunctionGenerator(std::function<std::optional<Value>()> next, int depth)
      : Generator(depth), next_(std::move(next)) {}
  std::optional<Value> next() override { return next_(); }

 private:
  std::function<std::optional<Value>()> next_;
};

Value length_filter(Args& a) {
  const auto n = length_of(a[0]);
  if (!n) fault("object of type '{}' has no len()", a[0].type_name());
  return Value(*n);
}

Value first_filter(Args& a) {
  auto v = iterate(a.ev, a[0])->next();
  return v ? std::move(*v) : Value::undefined("No first item, sequence was empty.");
}

Value last_filter(Args& a) {
  if (a[0].is(Kind::generator)) fault("'generator' object is not reversible");
  if (!is_iterable(a[0])) fault("'{}' object is not reversible", a[0].type_name());
  Items items = collect(a.ev, a[0]);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value list_filter(Args& a) { return Value::list(collect(a.ev, a[0]), &a.budget); }

Value items_filter(Args& a) {
  // Like all generators it fails when it is used, not when it is made.
  if (!a[0].is_undefined() && !a[0].is(Kind::dict))
    return generate(
        []() -> std::optional<Value> { fault("Can only get item pairs from a mapping."); }, 1,
        a.budget);
  const Value view =
      a[0].is_undefined()
          ? a[0]
          : Value(std::make_shared<const DictView>(DictView{a[0].dict(), DictView::Part::items}));
  const auto it = iterate(a.ev, view);
  return generate([it] { return it->next(); }, it->depth() + 1, a.budget);
}

Value sum_filter(Args& a) {
  Value total = a.has(2) ? a[2] : Value(0);
  const auto it = iterate(a.ev, a[0]);
  while (const auto v = it->next()) {
    a.budget.step();
    const Value part = a.absent(1) ? *v : read_path(a.ev, *v, a[1], nullptr);
    if (total.is_string()) fault("sum() can't sum strings [use ''.join(seq) instead]");
    total = binary(a.ev, Op::add, total, part);
  }
  return total;
}

// batch(n, fill): lists of n elements.
Value batch_filter(Args& a) {
  const auto n = a.integer(1);
  const auto fill = a.absent(2) ? std::nullopt : std::optional<Value>(a[2]);
  const auto it = iterate(a.ev, a[0]);
  Budget* budget = &a.budget;
  return generate(
      [=, ended = false]() mutable -> std::optional<Value> {
        Items items;
        while (!ended && (items.empty() || static_cast<int64_t>(items.size()) != n)) {
          budget->step();
          auto v = it->next();
          ended = !v;
          if (v) items.push_back(std::move(*v));
        }
        if (items.empty()) return std::nullopt;
        if (fill && n > 0 && static_cast<int64_t>(items.size()) < n) {
          budget->step(n - static_cast<int64_t>(items.size()));
          items.resize(static_cast<size_t>(n), *fill);
        }
        return Value::list(std::move(items), budget);
      },
      std::max(it->depth(), fill ? fill->depth() : 0) + 1, a.budget);
}

// slice(n, fill): n lists of about equal length.
Value slice_filter(Args& a) {
  const int64_t slices = a.integer(1);
  if (slices == 0) fault("integer division or modulo by zero");
  const Items items = collect(a.ev, a[0]);
  const auto size = static_cast<int64_t>(items.size());
  const int64_t each = size / slices, more = size % slices;
  Items out;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    a.budget.step();
    const int64_t end = begin + each + (i < more ? 1 : 0);
    Items part(items.begin() + begin, items.begin() + end);
    if (!a.absent(2) && i >= more) part.push_back(a[2]);
    begin = end;
    out.push_back(Value::list(std::move(part), &a.budget));
  }
  const auto it = iterate(a.ev, Value::list(std::move(out), &a.budget));
  return generate([it] { return it->next(); }, it->depth() + 1, a.budget);
}

constexpr Function kSequenceFilters[] = {
    {"length", "value", 1, length_filter},
    {"count", "value", 1, length_filter},
    {"first", "value", 1, first_filter},
    {"last", "value", 1, last_filter},
    {"list", "value", 1, list_filter},
    {"items", "value", 1, items_filter},
    {"sum", "value,attribute,start", 1, sum_filter},
    {"batch", "value,linecount,fill_with", 2, batch_filter},
    {"slice", "value,slices,fill_with", 2, slice_filter},
};

}  // namespace

Value generate(std::function<std::optional<Value>()> next, int depth, Budget& budget) {
  check_depth(depth, &budget);
  return std::shared_ptr<Generator>(std::make_shared<FunctionGenerator>(std::move(next), depth));
}

Value read_path(Evaluator& ev, const Value& v, const Value& path, const Value* fallback) {
  ev.budget().step();
  if (path.is_integral()) {
    const Value item = get_item(ev, v, path);
    return item.is_undefined() && fallback != nullptr ? *fallback : item;
  }
  if (!path.is_string())
    fault("an attribute must be a string or an integer, not '{}'", path.type_name());
  Value at = v;
  std::string_view rest = path.text().bytes;
  ev.budget().work(rest.size());
  while (true) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, dot);
    const bool number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos;
    at = get_item(
        ev, at, number ? Value(std::stoi(std::string(part))) : Value(make_text(std::string(part))));
    if (at.is_undefined() && fallback != nullptr) at = *fallback;
    if (dot == rest.size()) return at;
    rest.remove_prefix(dot + 1);
    ev.budget().step();
  }
}

FunctionTable sequence_filters() { return kSequenceFilters; }

}  // namespace rlx::jinja
