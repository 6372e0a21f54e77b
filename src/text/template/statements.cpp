// Statements: blocks, loops, assignments, macros.
#include <algorithm>

#include "text/template/convert.h"
#include "text/template/evaluator.h"
#include "text/template/loop.h"
#include "text/template/operators.h"

namespace rlx::jinja {
namespace {

/// A macro, or the caller of a call block. The tree outlives the render, the scope is kept by the
/// Evaluator.
class Macro : public Object {
 public:
  Macro(const Signature& signature, const Block& body, Frame& parent)
      : signature_(signature), body_(body), parent_(parent) {}
  std::string type_name() const override { return "Macro"; }
  std::string repr() const override { return "<Macro '" + signature_.name + "'>"; }
  bool callable() const override { return true; }
  Value call(Evaluator& ev, CallArgs& args) override {
    return ev.run_macro(signature_, body_, parent_, args);
  }
  std::optional<Value> attribute(Evaluator& ev, std::string_view name) override {
    if (name == "name") return Value(make_text(signature_.name, &ev.budget()));
    if (name == "catch_kwargs") return Value(signature_.uses_kwargs);
    if (name == "catch_varargs") return Value(signature_.uses_varargs);
    if (name == "caller") return Value(signature_.uses_caller);
    if (name != "arguments") return std::nullopt;
    Items names;
    for (const auto& [parameter, slot] : signature_.parameters)
      names.push_back(Value(make_text(parameter, &ev.budget())));
    return Value::tuple(std::move(names), &ev.budget());
  }

 private:
  const Signature& signature_;
  const Block& body_;
  Frame& parent_;
};

/// The elements of a loop for which its condition holds.
class FilteredLoop : public Generator {
 public:
  FilteredLoop(Evaluator& ev, const Stmt& s, Frame& frame, std::shared_ptr<Generator> base)
      : Generator(base->depth() + 1), ev_(ev), s_(s), frame_(frame), base_(std::move(base)) {}

  std::optional<Value> next() override {
    while (auto v = base_->next()) {
      ev_.budget().step();
      Scope scope(ev_, frame_);
      ev_.assign(s_.targets[0], *v, scope.frame());
      if (ev_.evaluate(*s_.condition, scope.frame()).truth()) return v;
    }
    return std::nullopt;
  }

 private:
  Evaluator& ev_;
  const Stmt& s_;
  Frame& frame_;
  std::shared_ptr<Generator> base_;
};

}  // namespace

void Evaluator::capture(Frame& frame) {
  for (Frame* f = &frame; f != nullptr && !f->captured; f = f->parent) f->captured = true;
}

void Evaluator::set_name(Frame& frame, int slot, Value value) {
  for (auto& [name, old] : frame.names)
    if (name == slot) {
      old = std::move(value);
      return;
    }
  frame.names.emplace_back(slot, std::move(value));
}

void Evaluator::assign(const Target& target, const Value& value, Frame& frame) {
  if (target.is_tuple) {
    const Items items = collect(*this, value);
    if (items.size() != target.parts.size())
      fault("cannot unpack {} values into {} names", items.size(), target.parts.size());
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i], frame);
    return;
  }
  if (target.attribute.empty()) return set_name(frame, target.slot, value);
  Expr name;
  name.kind = ExprKind::name;
  name.slot = target.slot;
  name.text = program_.names[static_cast<size_t>(target.slot)];
  const Value holder = name_value(name, frame);
  auto* ns = holder.is(Kind::object) ? dynamic_cast<Namespace*>(holder.object().get()) : nullptr;
  if (ns == nullptr) fault("cannot assign attribute on non-namespace object");
  ns->set(target.attribute, value);
}

void Evaluator::check_output(const TextBuilder& out) const {
  if (out.size() > budget_.limits().output_bytes)
    limit_fault("the output is longer than {} bytes", budget_.limits().output_bytes);
}

