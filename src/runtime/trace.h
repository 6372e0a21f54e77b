// What each worker did and when, for `rlx trace`: calls and waits at barriers, recorded into memory that is reserved
// before a step begins. Written as a Chrome trace (JSON object format of the Trace Event Format, which Perfetto reads).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/program.h"

namespace rlx {

enum class TraceKind : std::uint8_t { call, wait };

struct TraceEvent {
  std::int64_t begin = 0, end = 0;  ///< nanoseconds of steady_clock
  std::int32_t call = 0;            ///< of the program; of a wait: the call at which the barrier stands
  TraceKind kind = TraceKind::call;
};

/// Events of one worker in one step. On a cache line of its own: workers write at the same time.
class alignas(64) TraceLane {
 public:
  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void reserve(std::size_t events) { events_.reserve(events); }
  /// Allocates nothing: what is beyond the reserve (bodies of loops, which run often) is left out and counted.
  void add(const TraceEvent& e) noexcept {
    if (events_.size() < events_.capacity())
      events_.push_back(e);
    else
      ++left_out_;
  }
  const std::vector<TraceEvent>& events() const { return events_; }
  std::size_t left_out() const { return left_out_; }

 private:
  std::vector<TraceEvent> events_;
  std::size_t left_out_ = 0;
};

/// Records the time from its making to its end; does nothing without a lane.
class TraceSpan {
 public:
  TraceSpan(TraceLane* lane, TraceKind kind, std::size_t call) noexcept
      : lane_(lane), kind_(kind), call_(call), begin_(lane != nullptr ? TraceLane::now() : 0) {}
  TraceSpan(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (lane_ != nullptr) lane_->add({begin_, TraceLane::now(), static_cast<std::int32_t>(call_), kind_});
  }

 private:
  TraceLane* lane_;
  TraceKind kind_;
  std::size_t call_;
  std::int64_t begin_;
};

class Trace {
 public:
  struct Step {
    std::shared_ptr<const Program> program;
    DimBinding sizes;
    std::int64_t begin = 0, end = 0;
    std::vector<TraceLane> lanes;  ///< one per worker
  };

  /// Called by the executor around a step, on the caller's thread.
  void begin_step(std::shared_ptr<const Program> program, const DimBinding& sizes, int threads);
  void end_step() { steps_.back()->end = TraceLane::now(); }
  TraceLane* lane(int thread) { return &steps_.back()->lanes[static_cast<std::size_t>(thread)]; }

  const std::vector<std::unique_ptr<Step>>& steps() const { return steps_; }
  std::size_t events() const;
  std::size_t left_out() const;  ///< events that lanes had no room for

 private:
  std::vector<std::unique_ptr<Step>> steps_;
};

/// {"traceEvents": [...], "displayTimeUnit": "ns", "otherData": {"left_out": events without room}}: one track for each
/// worker with its steps, and in them its calls (kernel, op, origin, phase, bytes, operations) and waits; a track of
/// phases. Times in microseconds from the first step. Bytes and operations are estimates (compiler/cost.h); attention
/// over a cache counts the rows of all steps so far, as one sequence that starts empty has them.
std::string trace_json(const Trace& trace, const std::string& title);

}  // namespace rlx
