// Filters that sort, group and compare.
#include <algorithm>
#include <unordered_map>

#include "text/template/convert.h"
#include "text/template/filters.h"
#include "text/template/strings.h"

namespace rlx::jinja {

Value sort_key(Args& a, const Value& v, const Value* attribute, bool case_sensitive) {
  Value key = v;
  if (attribute != nullptr) key = read_path(a.ev, v, *attribute, nullptr);
  if (key.is_string() && !case_sensitive) return change_case(key.text(), Letters::lower, a.budget);
  return key;
}

namespace {

struct Keyed {
  Value key, value;
};

// The key of sort is a list: "a,b" sorts by both, and undefined values are equal to each other.
std::vector<Keyed> keyed(Args& a, const Items& items, const Value* attribute, bool case_sensitive) {
  std::vector<std::optional<Value>> paths = {std::nullopt};
  if (attribute != nullptr && attribute->is_string()) {
    paths.clear();
    const TextPtr comma = make_text(",");
    for (TextPtr& part : split(attribute->text(), comma.get(), -1, a.budget))
      paths.emplace_back(std::move(part));
  } else if (attribute != nullptr) {
    paths[0] = *attribute;
  }
  std::vector<Keyed> out;
  out.reserve(items.size());
  for (const Value& v : items) {
    a.budget.step();
    Items keys;
    for (const auto& path : paths)
      keys.push_back(sort_key(a, v, path ? &*path : nullptr, case_sensitive));
    out.push_back({Value::tuple(std::move(keys), &a.budget), v});
  }
  return out;
}

void sort_keyed(Budget& budget, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& x, const Keyed& y) {
    charge_compare(budget, x.key, y.key);
    return reverse ? compare(y.key, x.key, "<") < 0 : compare(x.key, y.key, "<") < 0;
  });
}

const Value* optional_value(Args& a, size_t i) { return a.absent(i) ? nullptr : &a[i]; }

Items values_of(std::vector<Keyed> items) {
  Items out;
  for (Keyed& k : items) out.push_back(std::move(k.value));
  return out;
}

Value sort_filter(Args& a) {
  auto items = keyed(a, collect(a.ev, a[0]), optional_value(a, 3), a.flag(2, false));
  sort_keyed(a.budget, items, a.flag(1, false));
  return Value::list(values_of(std::move(items)), &a.budget);
}

Value dictsort_filter(Args& a) {
  if (!a[0].is(Kind::dict)) fault("dictsort expects a mapping, found '{}'", a[0].type_name());
  const bool case_sensitive = a.flag(1, false);
  const bool by_value = a.has(2) && a[2].is_string() && a[2].text().bytes == "value";
  if (a.has(2) && !by_value && !(a[2].is_string() && a[2].text().bytes == "key"))
    fault("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> items;
  for (const auto& [key, value] : a[0].dict()->entries) {
    a.budget.step();
    items.push_back({sort_key(a, by_value ? value : key, nullptr, case_sensitive),
                     Value::tuple({key, value}, &a.budget)});
  }
  sort_keyed(a.budget, items, a.flag(3, false));
  return Value::list(values_of(std::move(items)), &a.budget);
}

// unique(case_sensitive, attribute)
Value unique_filter(Args& a) {
  const Items items = collect(a.ev, a[0]);
  std::unordered_multimap<size_t, Value> seen;
  Items out;
  for (const Value& v : items) {
    const Value key = sort_key(a, v, optional_value(a, 2), a.flag(1, false));
    charge_hash(a.budget, key);
    const auto [first, last] = seen.equal_range(hash_value(key));
    if (std::any_of(first, last, [&](const auto& s) { return equal(s.second, key); })) continue;
    seen.emplace(hash_value(key), key);
    out.push_back(v);
  }
  const auto it = iterate(a.ev, Value::list(std::move(out), &a.budget));
  return generate([it] { return it->next(); }, it->depth() + 1, a.budget);
}

template <bool largest>
Value extreme_filter(Args& a) {
  const auto it = iterate(a.ev, a[0]);
  std::optional<Keyed> best;
  while (auto v = it->next()) {
    a.budget.step();
    Value key = sort_key(a, *v, optional_value(a, 2), a.flag(1, false));
    if (best) {
      charge_compare(a.budget, key, best->key);
      const int c = largest ? compare(key, best->key, ">") : compare(best->key, key, "<");
      if (c <= 0) continue;
    }
    best = Keyed{std::move(key), std::move(*v)};
  }
  return best ? std::move(best->value)
              : Value::undefined("No aggregated item, sequence was empty.");
}

// groupby(attribute, default, case_sensitive): pairs (grouper, list), sorted by grouper.
Value groupby_filter(Args& a) {
  const bool case_sensitive = a.flag(3, false);
  const Value* fallback = a.has(2) && !a[2].is_none() ? &a[2] : nullptr;
  std::vector<Keyed> items;
  for (const Value& v : collect(a.ev, a[0])) {
    const Value key = read_path(a.ev, v, a[1], fallback);
    const bool lower = key.is_string() && !case_sensitive;
    items.push_back({lower ? Value(change_case(key.text(), Letters::lower, a.budget)) : key, v});
  }
  sort_keyed(a.budget, items, false);
  Items groups;
  for (size_t i = 0; i < items.size();) {
    size_t end = i;
    Items members;
    for (; end < items.size() && equal(items[end].key, items[i].key); ++end) {
      charge_compare(a.budget, items[end].key, items[i].key);
      members.push_back(items[end].value);
    }
    // The grouper keeps the case of the first member.
    const Value grouper =
        case_sensitive ? items[i].key : read_path(a.ev, items[i].value, a[1], fallback);
    groups.push_back(
        Value::group({grouper, Value::list(std::move(members), &a.budget)}, &a.budget));
    i = end;
  }
  return Value::list(std::move(groups), &a.budget);
}

constexpr Function kOrderFilters[] = {
    {"sort", "value,reverse,case_sensitive,attribute", 1, sort_filter},
    {"dictsort", "value,case_sensitive,by,reverse", 1, dictsort_filter},
    {"unique", "value,case_sensitive,attribute", 1, unique_filter},
    {"min", "value,case_sensitive,attribute", 1, extreme_filter<false>},
    {"max", "value,case_sensitive,attribute", 1, extreme_filter<true>},
    {"groupby", "value,attribute,default,case_sensitive", 2, groupby_filter},
};

}  // namespace

FunctionTable order_filters() { return kOrderFilters; }

}  // namespace rlx::jinja
