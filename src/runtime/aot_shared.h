// What the parts of an AotCache share: the place, counters, the one warning, and the thread that writes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "runtime/aot_place.h"

namespace rlx {

struct AotStatistics {
  std::int64_t hits = 0;      ///< files that were used
  std::int64_t misses = 0;    ///< files that were not there
  std::int64_t rebuilds = 0;  ///< files that were there and of no use: damaged, foreign, unreadable
  std::int64_t saved = 0;     ///< files that were written
};

class AotShared {
 public:
  using Warn = std::function<void(const std::string&)>;
  AotShared(std::unique_ptr<AotPlace> place, Warn warn) : place_(std::move(place)), warn_(std::move(warn)) {}
  AotShared(const AotShared&) = delete;
  ~AotShared();

  AotPlace& place() { return *place_; }
  AotStatistics statistics() const;
  /// Counts a file once for each kind of event.
  void count(std::int64_t AotStatistics::*what, const std::string& name);
  /// Says it once: the first trouble of a cache names its kind, and the work goes on without what is damaged.
  void warn(const std::string& message);
  /// A file that was found to be of no use: warned of, counted as a rebuild, and absent from now on.
  void reject(const std::string& name, const std::string& why);
  bool rejected(const std::string& name) const;
  void forgive(const std::string& name);  ///< it was written anew

  /// Writes a file on the thread of this cache; `write` says whether it did, and a failure is a warning.
  void save_later(const std::string& name, std::function<bool()> write);
  void flush();  ///< waits for all writes

 private:
  void work();

  std::unique_ptr<AotPlace> place_;
  const Warn warn_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  AotStatistics statistics_;
  bool warned_ = false, stop_ = false, busy_ = false;
  std::set<std::string> rejected_, counted_;
  std::deque<std::pair<std::string, std::function<bool()>>> jobs_;
  std::thread thread_;
};

}  // namespace rlx
