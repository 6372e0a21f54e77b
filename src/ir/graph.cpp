#include "ir/graph.h"

#include <algorithm>

#include "base/hash.h"
#include "ir/source.h"

namespace rlx {
namespace {

std::string where(const OpDef& def, const std::string& origin) {
  return origin.empty() ? std::string(def.name) : fmt::format("{} (in {})", def.name, origin);
}

// Passes make a graph of the same size, one after the other, and drop the one before. Its memory serves the next one:
// given back, a block of this size makes glibc sort all that is free, and its pages are fetched anew (a quarter of the
// time of a template).
constexpr std::size_t kLeastSpare = 64, kMostSpare = 16384;  // nodes

thread_local bool has_spare = true;  // false once the thread, and with it the spare memory, ends
struct Spare {
  std::vector<Node> nodes;
  ~Spare() { has_spare = false; }
};
thread_local Spare spare;

}  // namespace

NodeTable::~NodeTable() {
  if (own_.capacity() < kLeastSpare || own_.capacity() > kMostSpare || !has_spare) return;
  own_.clear();
  if (own_.capacity() > spare.nodes.capacity()) own_.swap(spare.nodes);
}

void NodeTable::reserve(std::size_t nodes) {
  if (own_.empty() && nodes >= kLeastSpare && has_spare && nodes <= spare.nodes.capacity()) own_.swap(spare.nodes);
  own_.reserve(nodes);
}

NodeTable::NodeTable(const NodeTable& other) {
  reserve(other.size_);
  for (const Node& n : other.view()) append(n);
}

void NodeTable::swap(NodeTable& other) noexcept {
  own_.swap(other.own_);  // nodes stay where they are
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(lender_, other.lender_);
  sources_.swap(other.sources_);
}

void NodeTable::index(const Node& node, std::size_t place) {
  if (node.def->has(Trait::source) && !node.is<Constant>())
    sources_.emplace_back(hash64(node.name), static_cast<std::int32_t>(place));
}

Value NodeTable::append(Node node) {
  if (lender_ != nullptr) own();
  index(node, size_);
  own_.push_back(std::move(node));
  data_ = own_.data();
  return {static_cast<std::int32_t>(size_++), 0};
}

void NodeTable::borrow(const NodeTable& lender, std::size_t count) {
  RLX_CHECK(own_.empty() && count <= lender.size_);
  lender_ = &lender;
  data_ = lender.data_;
  size_ = count;
}

void NodeTable::own() {
  if (lender_ == nullptr) return;
  reserve(lender_->size_ + lender_->size_ / 8);
  own_.assign(data_, data_ + size_);
  for (const auto& [hash, place] : lender_->sources_)
    if (static_cast<std::size_t>(place) < size_) sources_.emplace_back(hash, place);
  data_ = own_.data();
  lender_ = nullptr;
}

void NodeTable::keep(std::span<const std::int32_t> places) {
  own();
  std::size_t kept = 0;
  for (std::size_t k = 0; k < size_; ++k) {
    if (places[k] < 0) continue;
    if (k != kept) own_[kept] = std::move(own_[k]);
    for (Value& v : own_[kept].inputs) v.node = places[static_cast<std::size_t>(v.node)];
    ++kept;
  }
  own_.erase(own_.begin() + static_cast<std::ptrdiff_t>(kept), own_.end());
  size_ = kept;
  for (auto& source : sources_) source.second = places[static_cast<std::size_t>(source.second)];
  std::erase_if(sources_, [](const auto& source) { return source.second < 0; });
}

Value NodeTable::find_source(std::string_view name) const {
  const std::uint64_t hash = hash64(name);
  for (const auto& [h, place] : lender_ != nullptr ? lender_->sources_ : sources_)
    if (h == hash && static_cast<std::size_t>(place) < size_ && data_[place].name == name) return {place, 0};
  return {};
}

Value Graph::add(const OpDef& def, const AttrBlob& attrs, std::vector<Value> inputs,
                 std::string origin) {
  RLX_CHECK(!def.has(Trait::source), std::string(def.name));
  if (inputs.size() > kMaxOperands)
    fail(ErrorCode::limit, "{}: {} operands: expected at most {}", where(def, origin), inputs.size(), kMaxOperands);
  constexpr std::size_t kFew = 12;  // shapes that need no allocation
  std::array<Shape, kFew> few;
  std::vector<Shape> many(inputs.size() > kFew ? inputs.size() : 0);
  Shape* const shapes = many.empty() ? few.data() : many.data();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value v = inputs[i];
    RLX_CHECK(v.node >= 0 && static_cast<std::size_t>(v.node) < nodes_.size() && v.index >= 0 &&
                  static_cast<std::size_t>(v.index) < node(v).results.size(),
              fmt::format("operand {} of {} is no value of the graph", i, where(def, origin)));
    shapes[i] = shape(v);
  }
  const int least = static_cast<int>(def.operands.size()) - def.optional_operands;
  if (!def.operands.empty() &&
      (static_cast<int>(inputs.size()) < least || inputs.size() > def.operands.size()))
    fail(ErrorCode::shape, "{}: expected {}{} operands, found {}", where(def, origin), least,
         def.optional_operands > 0 ? fmt::format(" to {}", def.operands.size()) : "",
         inputs.size());
  InferContext c(def, {shapes, inputs.size()}, this);
  try {
    def.infer(attrs, c);
  } catch (const Error& e) {
    if (origin.empty()) throw;
    throw Error(e.code(), fmt::format("{}: {}", origin, e.what()));
  }
  for (DimCheck& check : c.checks()) add_check(std::move(check));
  return append(Node{&def, attrs, std::move(inputs), std::move(c.results()), {}, std::move(origin)});
}

