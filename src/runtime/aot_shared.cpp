#include "runtime/aot_shared.h"

#include "base/error.h"

namespace rlx {

AotShared::~AotShared() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

AotStatistics AotShared::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void AotShared::count(std::int64_t AotStatistics::*what, const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::int64_t& counter = statistics_.*what;
  if (counted_.insert(fmt::format("{} {}", &counter - &statistics_.hits, name)).second) ++counter;
}

void AotShared::warn(const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    if (warned_) return;
    warned_ = true;
  }
  if (warn_) warn_(message);
}

void AotShared::reject(const std::string& name, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (rejected_.insert(name).second) ++statistics_.rebuilds;
  }
  warn(fmt::format("{}; compiled again", why));
}

bool AotShared::rejected(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return rejected_.contains(name);
}

void AotShared::forgive(const std::string& name) {
  const std::lock_guard lock(mutex_);
  rejected_.erase(name);
}

void AotShared::save_later(const std::string& name, std::function<bool()> write) {
  const std::lock_guard lock(mutex_);
  jobs_.emplace_back(name, std::move(write));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void AotShared::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
}

void AotShared::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const auto [name, write] = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    try {
      if (write()) {
        count(&AotStatistics::saved, name);
        forgive(name);
      }
    } catch (const std::exception& e) {
      warn(fmt::format("not kept for the next start: {}", e.what()));
    }
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace rlx
