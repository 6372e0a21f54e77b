// Methods of mappings, lists and numbers.
#include <algorithm>
#include <cmath>

#include "text/template/convert.h"
#include "text/template/functions.h"
#include "text/template/operators.h"

namespace rlx::jinja {
namespace {

Value view(Args& a, DictView::Part part) {
  return std::make_shared<const DictView>(DictView{a[0].dict(), part});
}

Value dict_get(Args& a) {
  charge_hash(a.budget, a[1]);
  const Value* found = a[0].dict()->find(a[1]);
  if (found != nullptr) return *found;
  return a.has(2) ? a[2] : Value::none();
}

Value dict_from_keys(Args& a) {
  DictBuilder out(&a.budget);
  const auto it = iterate(a.ev, a[1]);
  while (auto key = it->next()) {
    a.budget.step();
    charge_hash(a.budget, *key);
    out.set(std::move(*key), a.has(2) ? a[2] : Value::none());
  }
  return out.finish();
}

constexpr Function kDictMethods[] = {
    {"items", "self", 1, [](Args& a) { return view(a, DictView::Part::items); }},
    {"keys", "self", 1, [](Args& a) { return view(a, DictView::Part::keys); }},
    {"values", "self", 1, [](Args& a) { return view(a, DictView::Part::values); }},
    {"get", "self,key,default", 2, dict_get},
    {"copy", "self", 1, [](Args& a) { return a[0]; }},
    {"fromkeys", "self,iterable,value", 2, dict_from_keys},
};

// list.index(value, start, stop)
Value list_index(Args& a) {
  const Items items = collect(a.ev, a[0]);
  const auto size = static_cast<int64_t>(items.size());
  const auto bound = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  const int64_t end = bound(a.integer_or(3, size));
  for (int64_t i = bound(a.integer_or(2, 0)); i < end; ++i) {
    charge_compare(a.budget, items[static_cast<size_t>(i)], a[1]);
    if (equal(items[static_cast<size_t>(i)], a[1])) return Value(i);
  }
  fault("the value is not in the list");
}

Value list_count(Args& a) {
  int64_t n = 0;
  for (const Value& v : collect(a.ev, a[0])) {
    charge_compare(a.budget, v, a[1]);
    n += equal(v, a[1]) ? 1 : 0;
  }
  return n;
}

constexpr Function kListMethods[] = {
    {"index", "self,value,start,stop", 2, list_index},
    {"count", "self,value", 2, list_count},
    {"copy", "self", 1, [](Args& a) { return a[0]; }},
};

Value bit_length(Args& a) {
  int64_t n = 0;
  const Int v = a[0].integer();
  auto rest = v < 0 ? -static_cast<unsigned __int128>(v) : static_cast<unsigned __int128>(v);
  for (; rest != 0; rest >>= 1) ++n;
  return n;
}

constexpr Function kNumberMethods[] = {
    {"bit_length", "self", 1, bit_length},
    {"is_integer", "self", 1,
     [](Args& a) {
       return Value(std::isfinite(a[0].real()) && std::floor(a[0].real()) == a[0].real());
     }},
};

}  // namespace

FunctionTable dict_methods() { return kDictMethods; }
FunctionTable list_methods() { return kListMethods; }
FunctionTable number_methods() { return kNumberMethods; }

}  // namespace rlx::jinja
