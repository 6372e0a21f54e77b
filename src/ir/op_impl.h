// Makes the erased OpDef of an op struct. Included by ops/all.cpp, and by users who bring ops of
// their own: `rlx::register_op<MyOp>()`.
#pragma once

#include <charconv>
#include <string>

#include "ir/control_args.h"
#include "ir/graph.h"
#include "ir/sample.h"

namespace rlx::detail {

std::string print_value(bool v);
std::string print_value(float v);  // shortest text that reads back equal
std::string print_value(double v);
std::string print_value(std::int64_t v);
std::string print_value(DType v);
std::string print_value(Layout v);
std::string print_value(Dim v);
std::string print_value(GraphRef v);
bool parse_value(std::string_view text, bool& v);
bool parse_value(std::string_view text, float& v);
bool parse_value(std::string_view text, double& v);
bool parse_value(std::string_view text, std::int64_t& v);
bool parse_value(std::string_view text, DType& v);
bool parse_value(std::string_view text, Layout& v);
bool parse_value(std::string_view text, Dim& v);
bool parse_value(std::string_view text, GraphRef& v);
inline std::string print_value(std::int32_t v) { return print_value(std::int64_t{v}); }
inline bool parse_value(std::string_view text, std::int32_t& v) {
  std::int64_t wide = 0;
  if (!parse_value(text, wide) || wide < INT32_MIN || wide > INT32_MAX) return false;
  v = static_cast<std::int32_t>(wide);
  return true;
}
template <NamedEnum E>
std::string print_value(E v) {
  return std::string(enum_names(v)[static_cast<std::size_t>(v)]);
}
template <NamedEnum E>
bool parse_value(std::string_view text, E& v) {
  const auto names = enum_names(v);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) {
      v = static_cast<E>(i);
      return true;
    }
  return false;
}

/// What a value of the type looks like in text, for messages.
template <typename T>
std::string described() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  else if constexpr (std::is_integral_v<T>) return "an integer";
  else if constexpr (std::is_floating_point_v<T>) return "a number";
  else if constexpr (std::is_same_v<T, DType>) return "a dtype";
  else if constexpr (std::is_same_v<T, Dim>) return "a size";
  else if constexpr (NamedEnum<T>) {
    std::string list = "one of ";
    for (const std::string_view n : enum_names(T{})) list += (list.size() > 7 ? ", " : "") + std::string(n);
    return list;
  } else {
    return "a value of another form";
  }
}

template <typename Op>
std::vector<std::string> attribute_names() {
  std::vector<std::string> names;
  std::apply([&](const auto&... f) { (names.emplace_back(f.name), ...); }, Op::fields());
  return names;
}

template <typename Op>
std::string expected_value(std::string_view attribute) {
  std::string text;
  std::apply(
      [&](const auto&... f) {
        ((f.name == attribute ? void(text = described<std::remove_cvref_t<decltype(std::declval<Op>().*f.member)>>())
                              : void()),
         ...);
      },
      Op::fields());
  return text;
}

template <typename Op>
std::string print_attrs(const AttrBlob& blob) {
  const Op op = from_blob<Op>(blob), defaults{};
  std::string text;
  std::apply(
      [&](const auto&... f) {
        ((op.*f.member == defaults.*f.member
              ? void()
              : void(text += " " + std::string(f.name) + "=" + print_value(op.*f.member))),
         ...);
      },
      Op::fields());
  return text;
}

template <typename Op>
bool set_attr(AttrBlob& blob, std::string_view key, std::string_view value) {
  Op op = from_blob<Op>(blob);
  bool found = false;
  std::apply(
      [&](const auto&... f) {
        ((f.name == key ? void(found = parse_value(value, op.*f.member)) : void()), ...);
      },
      Op::fields());
  if (found) blob = to_blob(op);
  return found;
}

template <typename T>
void bind_field(T&, const DimBinding&) {}
inline void bind_field(Dim& d, const DimBinding& binding) { d = d.bind(binding); }
template <typename T>
void collect_field(const T&, std::vector<Symbol>&) {}
inline void collect_field(const Dim& d, std::vector<Symbol>& out) { d.collect(out); }

