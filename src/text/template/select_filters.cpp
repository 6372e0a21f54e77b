// map, select, reject and their attribute forms: lazy, as in Jinja.
#include <algorithm>

#include "text/template/evaluator.h"
#include "text/template/filters.h"

namespace rlx::jinja {
namespace {

// The arguments after the name of a filter or test.
struct Applied {
  std::string name;
  CallArgs args;
};

int depth_of(const Args& a) {
  Items all = a.rest;
  for (const auto& [name, value] : a.named) all.push_back(value);
  int depth = a[0].depth();
  for (const Value& v : all) depth = std::max(depth, v.depth());
  return depth + 2;
}

Applied applied(const Args& a, size_t from) {
  if (a.rest.size() <= from || !a.rest[from].is_string())
    fault("{} expects the name of a filter or test", a.name);
  Applied out{a.rest[from].text().bytes, {}};
  out.args.positional.assign(a.rest.begin() + static_cast<std::ptrdiff_t>(from) + 1, a.rest.end());
  out.args.named = a.named;
  return out;
}

Value map_filter(Args& a) {
  if (!a[0].truth())
    return generate([]() -> std::optional<Value> { return std::nullopt; }, 1, a.budget);
  std::optional<Value> attribute, fallback;
  Applied filter;
  if (a.rest.empty()) {
    for (auto& [name, value] : a.named) {
      if (name == "attribute")
        attribute = value;
      else if (name == "default")
        fallback = value;
      else
        fault("Unexpected keyword argument '{}'", name);
    }
    if (!attribute) fault("map requires a filter argument");
  } else {
    filter = applied(a, 0);
  }
  Evaluator* ev = &a.ev;
  const auto it = iterate(a.ev, a[0]);
  return generate(
      [=]() mutable -> std::optional<Value> {
        ev->budget().step();
        const auto v = it->next();
        if (!v) return std::nullopt;
        if (attribute)
          return read_path(*ev, *v, *attribute,
                           fallback && !fallback->is_none() ? &*fallback : nullptr);
        CallArgs args = filter.args;
        return ev->filter(filter.name, *v, args);
      },
      depth_of(a), a.budget);
}

// keep: select; by_attribute: the first argument is an attribute to test.
template <bool keep, bool by_attribute>
Value select_filter(Args& a) {
  if (!a[0].truth())
    return generate([]() -> std::optional<Value> { return std::nullopt; }, 1, a.budget);
  if (by_attribute && a.rest.empty()) fault("Missing parameter for attribute name");
  std::optional<Value> attribute;
  if (by_attribute) attribute = a.rest[0];
  std::optional<Applied> test;
  if (a.rest.size() > (by_attribute ? 1 : 0)) test = applied(a, by_attribute ? 1 : 0);
  Evaluator* ev = &a.ev;
  const auto it = iterate(a.ev, a[0]);
  return generate(
      [=]() mutable -> std::optional<Value> {
        while (auto v = it->next()) {
          ev->budget().step();
          const Value subject = attribute ? read_path(*ev, *v, *attribute, nullptr) : *v;
          bool good = false;
          if (test) {
            CallArgs args = test->args;
            good = ev->test(test->name, subject, args);
          } else {
            good = subject.truth();
          }
          if (good == keep) return v;
        }
        return std::nullopt;
      },
      depth_of(a), a.budget);
}

// Wrong arguments are a fault when the first element is asked for, as in the reference.
template <Value (*filter)(Args&)>
Value lazy(Args& a) {
  try {
    return filter(a);
  } catch (const Fault& f) {
    return generate([f]() -> std::optional<Value> { throw f; }, 1, a.budget);
  }
}

constexpr Function kSelectFilters[] = {
    {"map", "value,*,**", 1, lazy<map_filter>},
    {"select", "value,*,**", 1, lazy<select_filter<true, false>>},
    {"reject", "value,*,**", 1, lazy<select_filter<false, false>>},
    {"selectattr", "value,*,**", 1, lazy<select_filter<true, true>>},
    {"rejectattr", "value,*,**", 1, lazy<select_filter<false, true>>},
};

}  // namespace

FunctionTable select_filters() { return kSelectFilters; }

}  // namespace rlx::jinja
