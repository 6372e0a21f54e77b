// Runs a syntax tree. One Evaluator is one render.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/ast.h"
#include "text/template/functions.h"

namespace rlx::jinja {

/// The names of one scope. Scopes that a macro refers to are kept until the render ends.
struct Frame {
  Frame* parent = nullptr;
  std::vector<std::pair<int, Value>> names;
  bool captured = false;
};

/// What namespace() gives: the only thing that a template can change.
class Namespace : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(Evaluator&, std::string_view name) override;
  void set(const std::string& name, Value value);
  std::vector<std::pair<std::string, Value>> entries;
};

enum class Flow { normal, loop_break, loop_continue };

class Evaluator {
 public:
  Evaluator(const Program& program, const RenderOptions& options);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Throws TemplateError with the place in the template.
  RenderResult run(const Json& variables);

  Budget& budget() { return budget_; }
  const RenderOptions& options() const { return options_; }

  Value evaluate(const Expr& e, Frame& frame);
  Value call(const Value& callee, CallArgs& args);
  Value filter(std::string_view name, const Value& subject, CallArgs& args);
  bool test(std::string_view name, const Value& subject, CallArgs& args);
  /// Runs a body into `out`.
  Flow run_block(const Block& block, Frame& frame, TextBuilder& out);
  void assign(const Target& target, const Value& value, Frame& frame);
  Value make_namespace(CallArgs& args);
  Value run_macro(const Signature& signature, const Block& body, Frame& parent, CallArgs& args);
  Flow run_loop(const Stmt& s, const Value& over, Frame& frame, TextBuilder& out, int depth);
  /// Keeps a scope and those around it alive to the end.
  static void capture(Frame& frame);

 private:
  friend class Scope;

  Value name_value(const Expr& e, const Frame& frame) const;
  Value call_expression(const Expr& e, Frame& frame);
  Value filter_expression(const Expr& e, Frame& frame, const Value* subject);
  Value test_expression(const Expr& e, Frame& frame);
  Value comparison(const Expr& e, Frame& frame);
  Value arithmetic(const Expr& e, Frame& frame);
  Value concat(const Expr& e, Frame& frame);
  Value item_expression(const Expr& e, Frame& frame);
  Value dict_expression(const Expr& e, Frame& frame);
  Items evaluate_all(const std::vector<ExprPtr>& list, Frame& frame);
  CallArgs arguments(const Arguments* a, Frame& frame);
  Value filter_chain(const Expr& e, Frame& frame, const Value& subject);

  Flow run_statement(const Stmt& s, Frame& frame, TextBuilder& out);
  Flow run_conditional(const Stmt& s, Frame& frame, TextBuilder& out);
  void run_call_block(const Stmt& s, Frame& frame, TextBuilder& out);
  void run_with(const Stmt& s, Frame& frame, TextBuilder& out);
  Value run_captured(const Block& body, Frame& frame);
  void set_name(Frame& frame, int slot, Value value);
  void load_variables(const Json& variables);
  void check_output(const TextBuilder& out) const;

  class Level;
  const Program& program_;
  const RenderOptions& options_;
  Budget budget_;
  Frame root_;                                 // what the template itself sets
  std::vector<std::optional<Value>> globals_;  // by slot: variables and functions
  std::vector<std::unique_ptr<Frame>> kept_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  Place place_;
  int level_ = 0;
  int macro_depth_ = 0;
};

/// Counts nested evaluations of any kind, which bounds the stack (about 1 KiB each).
class Evaluator::Level {
 public:
  explicit Level(Evaluator& ev) : ev_(ev) {
    constexpr int kMaxLevel = 1200;
    if (ev.level_ >= kMaxLevel)
      limit_fault("the template is nested deeper than {} evaluations", kMaxLevel);
    ++ev.level_;
    ev.budget_.step();
  }
  ~Level() { --ev_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Evaluator& ev_;
};

/// A scope for the time of a block.
class Scope {
 public:
  Scope(Evaluator& ev, Frame& parent);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  Frame& frame() { return *frame_; }

 private:
  Evaluator& ev_;
  std::unique_ptr<Frame> frame_;
};

}  // namespace rlx::jinja