Flow Evaluator::run_block(const Block& block, Frame& frame, TextBuilder& out) {
  for (const StmtPtr& s : block)
    if (const Flow flow = run_statement(*s, frame, out); flow != Flow::normal) return flow;
  return Flow::normal;
}

Value Evaluator::run_captured(const Block& body, Frame& frame) {
  TextBuilder out(budget_);
  run_block(body, frame, out);
  return out.finish();
}

Flow Evaluator::run_statement(const Stmt& s, Frame& frame, TextBuilder& out) {
  budget_.step();
  place_ = s.place;
  switch (s.kind) {
    case StmtKind::data:
      out.add(*s.text);
      check_output(out);
      break;
    case StmtKind::print:
      write_str(out, evaluate(*s.expr, frame));
      check_output(out);
      break;
    case StmtKind::conditional:
      return run_conditional(s, frame, out);
    case StmtKind::loop:
      return run_loop(s, evaluate(*s.expr, frame), frame, out, 0);
    case StmtKind::set:
      assign(s.targets[0], evaluate(*s.expr, frame), frame);
      break;
    case StmtKind::set_block: {
      Value v;
      {
        Scope scope(*this, frame);
        v = run_captured(s.body, scope.frame());
        if (s.expr) v = filter_expression(*s.expr, scope.frame(), &v);
      }
      assign(s.targets[0], v, frame);
      break;
    }
    case StmtKind::macro: {
      capture(frame);
      budget_.allocate(256);
      set_name(frame, s.targets[0].slot,
               std::shared_ptr<Object>(std::make_shared<Macro>(*s.signature, s.body, frame)));
      break;
    }
    case StmtKind::call_block:
      run_call_block(s, frame, out);
      break;
    case StmtKind::filter_block: {
      Scope scope(*this, frame);
      const Value v = run_captured(s.body, scope.frame());
      const Value filtered = filter_expression(*s.expr, scope.frame(), &v);
      if (!filtered.is_string())
        fault("a filter block must give a string, not '{}'", filtered.type_name());
      out.add(filtered.text());
      check_output(out);
      break;
    }
    case StmtKind::with:
      run_with(s, frame, out);
      break;
    case StmtKind::scope: {
      if (s.expr && evaluate(*s.expr, frame).truth()) fault("autoescape is not supported");
      Scope scope(*this, frame);
      return run_block(s.body, scope.frame(), out);
    }
    case StmtKind::loop_break:
      return Flow::loop_break;
    case StmtKind::loop_continue:
      return Flow::loop_continue;
    case StmtKind::unsupported:
      fault("'{}' is not possible: a chat template stands alone", s.text->bytes);
  }
  return Flow::normal;
}

Flow Evaluator::run_conditional(const Stmt& s, Frame& frame, TextBuilder& out) {
  const Level level(*this);
  for (const Branch& b : s.branches)
    if (evaluate(*b.condition, frame).truth()) return run_block(b.body, frame, out);
  return run_block(s.otherwise, frame, out);
}

Flow Evaluator::run_loop(const Stmt& s, const Value& over, Frame& frame, TextBuilder& out,
                         int depth) {
  const Level level(*this);
  std::shared_ptr<Generator> elements = iterate(*this, over);
  // What the loop object may need after the loop has ended.
  if (s.condition || s.recursive) capture(frame);
  if (s.condition) elements = std::make_shared<FilteredLoop>(*this, s, frame, std::move(elements));
  const auto loop = std::make_shared<Loop>(*this, s, frame, std::move(elements), depth);
  if (!s.condition) loop->know_length(length_of(over));
  struct Finish {
    Loop& loop;
    explicit Finish(Loop& l) : loop(l) {}
    ~Finish() { loop.finish(); }
  } const finish(*loop);
  // Jinja runs the else part when no turn reached its end, so also after a break in the first.
  bool completed = false;
  while (const auto value = loop->advance()) {
    budget_.step();
    Scope scope(*this, frame);
    set_name(scope.frame(), program_.slot_loop, std::shared_ptr<Object>(loop));
    assign(s.targets[0], *value, scope.frame());
    const Flow flow = run_block(s.body, scope.frame(), out);
    if (flow == Flow::normal) completed = true;
    if (flow == Flow::loop_break) break;
  }
  if (!completed) {
    Scope scope(*this, frame);
    return run_block(s.otherwise, scope.frame(), out);
  }
  return Flow::normal;
}

