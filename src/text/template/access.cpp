// Attributes, subscripts, slices and iteration.
#include <algorithm>

#include "text/template/convert.h"
#include "text/template/evaluator.h"
#include "text/template/operators.h"

namespace rlx::jinja {
namespace {

class ItemGenerator : public Generator {
 public:
  ItemGenerator(Evaluator& ev, Value source)
      : Generator(source.depth() + 1), ev_(ev), source_(std::move(source)) {}

  std::optional<Value> next() override {
    switch (source_.kind()) {
      case Kind::list:
      case Kind::tuple: {
        const Items& items = source_.items();
        return at_ < items.size() ? std::optional(items[at_++]) : std::nullopt;
      }
      case Kind::string:
        return character();
      case Kind::dict:
        return entry(*source_.dict(), DictView::Part::keys);
      case Kind::view:
        return entry(*source_.view().dict, source_.view().part);
      case Kind::range: {
        const Range& r = source_.range();
        if (at_ >= static_cast<size_t>(r.size)) return std::nullopt;
        return Value(r.start + static_cast<Int>(at_++) * r.step);
      }
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Value> character() {
    const Text& text = source_.text();
    if (at_ >= text.bytes.size()) return std::nullopt;
    const size_t begin = at_;
    at_ += char_bytes(text.bytes, begin);
    TextBuilder out(ev_.budget());
    out.add(text, begin, at_);
    return Value(out.finish());
  }

  std::optional<Value> entry(const Dict& dict, DictView::Part part) {
    if (at_ >= dict.entries.size()) return std::nullopt;
    const auto& [key, value] = dict.entries[at_++];
    if (part == DictView::Part::keys) return key;
    if (part == DictView::Part::values) return value;
    return Value::tuple({key, value}, &ev_.budget());
  }

  Evaluator& ev_;
  Value source_;
  size_t at_ = 0;
};

bool is_dunder(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

std::string type_phrase(const Value& v) { return v.is_none() ? "None" : v.type_name() + " object"; }

Value missing_attribute(const Value& v, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", type_phrase(v), name));
}

// A method, an undefined value for a refused one, or nothing.
std::optional<Value> method(Evaluator& ev, const Value& v, std::string_view name) {
  if (const Function* f = find_method(v, name)) return function_value(*f, v, ev.budget());
  if (is_refused_method(v, name))
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, v.type_name()));
  if (is_dunder(name))
    fault("access to attribute '{}' of '{}' object is unsafe.", name, v.type_name());
  if (v.is(Kind::object)) return v.object()->attribute(ev, name);
  if (v.is_number()) {
    if (name == "real" || name == "numerator") return v.is_integral() ? Value(v.integer()) : v;
    if (name == "imag") return v.is_integral() ? Value(0) : Value(0.0);
    if (name == "denominator" && v.is_integral()) return Value(1);
  }
  if (v.is(Kind::range)) {
    if (name == "start") return Value(v.range().start);
    if (name == "stop") return Value(v.range().stop);
    if (name == "step") return Value(v.range().step);
  }
  // The pairs that groupby gives.
  if (v.is(Kind::tuple) && v.is_group()) {
    if (name == "grouper") return v.items()[0];
    if (name == "list") return v.items()[1];
  }
  return std::nullopt;
}

// Element `index` (negative: from the end) or nothing.
std::optional<Value> element(Evaluator& ev, const Value& v, Int index) {
  const auto size = static_cast<Int>(*length_of(v));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  const auto at = static_cast<size_t>(index);
  if (v.is_sequence()) return v.items()[at];
  if (v.is(Kind::range)) return Value(v.range().start + index * v.range().step);
  const Text& text = v.text();
  if (!text.ascii()) ev.budget().work(text.bytes.size());
  const size_t begin = byte_offset(text, at);
  return Value(slice_bytes(text, begin, begin + char_bytes(text.bytes, begin), ev.budget()));
}

std::optional<Value> plain_item(Evaluator& ev, const Value& v, const Value& key) {
  switch (v.kind()) {
    case Kind::dict: {
      if (key.is(Kind::list) || key.is(Kind::dict)) return std::nullopt;
      charge_hash(ev.budget(), key);
      const Value* found = v.dict()->find(key);
      return found != nullptr ? std::optional(*found) : std::nullopt;
    }
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
      return key.is_integral() ? element(ev, v, key.integer()) : std::nullopt;
    default:
      return std::nullopt;
  }
}

struct SliceRange {
  Int start, stop, step;
  size_t count;
};

Int slice_index(const Value& v, Int fallback, Int size, bool backwards) {
  if (v.is_none()) return fallback;
  if (!v.is_integral()) fault("slice indices must be integers or None");
  Int i = v.integer();
  if (i < 0) i += size;
  if (i < 0) return backwards ? -1 : 0;
  return std::min(i, backwards ? size - 1 : size);
}

SliceRange slice_range(const Value& start, const Value& stop, const Value& step, Int size) {
  if (!step.is_none() && !step.is_integral()) fault("slice indices must be integers or None");
  // A step beyond the size takes one element, whatever it is; the bound keeps the arithmetic in
  // range.
  const Int by = step.is_none() ? Int{1} : std::clamp(step.integer(), -size - 1, size + 1);
  if (by == 0) fault("slice step cannot be zero");
  const bool back = by < 0;
  const Int first = slice_index(start, back ? size - 1 : 0, size, back);
  const Int last = slice_index(stop, back ? -1 : size, size, back);
  const Int distance = back ? first - last : last - first;
  const Int stride = back ? -by : by;
  return {first, last, by, distance <= 0 ? 0 : static_cast<size_t>((distance - 1) / stride + 1)};
}

Value slice_text(Evaluator& ev, const Text& text, const SliceRange& r) {
  Budget& budget = ev.budget();
  TextBuilder out(budget);
  if (r.count == 0) return out.finish(text.markup);
  if (!text.ascii()) budget.work(text.bytes.size(), 2);
  if (r.step == 1) {
    const auto first = static_cast<size_t>(r.start);
    const size_t begin = byte_offset(text, first);
    const size_t end = text.ascii() ? first + r.count : byte_offset(text, first + r.count);
    return slice_bytes(text, begin, end, budget);
  }
  std::vector<size_t> offsets;  // of every character, where they are not the bytes
  if (!text.ascii())
    for (size_t i = 0; i < text.bytes.size(); i += char_bytes(text.bytes, i)) offsets.push_back(i);
  budget.work(r.count, 8);
  for (size_t k = 0; k < r.count; ++k) {
    const auto index = static_cast<size_t>(r.start + static_cast<Int>(k) * r.step);
    const size_t at = text.ascii() ? index : offsets[index];
    out.add(text, at, at + char_bytes(text.bytes, at));
  }
  return out.finish(text.markup);
}

}  // namespace

std::string object_name(const Value& v) { return type_phrase(v); }

void undefined_fault(const Value& v) { fault("{}", v.undefined_message()); }

Value get_attribute(Evaluator& ev, const Value& v, std::string_view name) {
  if (v.is_undefined()) undefined_fault(v);
  if (v.is(Kind::dict) && is_dunder(name)) {
    if (const Value* found = v.dict()->find(name)) return *found;
  }
  if (auto found = method(ev, v, name)) return std::move(*found);
  if (v.is(Kind::dict)) {
    if (const Value* found = v.dict()->find(name)) return *found;
  }
  return missing_attribute(v, name);
}

Value get_item(Evaluator& ev, const Value& v, const Value& key) {
  if (v.is_undefined()) undefined_fault(v);
  if (auto found = plain_item(ev, v, key)) return std::move(*found);
  if (!key.is_string()) {
    TextBuilder out(ev.budget());
    write_repr(out, key);
    return Value::undefined(fmt::format("{} has no element {}", type_phrase(v), out.bytes()));
  }
  if (auto found = method(ev, v, key.text().bytes)) return std::move(*found);
  return missing_attribute(v, key.text().bytes);
}

Value get_slice(Evaluator& ev, const Value& v, const Value& start, const Value& stop,
                const Value& step) {
  if (v.is_undefined()) undefined_fault(v);
  if (!v.is_string() && !v.is_sequence() && !v.is(Kind::range))
    fault("'{}' object is not subscriptable with a slice", v.type_name());
  const SliceRange r = slice_range(start, stop, step, static_cast<Int>(*length_of(v)));
  if (v.is_string()) return slice_text(ev, v.text(), r);
  ev.budget().step(1 + static_cast<int64_t>(r.count / 16));
  if (v.is(Kind::range)) {
    const Range& range = v.range();
    return std::make_shared<const Range>(Range{range.start + r.start * range.step,
                                               range.start + r.stop * range.step,
                                               r.step * range.step, static_cast<int64_t>(r.count)});
  }
  Items items;
  items.reserve(r.count);
  for (size_t k = 0; k < r.count; ++k)
    items.push_back(v.items()[static_cast<size_t>(r.start + static_cast<Int>(k) * r.step)]);
  return v.is(Kind::list) ? Value::list(std::move(items), &ev.budget())
                          : Value::tuple(std::move(items), &ev.budget());
}

bool is_iterable(const Value& v) {
  switch (v.kind()) {
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return false;
    case Kind::object:
      return false;
    default:
      return true;
  }
}

std::shared_ptr<Generator> iterate(Evaluator& ev, const Value& v) {
  if (v.is(Kind::generator)) return v.generator();
  if (!is_iterable(v)) fault("'{}' object is not iterable", v.type_name());
  check_depth(v.depth() + 1, &ev.budget());
  return std::make_shared<ItemGenerator>(ev, v);
}

Items collect(Evaluator& ev, const Value& v) {
  if (v.is_sequence()) {
    ev.budget().step(static_cast<int64_t>(v.items().size() / 16));
    return v.items();
  }
  Items out;
  const auto it = iterate(ev, v);
  while (auto item = it->next()) {
    ev.budget().step();
    ev.budget().check_size(out.size() * sizeof(Value));
    out.push_back(std::move(*item));
  }
  return out;
}

std::optional<int64_t> length_of(const Value& v) {
  switch (v.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return static_cast<int64_t>(v.text().length);
    case Kind::list:
    case Kind::tuple:
      return static_cast<int64_t>(v.items().size());
    case Kind::dict:
      return static_cast<int64_t>(v.dict()->entries.size());
    case Kind::view:
      return static_cast<int64_t>(v.view().dict->entries.size());
    case Kind::range:
      return v.range().size;
    default:
      return std::nullopt;
  }
}

}  // namespace rlx::jinja
