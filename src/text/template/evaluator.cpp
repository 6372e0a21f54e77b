#include "text/template/evaluator.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "text/template/convert.h"
#include "text/template/operators.h"

namespace rlx::jinja {
Scope::Scope(Evaluator& ev, Frame& parent) : ev_(ev), frame_(std::make_unique<Frame>()) {
  frame_->parent = &parent;
}

Scope::~Scope() {
  if (frame_->captured) ev_.kept_.push_back(std::move(frame_));
}

std::optional<Value> Namespace::attribute(Evaluator&, std::string_view name) {
  for (const auto& [key, value] : entries)
    if (key == name) return value;
  return std::nullopt;
}

void Namespace::set(const std::string& name, Value value) {
  for (auto& [key, old] : entries)
    if (key == name) {
      old = std::move(value);
      return;
    }
  entries.emplace_back(name, std::move(value));
}

Evaluator::Evaluator(const Program& program, const RenderOptions& options)
    : program_(program),
      options_(options),
      budget_(options.limits),
      globals_(program.names.size()) {}

Evaluator::~Evaluator() {
  // Namespaces may hold themselves, and kept scopes macros; emptied one by one nothing is freed in
  // deep recursion.
  for (const auto& ns : namespaces_) ns->entries.clear();
  for (const auto& frame : kept_) frame->names.clear();
}

RenderResult Evaluator::run(const Json& variables) {
  try {
    load_variables(variables);
    TextBuilder out(budget_);
    run_block(program_.body, root_, out);
    RenderResult result;
    result.user = out.take_spans();
    result.text = out.take_bytes();
    return result;
  } catch (const Fault& f) {
    throw TemplateError(
        f.kind() == TemplateFault::syntax ? TemplateFault::other : f.kind(),
        fmt::format("{}:{}:{}: {}", program_.name, place_.line, place_.column, f.message()));
  }
}

void Evaluator::load_variables(const Json& variables) {
  if (!variables.is_object() && !variables.is_null()) fault("the variables must be an object");
  std::unordered_map<std::string_view, size_t> slots;
  for (size_t i = 0; i < program_.names.size(); ++i) slots.emplace(program_.names[i], i);
  for (const Function& f : global_table())
    if (const auto it = slots.find(f.name); it != slots.end())
      globals_[it->second] = function_value(f, std::nullopt, budget_);
  for (const auto& [key, value] : variables.items()) {
    const auto it = slots.find(key);
    if (it == slots.end()) continue;
    const auto& trusted = options_.trusted_variables;
    const bool trust = std::find(trusted.begin(), trusted.end(), key) != trusted.end();
    globals_[it->second] = from_json(value, trust);
  }
}

Value Evaluator::evaluate(const Expr& e, Frame& frame) {
  const Level level(*this);
  place_ = e.place;
  switch (e.kind) {
    case ExprKind::constant:
      return e.value;
    case ExprKind::name:
      return name_value(e, frame);
    case ExprKind::list:
      return Value::list(evaluate_all(e.children, frame), &budget_);
    case ExprKind::tuple:
      return Value::tuple(evaluate_all(e.children, frame), &budget_);
    case ExprKind::dict:
      return dict_expression(e, frame);
    case ExprKind::attribute: {
      const Value v = evaluate(*e.children[0], frame);
      place_ = e.place;
      return get_attribute(*this, v, e.text);
    }
    case ExprKind::item:
      return item_expression(e, frame);
    case ExprKind::slice:
      fault("a slice is only possible as a subscript");
    case ExprKind::call:
      return call_expression(e, frame);
    case ExprKind::filter:
      return filter_expression(e, frame, nullptr);
    case ExprKind::test:
      return test_expression(e, frame);
    case ExprKind::negate:
      return negate(evaluate(*e.children[0], frame));
    case ExprKind::plus: {
      const Value v = evaluate(*e.children[0], frame);
      if (v.is_undefined()) undefined_fault(v);
      if (!v.is_number()) fault("bad operand type for unary +: '{}'", v.type_name());
      return v.is_integral() ? Value(v.integer()) : v;
    }
    case ExprKind::logical_not:
      return !evaluate(*e.children[0], frame).truth();
    case ExprKind::logical_and:
    case ExprKind::logical_or: {
      Value v;
      for (const ExprPtr& child : e.children) {
        v = evaluate(*child, frame);
        if (v.truth() == (e.kind == ExprKind::logical_or)) break;
      }
      return v;
    }
    case ExprKind::arithmetic:
      return arithmetic(e, frame);
    case ExprKind::comparison:
      return comparison(e, frame);
    case ExprKind::concat:
      return concat(e, frame);
    case ExprKind::conditional:
      if (evaluate(*e.children[1], frame).truth()) return evaluate(*e.children[0], frame);
      if (e.children[2]) return evaluate(*e.children[2], frame);
      return Value::undefined(
          "the inline if-expression evaluated to false and no else section was defined.");
  }
  return {};
}

Value Evaluator::name_value(const Expr& e, const Frame& frame) const {
  for (const Frame* f = &frame; f != nullptr; f = f->parent)
    for (const auto& [slot, value] : f->names)
      if (slot == e.slot) return value;
  if (const auto& global = globals_[static_cast<size_t>(e.slot)]) return *global;
  return Value::undefined(fmt::format("'{}' is undefined", e.text));
}

Items Evaluator::evaluate_all(const std::vector<ExprPtr>& list, Frame& frame) {
  Items out;
  out.reserve(list.size());
  for (const ExprPtr& e : list) out.push_back(evaluate(*e, frame));
  return out;
}

Value Evaluator::dict_expression(const Expr& e, Frame& frame) {
  DictBuilder dict(&budget_);
  for (size_t i = 0; i + 1 < e.children.size(); i += 2) {
    Value key = evaluate(*e.children[i], frame);
    Value value = evaluate(*e.children[i + 1], frame);
    charge_hash(budget_, key);
    dict.set(std::move(key), std::move(value));
  }
  return dict.finish();
}

Value Evaluator::item_expression(const Expr& e, Frame& frame) {
  const Value v = evaluate(*e.children[0], frame);
  const Expr& index = *e.children[1];
  if (index.kind != ExprKind::slice) {
    const Value key = evaluate(index, frame);
    place_ = e.place;
    return get_item(*this, v, key);
  }
  Value parts[3];
  for (size_t i = 0; i < 3; ++i)
    if (index.children[i]) parts[i] = evaluate(*index.children[i], frame);
  place_ = e.place;
  return get_slice(*this, v, parts[0], parts[1], parts[2]);
}

Value Evaluator::arithmetic(const Expr& e, Frame& frame) {
  Value left = evaluate(*e.children[0], frame);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    const Value right = evaluate(*e.children[i + 1], frame);
    place_ = e.place;
    left = binary(*this, e.ops[i], left, right);
  }
  return left;
}

