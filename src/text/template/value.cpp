#include "text/template/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace rlx::jinja {
namespace {

constexpr size_t kSmallDict = 8;
constexpr int kMaxDepth =
    100;  // of constants and variables; TemplateLimits::depth holds for the rest

std::shared_ptr<const Sequence> make_sequence(Items items, Budget* budget) {
  Extent extent{1, 1};
  for (const Value& v : items) extent.add(v);
  check_depth(extent.depth, budget);
  MemoryCharge charge(budget, 64 + items.size() * sizeof(Value));
  return std::make_shared<const Sequence>(Sequence{std::move(items), extent, std::move(charge)});
}

int order(double a, double b) { return a < b ? -1 : a > b ? 1 : 0; }
int order(Int a, Int b) { return a < b ? -1 : a > b ? 1 : 0; }

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
  return a.real() == b.real();
}

bool equal_items(const Items& a, const Items& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Value& x, const Value& y) { return equal(x, y); });
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(entry.second, *other);
  });
}

bool equal_ranges(const Range& a, const Range& b) {
  if (a.size != b.size) return false;
  return a.size == 0 || (a.start == b.start && (a.size == 1 || a.step == b.step));
}

}  // namespace

Value Object::call(Evaluator&, CallArgs&) { fault("'{}' object is not callable", type_name()); }

void check_depth(int depth, const Budget* budget) {
  const int most = budget == nullptr ? kMaxDepth : budget->limits().depth;
  if (depth > most) limit_fault("values are nested deeper than {} levels", most);
}

Value Value::undefined(std::string message) {
  Value v;
  v.data_ = std::make_shared<const Undefined>(Undefined{std::move(message)});
  return v;
}

Value Value::list(Items items, Budget* budget) {
  Value v;
  v.data_ = make_sequence(std::move(items), budget);
  return v;
}

Value Value::tuple(Items items, Budget* budget) {
  Value v;
  v.data_ = Tuple{make_sequence(std::move(items), budget), 0};
  return v;
}

Value Value::group(Items items, Budget* budget) {
  Value v;
  v.data_ = Tuple{make_sequence(std::move(items), budget), 1};
  return v;
}

std::string Value::type_name() const {
  switch (kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return text().markup ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::range:
      return "range";
    case Kind::view:
      return view().part == DictView::Part::keys     ? "dict_keys"
             : view().part == DictView::Part::values ? "dict_values"
                                                     : "dict_items";
    case Kind::generator:
      return "generator";
    case Kind::object:
      return object()->type_name();
  }
  return "object";
}

Extent Value::extent() const {
  switch (kind()) {
    case Kind::list:
    case Kind::tuple:
      return sequence()->extent;
    case Kind::dict:
      return dict()->extent;
    case Kind::view: {
      Extent extent{1, 1};
      extent.add(view().dict);
      return extent;
    }
    case Kind::generator:
      return {generator()->depth(), 1};
    case Kind::object:
      return {object()->depth(), 1};
    case Kind::range:
      return {0, 1 + range().size};
    default:
      return {};
  }
}

void Extent::add(const Value& child) {
  constexpr int64_t kMost = int64_t{1} << 40;
  const Extent e = child.extent();
  depth = std::max(depth, e.depth + 1);
  nodes = std::min(nodes + e.nodes, kMost);
}

int64_t walk_steps(const Value& v) { return 1 + v.extent().nodes / 16; }

void charge_compare(Budget& budget, const Value& a, const Value& b) {
  budget.step(std::min(walk_steps(a), walk_steps(b)));
  if (a.is_string() && b.is_string())
    budget.work(std::min(a.text().bytes.size(), b.text().bytes.size()) / 8);
}

void charge_hash(Budget& budget, const Value& v) {
  budget.step(walk_steps(v));
  if (v.is_string()) budget.work(v.text().bytes.size());
}

