// Weights that a background thread still fills: calls that read them wait here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>

namespace rlx {

/// Entries by their address. Filled bytes are visible to whom wait() or pending() told of them.
class WeightGate {
 public:
  /// Before anybody can know the address.
  void expect(const std::byte* entry) {
    const std::lock_guard lock(mutex_);
    states_[entry] = State::open;
    pending_.fetch_add(1, std::memory_order_relaxed);
  }
  /// A reason: the entry could not be filled at all.
  void arrived(const std::byte* entry, const std::string& failure = {}) {
    const std::lock_guard lock(mutex_);
    states_[entry] = failure.empty() ? State::filled : State::failed;
    if (failure_.empty()) failure_ = failure;
    pending_.fetch_sub(1, std::memory_order_release);
    arrived_.notify_all();
  }

  /// Nobody will fill what has not arrived: it counts as failed, for this reason.
  void give_up(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    for (auto& [entry, state] : states_)
      if (state == State::open) state = State::failed;
    if (pending_.exchange(0, std::memory_order_release) > 0 && failure_.empty()) failure_ = reason;
    arrived_.notify_all();
  }

  /// False: the entry could not be filled. Addresses that nobody expects are ready.
  bool wait(const std::byte* entry) {
    std::unique_lock lock(mutex_);
    const auto at = states_.find(entry);
    if (at == states_.end()) return true;
    arrived_.wait(lock, [&] { return at->second != State::open; });
    return at->second == State::filled;
  }
  bool pending() const { return pending_.load(std::memory_order_acquire) > 0; }
  void wait_all() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [&] { return pending_.load(std::memory_order_relaxed) == 0; });
  }
  /// Why an entry could not be filled; empty when all could.
  std::string failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  enum class State : unsigned char { open, filled, failed };
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<const std::byte*, State> states_;
  std::atomic<int> pending_{0};
  std::string failure_;
};

}  // namespace rlx
