// Global functions: those of Jinja and the two that HF transformers adds.
#include <algorithm>
#include <array>
#include <ctime>

#include "text/template/convert.h"
#include "text/template/evaluator.h"
#include "text/template/functions.h"
#include "text/template/operators.h"

namespace rlx::jinja {
namespace {

Value range_function(Args& a) {
  const auto part = [&](size_t i) {
    if (a[i].is_undefined()) undefined_fault(a[i]);
    if (!a[i].is_integral())
      fault("'{}' object cannot be interpreted as an integer", a[i].type_name());
    constexpr Int kMost = Int{1} << 100;  // keeps the differences in range
    return std::clamp(a[i].integer(), -kMost, kMost);
  };
  Range r;
  r.start = a.has(1) ? part(0) : 0;
  r.stop = a.has(1) ? part(1) : part(0);
  r.step = a.has(2) ? part(2) : 1;
  if (r.step == 0) fault("range() arg 3 must not be zero");
  const Int distance = r.step > 0 ? r.stop - r.start : r.start - r.stop;
  const Int stride = r.step > 0 ? r.step : -r.step;
  const Int size = distance <= 0 ? 0 : (distance - 1) / stride + 1;
  if (size > a.budget.limits().range)
    limit_fault("range of {} elements is too big, at most {} are possible", int_text(size),
                a.budget.limits().range);
  r.size = static_cast<int64_t>(size);
  return std::make_shared<const Range>(r);
}

Value namespace_function(Args& a) {
  CallArgs args{std::move(a.rest), std::move(a.named)};
  return a.ev.make_namespace(args);
}

Value dict_function(Args& a) {
  if (a.rest.size() > 1) fault("dict expected at most 1 argument, got {}", a.rest.size());
  DictBuilder out(&a.budget);
  const auto put = [&](Value key, Value value) {
    charge_hash(a.budget, key);
    out.set(std::move(key), std::move(value));
  };
  if (!a.rest.empty() && a.rest[0].is(Kind::dict)) {
    for (const auto& [key, value] : a.rest[0].dict()->entries) put(key, value);
  } else if (!a.rest.empty()) {
    for (const Value& pair : collect(a.ev, a.rest[0])) {
      Items parts = collect(a.ev, pair);
      if (parts.size() != 2) fault("dict: an element has {} parts; 2 are required", parts.size());
      put(std::move(parts[0]), std::move(parts[1]));
    }
  }
  for (auto& [name, value] : a.named) put(Value(make_text(name, &a.budget)), std::move(value));
  return out.finish();
}

Value raise_exception(Args& a) {
  throw Fault(TemplateFault::raised, to_text(a[0], a.budget)->bytes);
}

std::tm clock_of(const RenderOptions& options) {
  if (options.now) return *options.now;
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  localtime_r(&now, &out);
  return out;
}

// strftime of datetime.now(): without a time zone, microseconds are zero.
Value strftime_now(Args& a) {
  const Text& format = a.text(0);
  std::tm now = clock_of(a.ev.options());
  std::tm normal = now;  // fills in the day of the week and of the year
  normal.tm_isdst = 0;
  if (timegm(&normal) != -1) {
    now.tm_wday = normal.tm_wday;
    now.tm_yday = normal.tm_yday;
  }
  TextBuilder out(a.budget);
  const std::string_view s = format.bytes;
  for (size_t i = 0; i < s.size();) {
    if (s[i] != '%' || i + 1 == s.size()) {
      out.add(format, i, i + 1);
      ++i;
      continue;
    }
    size_t end = i + 1;
    constexpr std::string_view kFlags = "-_0^#";
    while (end + 1 < s.size() && end < i + 3 && kFlags.find(s[end]) != std::string_view::npos)
      ++end;
    ++end;
    const char kind = s[end - 1];
    if (kind == 'f')
      out.add("000000");
    else if (kind == '%')
      out.add('%');
    else if (kind != 'z' && kind != 'Z') {
      const std::string directive(s.substr(i, end - i));
      std::array<char, 256> buffer{};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
      const size_t n = std::strftime(buffer.data(), buffer.size(), directive.c_str(), &now);
#pragma GCC diagnostic pop
      out.add(std::string_view(buffer.data(), n));
    }
    i = end;
  }
  return out.finish();
}

class Cycler : public Object {
 public:
  explicit Cycler(Items items) : items_(std::move(items)) {
    for (const Value& v : items_) depth_ = std::max(depth_, v.depth() + 1);
  }
  std::string type_name() const override { return "Cycler"; }
  int depth() const override { return depth_; }
  std::optional<Value> attribute(Evaluator& ev, std::string_view name) override;
  const Value& current() const { return items_[at_]; }
  Value next() {
    const Value v = items_[at_];
    at_ = (at_ + 1) % items_.size();
    return v;
  }
  void reset() { at_ = 0; }

 private:
  Items items_;
  size_t at_ = 0;
  int depth_ = 1;
};

const Cycler& cycler_of(Args& a) { return dynamic_cast<const Cycler&>(*a[0].object()); }
Cycler& mutable_cycler(Args& a) { return const_cast<Cycler&>(cycler_of(a)); }

constexpr Function kCyclerMethods[] = {
    {"next", "self", 1, [](Args& a) { return mutable_cycler(a).next(); }},
    {"reset", "self", 1, [](Args& a) { return mutable_cycler(a).reset(), Value::none(); }},
};

std::optional<Value> Cycler::attribute(Evaluator& ev, std::string_view name) {
  if (name == "current") return current();
  for (const Function& f : kCyclerMethods)
    if (f.name == name) return function_value(f, Value(shared_from_this()), ev.budget());
  return std::nullopt;
}

/// Gives its separator each time but the first.
class Joiner : public Object {
 public:
  explicit Joiner(TextPtr separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Evaluator& ev, CallArgs&) override {
    if (std::exchange(used_, true)) return separator_;
    return make_text("", &ev.budget());
  }

 private:
  TextPtr separator_;
  bool used_ = false;
};

Value cycler_function(Args& a) {
  if (a.rest.empty()) fault("at least one item has to be provided");
  auto cycler = std::make_shared<Cycler>(std::move(a.rest));
  check_depth(cycler->depth(), &a.budget);
  return std::shared_ptr<Object>(std::move(cycler));
}

Value joiner_function(Args& a) {
  TextPtr separator = a.has(0) ? to_text(a[0], a.budget) : make_text(", ", &a.budget);
  return std::shared_ptr<Object>(std::make_shared<Joiner>(std::move(separator)));
}

constexpr Function kGlobals[] = {
    {"range", "start,stop,step", 1, range_function},
    {"namespace", "*,**", 0, namespace_function},
    {"dict", "*,**", 0, dict_function},
    {"raise_exception", "message", 1, raise_exception},
    {"strftime_now", "format", 1, strftime_now},
    {"cycler", "*", 0, cycler_function},
    {"joiner", "sep", 0, joiner_function},
};

}  // namespace

FunctionTable global_table() { return kGlobals; }

}  // namespace rlx::jinja
