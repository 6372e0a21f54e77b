// Guards of the parser: recursion depth, soft parts.
#pragma once

#include "text/template/parser.h"

namespace rlx::jinja {

class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : parser_(parser) {
    constexpr int kMaxDepth = 200;
    if (++parser_.depth_ > kMaxDepth) {
      --parser_.depth_;
      parser_.error(fmt::format("the template is nested deeper than {} levels", kMaxDepth));
    }
  }
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

// Sets whether unknown filters wait until they run.
class Parser::Soft {
 public:
  Soft(Parser& parser, bool soft) : parser_(parser), outer_(parser.soft_) { parser_.soft_ = soft; }
  ~Soft() { parser_.soft_ = outer_; }
  Soft(const Soft&) = delete;
  Soft& operator=(const Soft&) = delete;

 private:
  Parser& parser_;
  bool outer_;
};

}  // namespace rlx::jinja