bool Value::truth() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return boolean();
    case Kind::integer:
      return integer() != 0;
    case Kind::real:
      return real() != 0;
    case Kind::string:
      return !text().bytes.empty();
    case Kind::list:
    case Kind::tuple:
      return !items().empty();
    case Kind::dict:
      return !dict()->entries.empty();
    case Kind::range:
      return range().size != 0;
    case Kind::view:
      return !view().dict->entries.empty();
    case Kind::generator:
    case Kind::object:
      return true;
  }
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::string:
      return a.text().bytes == b.text().bytes;
    case Kind::list:
    case Kind::tuple:
      return a.sequence() == b.sequence() || equal_items(a.items(), b.items());
    case Kind::dict:
      return a.dict() == b.dict() || equal_dicts(*a.dict(), *b.dict());
    case Kind::range:
      return equal_ranges(a.range(), b.range());
    case Kind::view:
      return a.view().dict == b.view().dict && a.view().part == b.view().part &&
             a.view().part != DictView::Part::values;
    case Kind::generator:
      return a.generator() == b.generator();
    case Kind::object:
      return a.object() == b.object();
    default:
      return true;  // undefined and none
  }
}

int compare(const Value& a, const Value& b, std::string_view op) {
  if (a.is_integral() && b.is_integral()) return order(a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return order(a.real(), b.real());
  if (a.is_string() && b.is_string()) {
    const int c = a.text().bytes.compare(b.text().bytes);
    return c < 0 ? -1 : c > 0 ? 1 : 0;
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const Items &x = a.items(), &y = b.items();
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i])) return compare(x[i], y[i], op);
    return order(static_cast<Int>(x.size()), static_cast<Int>(y.size()));
  }
  if (a.is_undefined()) fault("{}", a.undefined_message());
  if (b.is_undefined()) fault("{}", b.undefined_message());
  fault("'{}' not supported between instances of '{}' and '{}'", op, a.type_name(), b.type_name());
}

size_t hash_value(const Value& v) {
  switch (v.kind()) {
    case Kind::boolean:
    case Kind::integer:
    case Kind::real: {
      // Equal numbers of different types have equal doubles.
      const double d = v.real();
      return std::hash<double>{}(d == 0 ? 0.0 : d);
    }
    case Kind::string:
      return std::hash<std::string_view>{}(v.text().bytes);
    case Kind::tuple: {
      size_t h = 0x345678;
      for (const Value& item : v.items()) h = h * 1000003 ^ hash_value(item);
      return h;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      fault("unhashable type: '{}'", v.type_name());
    case Kind::range:
      return static_cast<size_t>(v.range().size);
    case Kind::generator:
      return std::hash<const void*>{}(v.generator().get());
    case Kind::object:
      return std::hash<const void*>{}(v.object().get());
    default:
      return static_cast<size_t>(v.kind());
  }
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(key.text().bytes);
  const size_t h = hash_value(key);
  if (index.empty()) {
    for (const auto& [k, v] : entries)
      if (equal(k, key)) return &v;
    return nullptr;
  }
  const auto [first, last] = index.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (equal(entries[it->second].first, key)) return &entries[it->second].second;
  return nullptr;
}

const Value* Dict::find(std::string_view key) const {
  const auto same = [&](const Value& k) { return k.is_string() && k.text().bytes == key; };
  if (index.empty()) {
    for (const auto& [k, v] : entries)
      if (same(k)) return &v;
    return nullptr;
  }
  const auto [first, last] = index.equal_range(std::hash<std::string_view>{}(key));
  for (auto it = first; it != last; ++it)
    if (same(entries[it->second].first)) return &entries[it->second].second;
  return nullptr;
}

void DictBuilder::set(Value key, Value value) {
  const size_t h = hash_value(key);
  auto& entries = dict_->entries;
  if (const Value* place = dict_->find(key)) {
    *const_cast<Value*>(place) = std::move(value);
    return;
  }
  if (!dict_->index.empty() || entries.size() >= kSmallDict) {
    if (dict_->index.empty())
      for (size_t i = 0; i < entries.size(); ++i)
        dict_->index.emplace(hash_value(entries[i].first), i);
    dict_->index.emplace(h, entries.size());
  }
  entries.emplace_back(std::move(key), std::move(value));
}

DictPtr DictBuilder::finish() {
  Extent extent{1, 1};
  for (const auto& [k, v] : dict_->entries) {
    extent.add(k);
    extent.add(v);
  }
  check_depth(extent.depth, budget_);
  MemoryCharge charge(budget_, 64 + dict_->entries.size() * (2 * sizeof(Value) + 64));
  auto out = std::make_shared<const Dict>(
      Dict{std::move(dict_->entries), std::move(dict_->index), extent, std::move(charge)});
  dict_ = std::make_shared<Dict>();
  return out;
}

}  // namespace rlx::jinja
