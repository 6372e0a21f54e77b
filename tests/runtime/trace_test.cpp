// A trace of real steps: what runs is in it, spans nest, and nothing is recorded when it is off.
#include "runtime/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/decoder.h"
#include "runtime/toy_model.h"

namespace rlx {
namespace {

using nlohmann::json;

struct TracedRun {
  Trace trace;
  json events;
  std::vector<std::string> kernels;

  explicit TracedRun(int threads) {
    DecoderOptions options;
    options.threads = threads;
    const ToyModel model(DType::q8_0);  // holds the weights
    Decoder decoder(model.load(), options);
    const std::int32_t prompt[] = {1, 2, 3, 4, 5}, next[] = {6};
    decoder.set_trace(&trace);
    decoder.step(prompt);
    decoder.step(next);
    decoder.set_trace(nullptr);
    decoder.step(next);
    for (const DispatchRow& r : decoder.dispatch().rows)
      if (!r.kernel.empty()) kernels.push_back(r.kernel);
    events = json::parse(trace_json(trace, "toy \"model\""))["traceEvents"];
  }
};

TEST(Trace, HoldsEveryShareOfEveryCallOfEveryStep) {
  const TracedRun run(2);
  ASSERT_EQ(run.trace.steps().size(), 2u) << "the step after set_trace(nullptr) is not there";
  const std::size_t calls = run.trace.steps()[0]->program->calls.size();
  // Each call has two shares; who does them depends on who has a core.
  std::map<std::string, std::size_t> seen, expected;
  for (const json& e : run.events)
    if (e["ph"] == "X" && e["cat"] == "call") {
      ++seen[e["name"]];
      EXPECT_NE(std::find(run.kernels.begin(), run.kernels.end(), e["name"]), run.kernels.end()) << e["name"];
    }
  for (std::size_t c = 0; c < calls; ++c)
    expected[std::string(run.trace.steps()[0]->program->calls[c].kernel->name)] += 2 * 2;
  EXPECT_EQ(seen, expected);
}

TEST(Trace, CountsWhatItHasNoRoomFor) {
  Trace trace;
  trace.begin_step(std::make_shared<Program>(), {}, 1);
  TraceLane& lane = *trace.lane(0);
  lane.add({1, 2, 0, TraceKind::call});
  trace.end_step();
  EXPECT_EQ(trace.left_out(), 1u) << "a program without calls reserves nothing";
  EXPECT_EQ(json::parse(trace_json(trace, "loop"))["otherData"]["left_out"], 1);
  EXPECT_EQ(TracedRun(1).trace.left_out(), 0u);
}

TEST(Trace, SpansNestAndTimesGrow) {
  const TracedRun run(2);
  struct Open {
    double begin, end;
    std::string name;
  };
  std::map<int, std::vector<Open>> stacks;
  std::map<int, double> last;
  for (const json& e : run.events) {
    if (e["ph"] != "X") continue;
    const double begin = e["ts"], end = begin + e["dur"].get<double>();
    const int track = e["tid"];
    EXPECT_GE(begin, 0);
    EXPECT_GE(e["dur"].get<double>(), 0);
    EXPECT_GE(begin, last[track] - 1e-3) << "events of a track are in order";
    last[track] = begin;
    std::vector<Open>& stack = stacks[track];
    while (!stack.empty() && stack.back().end <= begin + 1e-3) stack.pop_back();
    // Rounded to nanoseconds, as the times are.
    if (!stack.empty()) {
      EXPECT_LE(end, stack.back().end + 2e-3) << e << " leaves " << stack.back().name;
    }
    if (e["cat"] == "call" || e["cat"] == "wait") {
      ASSERT_FALSE(stack.empty());
      EXPECT_TRUE(stack.front().name.starts_with("step"));
    }
    stack.push_back({begin, end, e["name"]});
  }
  EXPECT_LE(stacks.size(), 3u) << "two workers and the phases";
}

TEST(Trace, SaysWhatACallMovesAndComputes) {
  const TracedRun run(1);
  const ToyShape shape;
  int heads = 0;
  for (const json& e : run.events) {
    if (e["ph"] != "X" || e["cat"] != "call") continue;
    if (e["args"]["origin"] != "lm_head" || e["args"]["op"] != "fused_linear") continue;
    ++heads;
    EXPECT_EQ(e["args"]["phase"], "epilogue");
    const auto weights = static_cast<double>(shape.vocab * shape.hidden);
    EXPECT_GE(e["args"]["ops"].get<double>(), 2 * weights) << "one wanted row";
    EXPECT_LE(e["args"]["ops"].get<double>(), 2 * weights + 64 * static_cast<double>(shape.hidden)) << "and its norm";
    EXPECT_GE(e["args"]["bytes"].get<double>(), weights * 34 / 32);
  }
  EXPECT_EQ(heads, 2);
  std::vector<std::string> phases;
  for (const json& e : run.events)
    if (e["ph"] == "X" && e["cat"] == "phase") phases.push_back(e["name"]);
  EXPECT_EQ(phases, (std::vector<std::string>{"steady", "epilogue", "steady", "epilogue"}));
}

TEST(Trace, AFullLaneAllocatesNothing) {
  TraceLane lane;
  lane.reserve(2);
  for (int i = 0; i < 5; ++i) const TraceSpan span(&lane, TraceKind::call, static_cast<std::size_t>(i));
  EXPECT_EQ(lane.events().size(), lane.events().capacity());
  EXPECT_EQ(lane.events()[1].call, 1);
}

}  // namespace
}  // namespace rlx