void Evaluator::run_with(const Stmt& s, Frame& frame, TextBuilder& out) {
  const Level level(*this);
  const Items values = evaluate_all(s.values, frame);
  Scope scope(*this, frame);
  for (size_t i = 0; i < values.size(); ++i) assign(s.targets[i], values[i], scope.frame());
  run_block(s.body, scope.frame(), out);
}

void Evaluator::run_call_block(const Stmt& s, Frame& frame, TextBuilder& out) {
  const Level level(*this);
  const Value callee = evaluate(*s.expr->children[0], frame);
  CallArgs args = arguments(s.expr->arguments.get(), frame);
  capture(frame);
  budget_.allocate(256);
  args.named.emplace_back(
      "caller", std::shared_ptr<Object>(std::make_shared<Macro>(*s.signature, s.body, frame)));
  place_ = s.place;
  write_str(out, call(callee, args));
  check_output(out);
}

Value Evaluator::run_macro(const Signature& signature, const Block& body, Frame& parent,
                           CallArgs& args) {
  const Level level(*this);
  if (macro_depth_ >= budget_.limits().depth)
    limit_fault("macros call each other deeper than {} levels", budget_.limits().depth);
  struct Depth {
    int& n;
    explicit Depth(int& d) : n(d) { ++n; }
    ~Depth() { --n; }
  } const depth(macro_depth_);

  Scope scope(*this, parent);
  Frame& frame = scope.frame();
  const size_t count = signature.parameters.size();
  const size_t given = std::min(args.positional.size(), count);
  if (args.positional.size() > count && !signature.uses_varargs)
    fault("macro '{}' takes not more than {} argument(s)", signature.name, count);
  std::vector<bool> named(args.named.size(), false);
  const auto take = [&](std::string_view name) -> const Value* {
    for (size_t i = 0; i < args.named.size(); ++i)
      if (args.named[i].first == name) return named[i] = true, &args.named[i].second;
    return nullptr;
  };
  for (size_t i = 0; i < count; ++i) {
    const auto& [name, slot] = signature.parameters[i];
    const size_t required = count - signature.defaults.size();
    if (i < given)
      set_name(frame, slot, args.positional[i]);
    else if (const Value* v = take(name))
      set_name(frame, slot, *v);
    else if (i >= required)
      set_name(frame, slot, evaluate(*signature.defaults[i - required], frame));
    else
      set_name(frame, slot, Value::undefined(fmt::format("parameter '{}' was not provided", name)));
  }
  if (signature.uses_caller) {
    const Value* caller = take("caller");
    set_name(frame, program_.slot_caller,
             caller != nullptr ? *caller : Value::undefined("No caller defined"));
  }
  DictBuilder rest(&budget_);
  for (size_t i = 0; i < args.named.size(); ++i) {
    if (named[i]) continue;
    if (!signature.uses_kwargs)
      fault("macro '{}' takes no keyword argument '{}'", signature.name, args.named[i].first);
    rest.set(Value(make_text(args.named[i].first, &budget_)), args.named[i].second);
  }
  if (signature.uses_kwargs) set_name(frame, program_.slot_kwargs, rest.finish());
  if (signature.uses_varargs)
    set_name(frame, program_.slot_varargs,
             Value::tuple(Items(args.positional.begin() + static_cast<std::ptrdiff_t>(given),
                                args.positional.end()),
                          &budget_));
  return run_captured(body, frame);
}

}  // namespace rlx::jinja
