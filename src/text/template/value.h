// Values of the interpreter. All but the objects at the end are immutable, as in the reference's
// immutable sandbox.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/template/text.h"

namespace rlx::jinja {

/// 128 bits hold every integer of a JSON document; more is an error (Python would go on).
using Int = __int128;

class Value;
class Evaluator;
struct CallArgs;

enum class Kind {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  dict,
  range,
  view,
  generator,
  object
};

/// What printing or using an undefined value says.
struct Undefined {
  std::string message;
};

struct None {};

using Items = std::vector<Value>;

/// Depth and size of what a container holds, counted with repetition (a value held twice counts
/// twice), so that the cost of walking it is known beforehand.
struct Extent {
  int depth = 0;
  int64_t nodes = 1;
  void add(const Value& child);
};

struct Sequence {
  Items items;
  Extent extent;
  MemoryCharge charge;
};

struct Dict;

struct Range {
  Int start = 0, stop = 0, step = 1;
  int64_t size = 0;
};

/// Result of keys(), values() or items().
struct DictView {
  enum class Part { keys, values, items };
  std::shared_ptr<const Dict> dict;
  Part part;
};

class Generator;
class Object;

class Value {
 public:
  using Tuple = std::pair<std::shared_ptr<const Sequence>, char>;

  Value() : data_(None{}) {}
  static Value none() { return {}; }
  static Value undefined(std::string message);
  Value(bool v) : data_(v) {}
  Value(Int v) : data_(v) {}
  Value(int v) : data_(Int{v}) {}
  Value(int64_t v) : data_(Int{v}) {}
  Value(size_t v) : data_(static_cast<Int>(v)) {}
  Value(double v) : data_(v) {}
  Value(TextPtr v) : data_(std::move(v)) {}
  Value(std::shared_ptr<const Dict> v) : data_(std::move(v)) {}
  Value(std::shared_ptr<const Range> v) : data_(std::move(v)) {}
  Value(std::shared_ptr<const DictView> v) : data_(std::move(v)) {}
  Value(std::shared_ptr<Generator> v) : data_(std::move(v)) {}
  Value(std::shared_ptr<Object> v) : data_(std::move(v)) {}
  template <typename T>
  Value(const T*) = delete;

  static Value list(Items items, Budget* budget);
  static Value tuple(Items items, Budget* budget);
  /// A pair (grouper, list) whose parts have these names too.
  static Value group(Items items, Budget* budget);
  bool is_group() const { return is(Kind::tuple) && std::get<Tuple>(data_).second != 0; }

  Kind kind() const { return static_cast<Kind>(kKinds[data_.index()]); }
  bool is(Kind k) const { return kind() == k; }
  bool is_undefined() const { return is(Kind::undefined); }
  bool is_none() const { return is(Kind::none); }
  bool is_string() const { return is(Kind::string); }
  /// Integer or bool, as Python counts bool among the integers.
  bool is_integral() const { return is(Kind::integer) || is(Kind::boolean); }
  bool is_number() const { return is_integral() || is(Kind::real); }
  bool is_sequence() const { return is(Kind::list) || is(Kind::tuple); }

  const std::string& undefined_message() const { return std::get<0>(data_)->message; }
  bool boolean() const { return std::get<bool>(data_); }
  Int integer() const { return is(Kind::boolean) ? Int{boolean()} : std::get<Int>(data_); }
  double real() const {
    return is(Kind::real) ? std::get<double>(data_) : static_cast<double>(integer());
  }
  const Text& text() const { return *std::get<TextPtr>(data_); }
  const TextPtr& text_ptr() const { return std::get<TextPtr>(data_); }
  const Items& items() const { return sequence()->items; }
  const std::shared_ptr<const Sequence>& sequence() const {
    return is(Kind::tuple) ? std::get<Tuple>(data_).first
                           : std::get<std::shared_ptr<const Sequence>>(data_);
  }
  const std::shared_ptr<const Dict>& dict() const {
    return std::get<std::shared_ptr<const Dict>>(data_);
  }
  const Range& range() const { return *std::get<std::shared_ptr<const Range>>(data_); }
  const DictView& view() const { return *std::get<std::shared_ptr<const DictView>>(data_); }
  const std::shared_ptr<Generator>& generator() const {
    return std::get<std::shared_ptr<Generator>>(data_);
  }
  const std::shared_ptr<Object>& object() const { return std::get<std::shared_ptr<Object>>(data_); }

  /// Python's name of the type, e.g. "str".
  std::string type_name() const;
  /// How deep values are nested, 0 for plain values.
  int depth() const { return extent().depth; }
  Extent extent() const;
  bool truth() const;

 private:
  using Data = std::variant<std::shared_ptr<const Undefined>, None, bool, Int, double, TextPtr,
                            std::shared_ptr<const Sequence>, Tuple, std::shared_ptr<const Dict>,
                            std::shared_ptr<const Range>, std::shared_ptr<const DictView>,
                            std::shared_ptr<Generator>, std::shared_ptr<Object>>;
  static constexpr char kKinds[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  Data data_;
};

/// Elements made one by one, once (what Python's generators and filters such as map give).
class Generator {
 public:
  explicit Generator(int depth) : depth_(depth) {}
  virtual ~Generator() = default;
  virtual std::optional<Value> next() = 0;
  int depth() const { return depth_; }

 private:
  int depth_;
};

/// Macros, methods, functions, namespaces and loops. Those that can hold later values are owned by
/// the Evaluator and live as long as it does, so that a namespace that contains itself is no leak.
class Object : public std::enable_shared_from_this<Object> {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;
  virtual std::string repr() const { return "<" + type_name() + ">"; }
  virtual std::optional<Value> attribute(Evaluator&, std::string_view) { return std::nullopt; }
  virtual bool callable() const { return false; }
  virtual Value call(Evaluator&, CallArgs&);
  virtual int depth() const { return 0; }
};

/// Insertion-ordered mapping; keys are compared as Python does (1 == 1.0 == true).
struct Dict {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_multimap<size_t, size_t> index;  // hash of the key -> place, above a few entries
  Extent extent;
  MemoryCharge charge;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};
using DictPtr = std::shared_ptr<const Dict>;

/// Collects entries; a key given again keeps its place and takes the new value.
class DictBuilder {
 public:
  explicit DictBuilder(Budget* budget) : budget_(budget), dict_(std::make_shared<Dict>()) {}
  void set(Value key, Value value);
  DictPtr finish();

 private:
  Budget* budget_;
  std::shared_ptr<Dict> dict_;
};

/// Python's ==. Never fails.
bool equal(const Value& a, const Value& b);
/// Python's < between values that have an order: negative, zero, positive; fails for others, naming
/// `op`.
int compare(const Value& a, const Value& b, std::string_view op);
/// Hash that agrees with equal; fails for lists and dicts.
size_t hash_value(const Value& v);
/// Cost of walking a value, in steps.
int64_t walk_steps(const Value& v);
/// Counts the cost of comparing or hashing before it is done.
void charge_compare(Budget& budget, const Value& a, const Value& b);
void charge_hash(Budget& budget, const Value& v);
/// Fails when values are nested too deep.
void check_depth(int depth, const Budget* budget);

}  // namespace rlx::jinja