void Graph::add_check(DimCheck check) {
  if (std::none_of(checks_.begin(), checks_.end(), [&](const DimCheck& old) {
        return old.left == check.left && old.right == check.right;
      }))
    checks_.push_back(std::move(check));
}

Value Graph::add_source(const OpDef& def, std::string source_name, const Shape& shape,
                        std::string origin) {
  RLX_CHECK(def.has(Trait::source) && def.id != op_id(Constant::name), std::string(def.name));
  if (find_source(source_name))
    fail(ErrorCode::invalid_argument, "{}: a second {} named \"{}\"", name, def.name, source_name);
  return append(Node{&def, def.defaults(), {}, {shape}, std::move(source_name), std::move(origin)});
}

std::vector<std::vector<std::int32_t>> Graph::uses() const {
  std::vector<std::vector<std::int32_t>> uses(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) uses[i].resize(nodes_[i].results.size());
  const auto count = [&](Value v) {
    ++uses[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.index)];
  };
  for (const Node& n : nodes())
    for (Value v : n.inputs) count(v);
  for (const Output& o : outputs_) count(o.value);
  return uses;
}

Value Builder::input(std::string name, const Shape& shape) {
  return graph_->add_source(op_def<Input>(), std::move(name), shape, origin_);
}
Value Builder::param(std::string name, const Shape& shape) {
  return graph_->add_source(op_def<Param>(), std::move(name), shape, origin_);
}
Value Builder::state(std::string name, const Shape& shape) {
  return graph_->add_source(op_def<State>(), std::move(name), shape, origin_);
}

Value Builder::constant(const Tensor& value) {
  const ConstantRef ref = graph_->intern(make_constant(value));
  for (std::size_t i = 0; i < graph_->nodes().size(); ++i)
    if (const auto c = graph_->nodes()[i].as<Constant>(); c && c->data == ref) return {static_cast<std::int32_t>(i), 0};
  return graph_->add_constant(ref, origin_);
}

Value Builder::result(Value v, int index) const {
  RLX_CHECK(index >= 0 && static_cast<std::size_t>(index) < graph_->node(v).results.size());
  return {v.node, index};
}

Value Body::in(int i) const {
  RLX_CHECK(i >= 0 && i < arity());
  return inputs_[static_cast<std::size_t>(i)];
}

}  // namespace rlx
