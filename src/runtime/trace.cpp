#include "runtime/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/cost.h"

namespace rlx {
namespace {

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class TraceWriter {
 public:
  explicit TraceWriter(const Trace& trace) : trace_(trace) {
    if (!trace.steps().empty()) origin_ = trace.steps().front()->begin;
  }

  std::string write(const std::string& title) {
    std::size_t workers = 0;
    for (const auto& s : trace_.steps()) workers = std::max(workers, s->lanes.size());
    meta("process_name", 0, title);
    for (std::size_t t = 0; t < workers; ++t) track(t, fmt::format("worker {}", t));
    track(workers, "phases");
    std::int64_t number = 0;
    for (const auto& s : trace_.steps()) {
      context_ += s->sizes.get(sym::rows).value_or(0);
      describe(*s);
      for (std::size_t t = 0; t < s->lanes.size(); ++t) write_lane(*s, t, number);
      if (!s->lanes.empty()) write_phases(*s, workers);
      ++number;
    }
    return "{\"traceEvents\": [\n" + text_ +
           fmt::format("\n], \"displayTimeUnit\": \"ns\", \"otherData\": {{\"left_out\": {}}}}}\n", trace_.left_out());
  }

 private:
  void line(std::string event) {
    if (!text_.empty()) text_ += ",\n";
    text_ += event;
  }
  void meta(std::string_view what, std::size_t track, const std::string& name) {
    line(fmt::format(R"({{"name": "{}", "ph": "M", "pid": 1, "tid": {}, "args": {{"name": {}}}}})", what, track,
                     json_string(name)));
  }
  void track(std::size_t number, const std::string& name) {
    meta("thread_name", number, name);
    constexpr std::string_view order =
        R"({{"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": {0}, "args": {{"sort_index": {0}}}}})";
    line(fmt::format(order, number));
  }

  struct Span {
    std::int64_t begin, end;
  };
  void event(const std::string& name, std::string_view category, std::size_t track, Span at,
             const std::string& arguments) {
    line(fmt::format(
        R"({{"name": {}, "cat": "{}", "ph": "X", "pid": 1, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{{}}}}})",
        name, category, track, static_cast<double>(at.begin - origin_) / 1e3,
        static_cast<double>(at.end - at.begin) / 1e3, arguments));
  }

  // Name and arguments of each call at the sizes of a step; kept while program and sizes stay.
  void describe(const Trace::Step& s) {
    names_.clear();
    arguments_.clear();
    for (std::size_t c = 0; c < s.program->calls.size(); ++c) {
      const Call& call = s.program->calls[c];
      const OpCost cost = call_cost(*s.program, c, s.sizes, context_);
      names_.push_back(json_string(call.kernel != nullptr ? std::string(call.kernel->name)
                                                          : fmt::format("reference {}", call.def->name)));
      arguments_.push_back(
          fmt::format(R"("call": {}, "op": {}, "origin": {}, "phase": "{}", "bytes": {:.0f}, "ops": {:.0f})", c,
                      json_string(std::string(call.def->name)), json_string(call.origin), name(call.phase), cost.bytes,
                      cost.ops));
    }
  }

  void write_lane(const Trace::Step& s, std::size_t lane, std::int64_t number) {
    event(fmt::format("\"step {}\"", number), "step", lane, {s.begin, s.end},
          fmt::format(R"("sizes": {})", json_string(s.sizes.text())));
    for (const TraceEvent& e : s.lanes[lane].events()) {
      const auto c = static_cast<std::size_t>(e.call);
      if (e.kind == TraceKind::wait)
        event("\"wait\"", "wait", lane, {e.begin, e.end}, fmt::format(R"("call": {})", e.call));
      else
        event(names_[c], "call", lane, {e.begin, e.end}, arguments_[c]);
    }
  }

  // From the first share of a call of a phase to the end of the last one; phases do not return.
  void write_phases(const Trace::Step& s, std::size_t track_number) {
    std::map<Phase, Span> spans;
    for (const TraceLane& lane : s.lanes)
      for (const TraceEvent& e : lane.events()) {
        if (e.kind == TraceKind::wait) continue;
        const auto [at, first] =
            spans.try_emplace(s.program->calls[static_cast<std::size_t>(e.call)].phase, Span{e.begin, e.end});
        if (!first) at->second = {std::min(at->second.begin, e.begin), std::max(at->second.end, e.end)};
      }
    std::int64_t before = 0;  // without a barrier between them, phases overlap a little
    for (const auto& [phase, span] : spans) {
      event(fmt::format("\"{}\"", name(phase)), "phase", track_number, {std::max(span.begin, before), span.end}, "");
      before = span.end;
    }
  }

  const Trace& trace_;
  std::int64_t origin_ = 0, context_ = 0;
  std::string text_;
  std::vector<std::string> names_, arguments_;
};

}  // namespace

void Trace::begin_step(std::shared_ptr<const Program> program, const DimBinding& sizes, int threads) {
  auto step = std::make_unique<Step>();
  step->lanes = std::vector<TraceLane>(static_cast<std::size_t>(threads));
  // A call and a wait after it; more where a worker does the shares of others.
  for (TraceLane& lane : step->lanes) lane.reserve(5 * program->calls.size());
  step->program = std::move(program);
  step->sizes = sizes;
  step->begin = TraceLane::now();
  steps_.push_back(std::move(step));
}

std::size_t Trace::events() const {
  std::size_t n = 0;
  for (const auto& s : steps_)
    for (const TraceLane& lane : s->lanes) n += lane.events().size();
  return n;
}

std::size_t Trace::left_out() const {
  std::size_t n = 0;
  for (const auto& s : steps_)
    for (const TraceLane& lane : s->lanes) n += lane.left_out();
  return n;
}

std::string trace_json(const Trace& trace, const std::string& title) { return TraceWriter(trace).write(title); }

}  // namespace rlx
