#include "text/template/loop.h"

#include "text/template/operators.h"

namespace rlx::jinja {
namespace {

/// loop.cycle and loop.changed.
class LoopMethod : public Object {
 public:
  LoopMethod(std::shared_ptr<Loop> loop, bool cycle) : loop_(std::move(loop)), cycle_(cycle) {}
  std::string type_name() const override { return "method"; }
  bool callable() const override { return true; }
  int depth() const override { return loop_->depth() + 1; }
  Value call(Evaluator& ev, CallArgs& args) override {
    if (!args.named.empty())
      fault("loop.{} takes no keyword arguments", cycle_ ? "cycle" : "changed");
    for (const Value& v : args.positional) ev.budget().step(walk_steps(v));
    return cycle_ ? loop_->cycle(args.positional) : Value(loop_->changed(args.positional));
  }

 private:
  std::shared_ptr<Loop> loop_;
  bool cycle_;
};

/// The elements that length() had to collect.
class Collected : public Generator {
 public:
  Collected(Items items, int depth) : Generator(depth), items_(std::move(items)) {}
  std::optional<Value> next() override {
    return at_ < items_.size() ? std::optional(items_[at_++]) : std::nullopt;
  }

 private:
  Items items_;
  size_t at_ = 0;
};

}  // namespace

std::optional<Value> Loop::advance() {
  std::optional<Value> value;
  if (ahead_) {
    value = std::move(ahead_);
    ahead_.reset();
  } else {
    value = elements_->next();
  }
  if (!value) return std::nullopt;
  previous_ = std::move(current_);
  current_ = value;
  ++index0_;
  return value;
}

bool Loop::peek() {
  if (!ahead_) ahead_ = elements_->next();
  return ahead_.has_value();
}

int64_t Loop::length() {
  if (!length_) {
    Items rest;
    while (auto v = elements_->next()) {
      ev_.budget().step();
      rest.push_back(std::move(*v));
    }
    length_ = static_cast<int64_t>(rest.size()) + index0_ + 1 + (ahead_ ? 1 : 0);
    elements_ = std::make_shared<Collected>(std::move(rest), elements_->depth());
  }
  return *length_;
}

std::string Loop::repr() const {
  return fmt::format("<LoopContext {}/{}>", index0_ + 1, length_.value_or(0));
}

std::optional<Value> Loop::attribute(Evaluator&, std::string_view name) {
  if (name == "index") return Value(index0_ + 1);
  if (name == "index0") return Value(index0_);
  if (name == "first") return Value(index0_ == 0);
  if (name == "last") return Value(!peek());
  if (name == "length") return Value(length());
  if (name == "revindex") return Value(length() - index0_);
  if (name == "revindex0") return Value(length() - index0_ - 1);
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem")
    return previous_ ? *previous_ : Value::undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *ahead_ : Value::undefined("there is no next item");
  if (name != "cycle" && name != "changed") return std::nullopt;
  return Value(std::shared_ptr<Object>(std::make_shared<LoopMethod>(
      std::static_pointer_cast<Loop>(shared_from_this()), name == "cycle")));
}

Value Loop::cycle(const Items& values) const {
  if (values.empty()) fault("no items for cycling given");
  return values[static_cast<size_t>(index0_) % values.size()];
}

bool Loop::changed(Items values) {
  if (last_changed_) {
    const Value a = Value::tuple(*last_changed_, nullptr), b = Value::tuple(values, nullptr);
    charge_compare(ev_.budget(), a, b);
    if (equal(a, b)) return false;
  }
  if (!finished_) last_changed_ = std::move(values);
  return true;
}

Value Loop::call(Evaluator& ev, CallArgs& args) {
  if (!s_.recursive) fault("the loop must have the 'recursive' marker to be called");
  if (args.positional.size() != 1 || !args.named.empty()) fault("loop(...) takes one argument");
  if (depth_ >= ev.budget().limits().depth)
    limit_fault("loops are nested deeper than {} levels", depth_);
  TextBuilder out(ev.budget());
  ev.run_loop(s_, args.positional[0], frame_, out, depth_ + 1);
  return out.finish();
}

}  // namespace rlx::jinja