Value Evaluator::comparison(const Expr& e, Frame& frame) {
  Value left = evaluate(*e.children[0], frame);
  for (size_t i = 0; i < e.ops.size(); ++i) {
    Value right = evaluate(*e.children[i + 1], frame);
    place_ = e.place;
    if (!holds(*this, e.ops[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::concat(const Expr& e, Frame& frame) {
  TextBuilder out(budget_);
  for (const ExprPtr& child : e.children) write_str(out, evaluate(*child, frame));
  return out.finish();
}

CallArgs Evaluator::arguments(const Arguments* a, Frame& frame) {
  CallArgs out;
  if (a == nullptr) return out;
  out.positional = evaluate_all(a->positional, frame);
  for (const auto& [name, e] : a->named) out.named.emplace_back(name, evaluate(*e, frame));
  if (a->star)
    for (Value& v : collect(*this, evaluate(*a->star, frame)))
      out.positional.push_back(std::move(v));
  if (!a->star_star) return out;
  const Value more = evaluate(*a->star_star, frame);
  if (!more.is(Kind::dict))
    fault("the argument after ** must be a mapping, not {}", more.type_name());
  for (const auto& [key, value] : more.dict()->entries) {
    budget_.step();
    if (!key.is_string()) fault("keywords must be strings");
    for (const auto& [name, old] : out.named)
      if (name == key.text().bytes) fault("got multiple values for keyword argument '{}'", name);
    out.named.emplace_back(key.text().bytes, value);
    budget_.step(static_cast<int64_t>(out.named.size() / 16));
  }
  return out;
}

Value Evaluator::call_expression(const Expr& e, Frame& frame) {
  const Value callee = evaluate(*e.children[0], frame);
  CallArgs args = arguments(e.arguments.get(), frame);
  place_ = e.place;
  return call(callee, args);
}

Value Evaluator::call(const Value& callee, CallArgs& args) {
  if (callee.is_undefined()) undefined_fault(callee);
  if (!callee.is(Kind::object)) fault("'{}' object is not callable", callee.type_name());
  const std::shared_ptr<Object> keep = callee.object();
  return keep->call(*this, args);
}

Value Evaluator::filter_expression(const Expr& e, Frame& frame, const Value* subject) {
  // A filter block's innermost filter has no operand of its own: it takes the block's text.
  const Expr* child = e.children[0].get();
  const Value v = child == nullptr ? *subject
                  : subject != nullptr && child->kind == ExprKind::filter
                      ? filter_chain(*child, frame, *subject)
                      : evaluate(*child, frame);
  CallArgs args = arguments(e.arguments.get(), frame);
  place_ = e.place;
  return filter(e.text, v, args);
}

Value Evaluator::filter_chain(const Expr& e, Frame& frame, const Value& subject) {
  const Level level(*this);
  return filter_expression(e, frame, &subject);
}

Value Evaluator::filter(std::string_view name, const Value& subject, CallArgs& args) {
  const Function* f = find_filter(name);
  if (f == nullptr) fault("no filter named '{}'", name);
  return call_function(*this, *f, &subject, args);
}

Value Evaluator::test_expression(const Expr& e, Frame& frame) {
  const Value v = evaluate(*e.children[0], frame);
  CallArgs args = arguments(e.arguments.get(), frame);
  place_ = e.place;
  return test(e.text, v, args);
}

bool Evaluator::test(std::string_view name, const Value& subject, CallArgs& args) {
  const Function* f = find_test(name);
  if (f == nullptr) fault("no test named '{}'", name);
  return call_function(*this, *f, &subject, args).truth();
}

Value Evaluator::make_namespace(CallArgs& args) {
  auto ns = std::make_shared<Namespace>();
  budget_.allocate(128);
  namespaces_.push_back(ns);
  if (args.positional.size() > 1)
    fault("namespace expected at most 1 argument, got {}", args.positional.size());
  if (!args.positional.empty()) {
    const Value& first = args.positional[0];
    if (!first.is(Kind::dict)) fault("namespace expects a mapping, got {}", first.type_name());
    for (const auto& [key, value] : first.dict()->entries) {
      if (!key.is_string()) fault("the names of a namespace must be strings");
      budget_.step(1 + static_cast<int64_t>(ns->entries.size() / 16));
      ns->set(key.text().bytes, value);
    }
  }
  for (auto& [name, value] : args.named) ns->set(name, value);
  return std::shared_ptr<Object>(std::move(ns));
}

}  // namespace rlx::jinja
