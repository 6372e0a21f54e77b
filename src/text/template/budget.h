// The bounds of one render: steps, memory alive, bytes processed. Every operation that can grow
// asks here first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "text/template/template.h"

namespace rlx::jinja {

/// A fault inside the interpreter, before it is given its place in the template (see
/// Evaluator::run).
class Fault {
 public:
  Fault(TemplateFault kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  TemplateFault kind() const { return kind_; }
  const std::string& message() const { return message_; }

 private:
  TemplateFault kind_;
  std::string message_;
};

template <typename... Args>
[[noreturn]] void fault(fmt::format_string<Args...> text, Args&&... args) {
  throw Fault(TemplateFault::other, fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void limit_fault(fmt::format_string<Args...> text, Args&&... args) {
  throw Fault(TemplateFault::limit, fmt::format(text, std::forward<Args>(args)...));
}

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  const TemplateLimits& limits() const { return limits_; }

  void step(int64_t n = 1) {
    steps_ += n;
    if (steps_ > limits_.steps) limit_fault("the template takes more than {} steps", limits_.steps);
  }

  /// Counts bytes that an operation reads or writes; `weight` is its cost next to a plain copy.
  void work(size_t bytes, size_t weight = 1) {
    if (bytes > limits_.work_bytes / weight) too_much_work();
    work_ += bytes * weight;
    if (work_ > limits_.work_bytes) too_much_work();
  }

  void allocate(size_t bytes) {
    if (bytes > limits_.memory_bytes || memory_ + bytes > limits_.memory_bytes)
      limit_fault("the template needs more than {} bytes of memory", limits_.memory_bytes);
    memory_ += bytes;
  }
  void release(size_t bytes) noexcept { memory_ -= bytes; }

  /// Fails at once when a value of this many bytes could never be held.
  void check_size(size_t bytes) const {
    if (bytes > limits_.memory_bytes)
      limit_fault("a value of {} bytes passes the limit of {} bytes", bytes, limits_.memory_bytes);
  }

 private:
  [[noreturn]] void too_much_work() const {
    limit_fault("the template processes more than {} bytes", limits_.work_bytes);
  }

  TemplateLimits limits_;
  int64_t steps_ = 0;
  size_t work_ = 0;
  size_t memory_ = 0;
};

/// Memory of one object, given back when it dies. Without a budget (constants, variables) nothing
/// is counted.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(Budget* budget, size_t bytes) {
    if (budget == nullptr) return;
    budget->allocate(bytes);
    budget_ = budget;
    bytes_ = bytes;
  }
  MemoryCharge(MemoryCharge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
  MemoryCharge& operator=(MemoryCharge&&) = delete;
  ~MemoryCharge() {
    if (budget_ != nullptr) budget_->release(bytes_);
  }

 private:
  Budget* budget_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace rlx::jinja