template <typename T>
void visit_field(T&, const std::function<void(GraphRef&)>&) {}
inline void visit_field(GraphRef& g, const std::function<void(GraphRef&)>& f) {
  if (g) f(g);
}
template <typename Op>
constexpr bool has_graphs() {
  return std::apply(
      [](const auto&... f) {
        return (std::is_same_v<std::remove_cvref_t<decltype(std::declval<Op>().*f.member)>, GraphRef> || ...);
      },
      Op::fields());
}

template <typename Op>
concept HasInfer = requires(const Op& op, InferContext& c) {
  op.infer(c);
};
template <typename Op>
concept HasReference = requires(const Op& op, const KernelArgs& a) {
  op.reference(a);
};
template <typename Op>
concept HasBody = requires(const Op& op, Body& b) {
  op.decompose(b);
};
template <typename Op>
concept HasControl = requires(const Op& op, const ControlArgs& a) {
  op.control(a);
};

template <typename Op>
concept HasGrad = requires(const Op& op, GradContext& c) {
  op.grad(c);
};

template <typename Op>
constexpr OpDef make_op_def() {
  static_assert(std::is_trivially_copyable_v<Op> && sizeof(Op) <= kAttrBytes);
  static_assert(has(Op::traits, Trait::source) || HasInfer<Op>, "an op needs infer()");
  static_assert(has(Op::traits, Trait::source) ||
                    int{HasReference<Op>} + int{HasBody<Op>} + int{HasControl<Op>} == 1,
                "an op needs one of reference(), decompose() and control()");
  OpDef d{};
  d.name = Op::name;
  d.id = op_id(Op::name);
  d.traits = Op::traits;
  if constexpr (requires { Op::operands; }) d.operands = Op::operands;
  if constexpr (requires { Op::optional_operands; }) d.optional_operands = Op::optional_operands;
  if constexpr (requires { Op::in_place; }) d.in_place = Op::in_place;
  d.print = print_attrs<Op>;
  d.set = set_attr<Op>;
  d.attributes = attribute_names<Op>;
  d.expects = expected_value<Op>;
  d.equal = [](const AttrBlob& a, const AttrBlob& b) {
    return from_blob<Op>(a) == from_blob<Op>(b);
  };
  d.defaults = [] { return to_blob(Op{}); };
  d.bind_dims = [](AttrBlob& blob, const DimBinding& binding) {
    Op op = from_blob<Op>(blob);
    std::apply([&](const auto&... f) { (bind_field(op.*f.member, binding), ...); }, Op::fields());
    blob = to_blob(op);
  };
  d.collect_dims = [](const AttrBlob& blob, std::vector<Symbol>& out) {
    const Op op = from_blob<Op>(blob);
    std::apply([&](const auto&... f) { (collect_field(op.*f.member, out), ...); }, Op::fields());
  };
  if constexpr (HasInfer<Op>)
    d.infer = [](const AttrBlob& a, InferContext& c) { from_blob<Op>(a).infer(c); };
  if constexpr (HasReference<Op>)
    d.reference = [](const AttrBlob& a, const KernelArgs& k) { from_blob<Op>(a).reference(k); };
  if constexpr (HasBody<Op>)
    d.decompose = [](const AttrBlob& a, Body& b) { from_blob<Op>(a).decompose(b); };
  if constexpr (HasControl<Op>)
    d.control = [](const AttrBlob& a, const ControlArgs& c) { return from_blob<Op>(a).control(c); };
  if constexpr (has_graphs<Op>())
    d.visit_graphs = [](AttrBlob& blob, const std::function<void(GraphRef&)>& visit) {
      Op op = from_blob<Op>(blob);
      std::apply([&](const auto&... f) { (visit_field(op.*f.member, visit), ...); }, Op::fields());
      blob = to_blob(op);
    };
  if constexpr (HasGrad<Op>)
    d.grad = [](const AttrBlob& a, GradContext& c) { from_blob<Op>(a).grad(c); };
  if constexpr (requires { Op::samples(); })
    d.samples = [] { return Op::samples(); };
  else
    d.samples = [] { return std::vector<Sample>{}; };
  return d;
}

}  // namespace rlx::detail

namespace rlx {

/// Makes an op of the user known to builder, parser, verifier, interpreter and compiler: the same
/// kind of thing as a built-in one. Call it once, before the first use. Errors: as register_op().
template <typename Op>
const OpDef& register_op() {
  return register_op(detail::make_op_def<Op>());
}

}  // namespace rlx
