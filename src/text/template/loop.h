// The `loop` variable of a for statement.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/template/evaluator.h"

namespace rlx::jinja {

class Loop : public Object {
 public:
  Loop(Evaluator& ev, const Stmt& s, Frame& frame, std::shared_ptr<Generator> elements, int depth)
      : ev_(ev), s_(s), frame_(frame), elements_(std::move(elements)), depth_(depth) {}

  /// The next element, or nothing at the end.
  std::optional<Value> advance();
  void know_length(std::optional<int64_t> n) { length_ = n; }
  /// The loop has ended. What changed() remembers may be the loop itself, so it is dropped.
  void finish() {
    finished_ = true;
    last_changed_.reset();
  }

  std::string type_name() const override { return "LoopContext"; }
  std::string repr() const override;
  std::optional<Value> attribute(Evaluator& ev, std::string_view name) override;
  bool callable() const override { return true; }
  Value call(Evaluator& ev, CallArgs& args) override;
  int depth() const override { return elements_->depth() + 1; }

  Value cycle(const Items& values) const;
  bool changed(Items values);

 private:
  /// Looks one element ahead.
  bool peek();
  int64_t length();

  Evaluator& ev_;
  const Stmt& s_;
  Frame& frame_;  // around the loop; kept when the loop is recursive
  std::shared_ptr<Generator> elements_;
  int depth_;
  bool finished_ = false;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::optional<Value> current_, previous_, ahead_;
  std::optional<Items> last_changed_;
};

}  // namespace rlx::jinja
