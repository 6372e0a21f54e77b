// What an op is: a struct whose fields are its attributes and whose statics are its meaning
// (architecture.md, section 2).
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "ir/kernel_args.h"
#include "tensor/shape.h"

namespace rlx {

class Body;          // ir/graph.h: a builder over the operands of a composite op
struct ControlArgs;  // ir/control_args.h
class GradContext;   // ops/grad_context.h: what an op's grad() sees
class Tensor;
class InferContext;  // ir/infer.h
struct Sample;       // ir/sample.h

/// Properties that passes match instead of lists of names.
enum class Trait : std::uint32_t {
  none = 0,
  elementwise = 1,  ///< result i depends on element i of the operands (after broadcast)
  reduction = 2,
  view = 4,        ///< the result is another reading of the operand's bytes; no work at run time
  state = 8,       ///< reads or updates a state operand
  composite = 16,  ///< a block of HIR: must be expanded before MIR
  commutative = 32,
  source = 64,  ///< input, param, state: no operands
  compute =
      128,  ///< matrix product, attention, recurrence, convolution (phases, compiler.md, section 5)
  sampling = 256,
  row_wise = 512,  ///< row r of the result depends only on row r of the first operand (others may
                   ///< be params)
};
constexpr Trait operator|(Trait a, Trait b) {
  return static_cast<Trait>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool has(Trait set, Trait t) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(t)) != 0;
}

/// FNV-1a of an op's name: the identity that as<T>() compares.
constexpr std::uint64_t op_id(std::string_view name) {
  std::uint64_t h = 1469598103934665603ull;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

/// A named attribute: `field("eps", &RmsNorm::eps)`. An op lists its attributes in `fields()`. The ops of RLX take
/// `auto...`, and nothing, there: as a template the list is instantiated where it is used, not wherever its header is.
template <typename Op, typename T>
struct Field {
  using Type = T;
  std::string_view name;
  T Op::*member;
};
template <typename Op, typename T>
constexpr Field<Op, T> field(std::string_view name, T Op::*member) {
  return {name, member};
}

/// Attributes that are large live in side tables of the node's graph; the attribute is the place there.
/// A sub-graph prints as "@0" (ir/print.h), a constant as its values.
struct GraphRef {
  std::int32_t index = -1;
  friend bool operator==(GraphRef, GraphRef) = default;
  explicit operator bool() const { return index >= 0; }
};
struct ConstantRef {
  std::int32_t index = -1;
  friend bool operator==(ConstantRef, ConstantRef) = default;
};

/// Attributes are held by value in a blob of this size.
inline constexpr std::size_t kAttrBytes = 64;
using AttrBlob = std::array<std::byte, kAttrBytes>;

/// An enumeration used as an attribute gives the names of its values in order: `enum_names(E)`
/// found by ADL.
template <typename E>
concept NamedEnum = std::is_enum_v<E> && requires(E e) {
  { enum_names(e) } -> std::convertible_to<std::span<const std::string_view>>;
};

/// What attributes of one type share. Values lie in blobs, at any address.
struct AttrType {
  std::string (*print)(const std::byte* value);
  bool (*parse)(std::string_view text, std::byte* value);  ///< false: another form; the value stays
  bool (*equal)(const std::byte* a, const std::byte* b);
  std::string (*described)();  ///< "an integer", "one of silu, gelu"
  void (*bind_dims)(std::byte* value, const DimBinding&) = nullptr;  ///< nullptr: holds no sizes
  void (*collect_dims)(const std::byte* value, std::vector<Symbol>&) = nullptr;
  bool is_graph = false;
};
struct AttrField {
  std::string_view name;
  std::size_t offset;  ///< in the blob
  const AttrType* type;
};

/// The erased record of an op that printer, parser, verifier, hasher, interpreter and conformance
/// test walk. A constant.
struct OpDef {
  std::string_view name;
  std::uint64_t id;
  Trait traits;
  std::span<const std::string_view> operands;  ///< names, for messages; empty when the count varies
  int optional_operands = 0;                   ///< how many of the last operands may be absent
  /// The operand of the same shape whose buffer result 0 may take over at its last use, -1: none. nullptr: never.
  int (*in_place)(const AttrBlob&);
  std::span<const AttrField> (*fields)();  ///< attributes, in order
  bool (*equal)(const AttrBlob&, const AttrBlob&);
  AttrBlob (*defaults)();
  void (*infer)(const AttrBlob&, InferContext&);
  void (*reference)(const AttrBlob&, const KernelArgs&);  ///< nullptr for ops of the other two kinds
  void (*decompose)(const AttrBlob&, Body&);              ///< of ops with a body
  /// Of ops that run sub-graphs: the meaning, in terms of runs of those.
  std::vector<Tensor> (*control)(const AttrBlob&, const ControlArgs&);
  std::vector<Sample> (*samples)();
  void (*grad)(const AttrBlob&, GradContext&);  ///< nullptr: none, or that of the body

  bool has_dims = false, has_graphs = false;  ///< whether any attribute holds sizes; is a sub-graph

  bool has(Trait t) const { return rlx::has(traits, t); }
  /// " eps=1e-06 groups=4": default values are left out.
  std::string print(const AttrBlob& attrs) const;
  /// False: unknown key or bad value.
  bool set(AttrBlob& attrs, std::string_view key, std::string_view value) const;
  std::vector<std::string> attributes() const;  ///< their names, in order
  /// "an integer", "one of silu, gelu"; "" for an unknown one.
  std::string expects(std::string_view attribute) const;
  /// Evaluates sizes in attributes.
  void bind_dims(AttrBlob& attrs, const DimBinding& binding) const;
  /// Appends their symbols.
  void collect_dims(const AttrBlob& attrs, std::vector<Symbol>& out) const;
  /// Calls the function with each sub-graph attribute that is set, to read or to change it.
  void visit_graphs(AttrBlob& attrs, const std::function<void(GraphRef&)>& visit) const;
};

/// The list of a family: `using NormOps = OpList<RmsNorm, LayerNorm>;`
template <typename... Ops>
struct OpList {};

/// All built-in ops, sorted by id (ops/all.cpp).
std::span<const OpDef> all_ops();
/// Ops of the user (register_op<Op>() of ir/op_impl.h), in the order of their registration.
std::vector<const OpDef*> user_ops();
/// Adds the record of a user's op for the rest of the process; may be called from any thread. Errors
/// (invalid_argument): a name that is taken, or that is no [a-z_][a-z0-9_]*.
const OpDef& register_op(const OpDef& def);
/// The record of a name, built in or of the user; nullptr when there is none.
const OpDef* find_op(std::string_view name);
const OpDef* find_op(std::uint64_t id);

/// The record of a type; Error(invalid_argument) when the op is neither built in nor registered.
const OpDef& op_def_by_id(std::uint64_t id, std::string_view name);
template <typename Op>
const OpDef& op_def() {
  static const OpDef& def = op_def_by_id(op_id(Op::name), Op::name);
  return def;
}

template <typename Op>
AttrBlob to_blob(const Op& op) {
  static_assert(std::is_trivially_copyable_v<Op> && sizeof(Op) <= kAttrBytes,
                "attributes: trivially copyable, 64 bytes");
  AttrBlob blob{};
  __builtin_memcpy(blob.data(), &op, sizeof(Op));
  return blob;
}
template <typename Op>
Op from_blob(const AttrBlob& blob) {
  Op op;
  __builtin_memcpy(&op, blob.data(), sizeof(Op));
  return op;
}

}  // namespace rlx
