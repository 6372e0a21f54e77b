#include "text/template/functions.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "text/template/evaluator.h"
#include "text/template/operators.h"

namespace rlx::jinja {
namespace {

using Index = std::unordered_map<std::string_view, const Function*>;

Index make_index(std::initializer_list<FunctionTable> tables) {
  Index index;
  for (const FunctionTable table : tables)
    for (const Function& f : table) index.emplace(f.name, &f);
  return index;
}

const Function* find_in(const Index& index, std::string_view name) {
  const auto it = index.find(name);
  return it == index.end() ? nullptr : it->second;
}

class FunctionObject : public Object {
 public:
  FunctionObject(const Function& f, std::optional<Value> subject)
      : f_(f), subject_(std::move(subject)) {}
  std::string type_name() const override {
    return subject_ ? "builtin_function_or_method" : "function";
  }
  std::string repr() const override { return fmt::format("<function {}>", f_.name); }
  bool callable() const override { return true; }
  int depth() const override { return subject_ ? subject_->depth() + 1 : 0; }
  Value call(Evaluator& ev, CallArgs& args) override {
    return call_function(ev, f_, subject_ ? &*subject_ : nullptr, args);
  }

 private:
  const Function& f_;
  std::optional<Value> subject_;
};

// The names of a Function's parameters.
struct Parameters {
  std::vector<std::string_view> names;
  bool rest = false, named = false;

  explicit Parameters(std::string_view text) {
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      const std::string_view name = text.substr(0, comma);
      if (name == "*")
        rest = true;
      else if (name == "**")
        named = true;
      else
        names.push_back(name);
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
  }
};

}  // namespace

int64_t Args::integer(size_t i) const {
  const Value& v = *values[i];
  if (v.is_undefined()) undefined_fault(v);
  if (!v.is_integral())
    fault("{}: '{}' object cannot be interpreted as an integer", name, v.type_name());
  constexpr Int kMost = Int{1} << 62;
  return static_cast<int64_t>(std::clamp(v.integer(), -kMost, kMost));
}

const Text& Args::text(size_t i) const {
  const Value& v = *values[i];
  if (v.is_undefined()) undefined_fault(v);
  if (!v.is_string()) fault("{}: expected a string, found '{}'", name, v.type_name());
  return v.text();
}

const Function* find_filter(std::string_view name) {
  static const Index kIndex =
      make_index({text_filters(), sequence_filters(), order_filters(), select_filters(),
                  value_filters(), markup_filters(), layout_filters()});
  return find_in(kIndex, name);
}

const Function* find_test(std::string_view name) {
  static const Index kIndex = make_index({test_table()});
  return find_in(kIndex, name);
}

const Function* find_global(std::string_view name) {
  static const Index kIndex = make_index({global_table()});
  return find_in(kIndex, name);
}

const Function* find_method(const Value& self, std::string_view name) {
  static const Index kStrings =
      make_index({string_methods(), string_search_methods(), string_class_methods()});
  static const Index kDicts = make_index({dict_methods()});
  static const Index kLists = make_index({list_methods()});
  static const Index kNumbers = make_index({number_methods()});
  switch (self.kind()) {
    case Kind::string:
      return find_in(kStrings, name);
    case Kind::dict:
      return find_in(kDicts, name);
    case Kind::list:
      return find_in(kLists, name);
    case Kind::tuple:
    case Kind::range:
      return name == "copy" ? nullptr : find_in(kLists, name);
    case Kind::integer:
    case Kind::boolean:
      return name == "bit_length" ? find_in(kNumbers, name) : nullptr;
    case Kind::real:
      return name == "is_integer" ? find_in(kNumbers, name) : nullptr;
    default:
      return nullptr;
  }
}

bool is_refused_method(const Value& self, std::string_view name) {
  constexpr std::array<std::string_view, 8> kList = {"append", "clear",  "reverse", "insert",
                                                     "sort",   "extend", "remove",  "pop"};
  constexpr std::array<std::string_view, 5> kDict = {"clear", "pop", "popitem", "setdefault",
                                                     "update"};
  if (self.is(Kind::list)) return std::find(kList.begin(), kList.end(), name) != kList.end();
  if (self.is(Kind::dict)) return std::find(kDict.begin(), kDict.end(), name) != kDict.end();
  return false;
}

Value call_function(Evaluator& ev, const Function& f, const Value* subject, CallArgs& args) {
  const Parameters parameters(f.parameters);
  const size_t count = parameters.names.size();
  Args bound{.ev = ev, .budget = ev.budget(), .name = f.name, .values = {}, .rest = {}};
  bound.values.resize(count);
  size_t at = 0;
  if (subject != nullptr) bound.values[at++] = *subject;
  for (Value& v : args.positional) {
    if (at < count)
      bound.values[at++] = std::move(v);
    else if (parameters.rest)
      bound.rest.push_back(std::move(v));
    else
      fault("{} takes at most {} argument(s), {} were given", f.name, count,
            args.positional.size());
  }
  for (auto& [name, value] : args.named) {
    const auto it = std::find(parameters.names.begin(), parameters.names.end(), name);
    const auto i = static_cast<size_t>(it - parameters.names.begin());
    if (it != parameters.names.end()) {
      if (bound.values[i]) fault("{} got multiple values for argument '{}'", f.name, name);
      bound.values[i] = std::move(value);
    } else if (parameters.named) {
      bound.named.emplace_back(name, std::move(value));
    } else {
      fault("{} got an unexpected keyword argument '{}'", f.name, name);
    }
  }
  for (size_t i = 0; i < f.required; ++i)
    if (!bound.values[i]) fault("{} is missing its argument '{}'", f.name, parameters.names[i]);
  return f.run(bound);
}

Value function_value(const Function& f, std::optional<Value> subject, Budget& budget) {
  budget.step();
  auto object = std::make_shared<FunctionObject>(f, std::move(subject));
  check_depth(object->depth(), &budget);
  return std::shared_ptr<Object>(std::move(object));
}

}  // namespace rlx::jinja
