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

inline void bind_field(Dim& d, const DimBinding& binding) { d = d.bind(binding); }
inline void collect_field(const Dim& d, std::vector<Symbol>& out) { d.collect(out); }
template <typename T>
concept HoldsDims = requires(T& value, const DimBinding& binding) { bind_field(value, binding); };

template <typename T>
T load_value(const std::byte* at) {
  T value{};
  __builtin_memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T>
void store_value(std::byte* at, const T& value) {
  __builtin_memcpy(at, &value, sizeof(T));
}

template <typename T>
constexpr AttrType make_attr_type() {
  AttrType t{};
  t.print = [](const std::byte* at) { return print_value(load_value<T>(at)); };
  t.parse = [](std::string_view text, std::byte* at) {
    T value{};
    if (!parse_value(text, value)) return false;
    store_value(at, value);
    return true;
  };
  t.equal = [](const std::byte* a, const std::byte* b) { return load_value<T>(a) == load_value<T>(b); };
  t.described = described<T>;
  if constexpr (HoldsDims<T>) {
    t.bind_dims = [](std::byte* at, const DimBinding& binding) {
      T value = load_value<T>(at);
      bind_field(value, binding);
      store_value(at, value);
    };
    t.collect_dims = [](const std::byte* at, std::vector<Symbol>& out) { collect_field(load_value<T>(at), out); };
  }
  t.is_graph = std::is_same_v<T, GraphRef>;
  return t;
}
/// One for each type of attribute: ops share what their attributes do, so that an op costs a table and no code.
template <typename T>
inline constexpr AttrType kAttrType = make_attr_type<T>();

template <typename Op, typename T>
AttrField attr_field(const Field<Op, T>& f) {
  const Op op{};
  const auto offset = reinterpret_cast<const std::byte*>(&(op.*f.member)) - reinterpret_cast<const std::byte*>(&op);
  return {f.name, static_cast<std::size_t>(offset), &kAttrType<T>};
}
template <typename Op>
std::span<const AttrField> attr_fields() {
  static const auto table = std::apply(
      [](const auto&... f) { return std::array<AttrField, sizeof...(f)>{attr_field(f)...}; }, Op::fields());
  return table;
}

template <typename... F>
constexpr bool any_dims(const std::tuple<F...>*) {
  return (HoldsDims<typename F::Type> || ...);
}
template <typename... F>
constexpr bool any_graphs(const std::tuple<F...>*) {
  return (std::is_same_v<typename F::Type, GraphRef> || ...);
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
  static_assert(std::is_trivially_copyable_v<Op> && sizeof(Op) <= kAttrBytes,
                "attributes are trivially copyable and take at most 64 bytes");
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
  if constexpr (requires(const Op& op) { op.in_place(); })
    d.in_place = [](const AttrBlob& a) { return from_blob<Op>(a).in_place(); };
  else if constexpr (requires { int{Op::in_place}; })
    d.in_place = [](const AttrBlob&) { return Op::in_place; };
  using Fields = std::remove_cvref_t<decltype(Op::fields())>;
  d.fields = attr_fields<Op>;
  d.has_dims = any_dims(static_cast<const Fields*>(nullptr));
  d.has_graphs = any_graphs(static_cast<const Fields*>(nullptr));
  d.equal = [](const AttrBlob& a, const AttrBlob& b) {
    return from_blob<Op>(a) == from_blob<Op>(b);
  };
  d.defaults = [] { return to_blob(Op{}); };
  if constexpr (HasInfer<Op>)
    d.infer = [](const AttrBlob& a, InferContext& c) { from_blob<Op>(a).infer(c); };
  if constexpr (HasReference<Op>)
    d.reference = [](const AttrBlob& a, const KernelArgs& k) { from_blob<Op>(a).reference(k); };
  if constexpr (HasBody<Op>)
    d.decompose = [](const AttrBlob& a, Body& b) { from_blob<Op>(a).decompose(b); };
  if constexpr (HasControl<Op>)
    d.control = [](const AttrBlob& a, const ControlArgs& c) { return from_blob<Op>(a).control(c); };
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
