// The syntax tree of a template. Trees are immutable once parsed; their height is bounded by the
// parser.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/template/lexer.h"
#include "text/template/value.h"

namespace rlx::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind {
  constant,   // value
  name,       // slot, text
  list,       // children
  tuple,      // children
  dict,       // children: key, value, key, value, ...
  attribute,  // children[0] . text
  item,       // children[0] [ children[1] ]
  slice,      // children: start, stop, step; absent ones are null (only below item)
  call,       // children[0] ( arguments )
  filter,     // children[0] | text ( arguments ); children[0] is null in a filter block
  test,       // children[0] is text ( arguments )
  negate,     // - children[0]
  plus,       // + children[0]
  logical_not,
  logical_and,  // children, left to right
  logical_or,
  arithmetic,   // children[0] ops[0] children[1] ops[1] ...; equal precedence, left to right
  comparison,   // the same, chained as in Python
  concat,       // children joined with ~
  conditional,  // children: value, condition, otherwise (may be null)
};

enum class Op { add, sub, mul, div, floor_div, mod, pow, eq, ne, lt, le, gt, ge, in, not_in };

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       // *args
  ExprPtr star_star;  // **kwargs
};

struct Expr {
  ExprKind kind;
  Place place;
  int height = 1;
  int slot = -1;
  std::string text;
  Value value;
  std::vector<ExprPtr> children;
  std::vector<Op> ops;
  std::unique_ptr<Arguments> arguments;
};

/// Where a value goes: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  Place place;
  int slot = -1;
  std::string attribute;  // of the namespace in `slot`
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;

enum class StmtKind {
  data,          // text
  print,         // expr
  conditional,   // branches; `otherwise`
  loop,          // target in expr if condition: body; `otherwise`; recursive
  set,           // target = expr
  set_block,     // target = body | expr (a filter chain, may be null)
  macro,         // signature, body
  call_block,    // expr is the call; signature and body are the caller
  filter_block,  // expr is the filter chain; body
  with,          // targets = values: body
  scope,         // body in a scope of its own (block, generation, autoescape)
  loop_break,
  loop_continue,
  unsupported,  // text: include, extends, import, from
};

/// Parameters of a macro or a call block.
struct Signature {
  std::string name;
  std::vector<std::pair<std::string, int>> parameters;  // name, slot
  std::vector<ExprPtr> defaults;                        // of the last parameters
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Branch {
  ExprPtr condition;
  Block body;
};

struct Stmt {
  StmtKind kind;
  Place place;
  TextPtr text;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<Target> targets;
  std::vector<ExprPtr> values;
  std::vector<Branch> branches;
  Block body;
  Block otherwise;
  std::unique_ptr<Signature> signature;
  bool recursive = false;
};

/// A parsed template. Names are numbered; `slots` gives the number of names.
struct Program {
  std::string name;
  std::vector<std::string> names;
  Block body;
  int slot_loop = -1, slot_caller = -1, slot_varargs = -1, slot_kwargs = -1;
};

/// Throws TemplateError (syntax).
std::shared_ptr<const Program> parse_program(std::string_view source, std::string name);

}  // namespace rlx::jinja
