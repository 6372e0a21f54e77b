#include "runtime/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace rlx {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

/// Steps over made-up tokens: which tokens they are does not change the time.
class Stepper {
 public:
  Stepper(Decoder& decoder, const BenchTest& test, const BenchOptions& options)
      : decoder_(decoder), test_(test), options_(options) {
    next_.resize(static_cast<std::size_t>(test.sequences));
  }

  void rewind() {
    for (std::int64_t s = 0; s < test_.sequences; ++s)
      decoder_.truncate(std::min(decoder_.past(s), test_.depth), s);
    fill_depth();  // a model with recurrent states went back to the start
  }
  void fill_depth() {
    for (std::int64_t s = 0; s < test_.sequences; ++s)
      if (const std::int64_t missing = test_.depth - decoder_.past(s); missing > 0)
        prompt(missing, s);
  }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }

  void prompt(std::int64_t tokens, std::int64_t sequence) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
    for (std::int32_t& id : ids) id = token();
    const Decoder::Part part{sequence, ids, Decoder::Want::last};
    decoder_.step({&part, 1});
  }
  void decode() {
    for (std::int32_t& id : next_) id = token();
    parts_.clear();
    for (std::size_t s = 0; s < next_.size(); ++s)
      parts_.push_back({static_cast<std::int64_t>(s), {&next_[s], 1}, Decoder::Want::last});
    decoder_.step(parts_);
  }

 private:
  std::int32_t token() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    return static_cast<std::int32_t>((state_ >> 33) %
                                     static_cast<std::uint64_t>(decoder_.info().vocab));
  }

  Decoder& decoder_;
  const BenchTest& test_;
  const BenchOptions& options_;
  std::vector<std::int32_t> next_;
  std::vector<Decoder::Part> parts_;
  std::uint64_t state_ = 1;
};

void warm_up(Stepper& stepper, const BenchTest& test) {
  stepper.rewind();
  for (std::int64_t s = 0; s < test.sequences && test.prompt > 0; ++s)
    stepper.prompt(test.prompt, s);
  if (test.generated > 0) stepper.decode();
}

void repeat(Stepper& stepper, const BenchTest& test, BenchResult& result,
            std::vector<double>& first) {
  stepper.rewind();
  const Clock::time_point start = Clock::now();
  for (std::int64_t s = 0; s < test.sequences && test.prompt > 0; ++s)
    stepper.prompt(test.prompt, s);
  double done = seconds_since(start);
  if (test.prompt > 0) first.push_back(done * 1e3);
  if (test.generated == 0) result.step_ms.push_back(done * 1e3);
  for (std::int64_t i = 0; i < test.generated && !stepper.cancelled(); ++i) {
    stepper.decode();
    const double now = seconds_since(start);
    result.step_ms.push_back((now - done) * 1e3);
    if (test.prompt == 0 && i == 0) first.push_back((now - done) * 1e3);
    done = now;
  }
  result.seconds.push_back(done);
}

/// Runs over made-up tokens or pixels.
class EncoderRuns {
 public:
  EncoderRuns(EncoderModel& model, const BenchTest& test) : model_(model) {
    const ModelInfo& info = model.info();
    std::uint32_t state = 1;
    const auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 8; };  // Numerical Recipes
    if (test.kind == BenchKind::images) {
      const auto side = [](std::int64_t own) { return own > 0 ? own : kBenchImageSide; };
      pixels_ = Tensor::zeros({test.sequences, info.channels, side(info.image_height), side(info.image_width)});
      for (float& p : pixels_->mutable_as<float>()) p = static_cast<float>(next() % 2001) / 1000.0f - 1.0f;
      return;
    }
    ids_.resize(static_cast<std::size_t>(test.sequences));
    for (std::vector<std::int32_t>& ids : ids_) {
      for (std::int64_t i = 0; i < test.prompt; ++i)
        ids.push_back(static_cast<std::int32_t>(next() % static_cast<std::uint32_t>(info.vocab)));
      batch_.push_back({ids, {}});
    }
  }
  void run() {
    if (pixels_)
      model_.run_images(*pixels_);
    else
      model_.run(batch_);
  }

 private:
  EncoderModel& model_;
  std::optional<Tensor> pixels_;
  std::vector<std::vector<std::int32_t>> ids_;
  std::vector<TokenSequence> batch_;
};

// Work of one repetition: prompts in chunks, whose last one alone has a wanted row, then the steps of all sequences.
StepWork work_of(const Decoder& decoder, const BenchTest& t) {
  StepWork work;
  const auto sizes = [](std::int64_t rows, std::int64_t wanted, std::int64_t batch) {
    return DimBinding{{sym::rows, rows}, {sym::out_rows, wanted}, {sym::batch, batch}};
  };
  for (std::int64_t s = 0; s < t.sequences; ++s)
    for (std::int64_t done = 0; done < t.prompt;) {
      const std::int64_t rows = std::min(t.prompt - done, decoder.options().chunk);
      done += rows;
      work += decoder.work(sizes(rows, done == t.prompt ? 1 : 0, 1), t.depth + done);
    }
  for (std::int64_t i = 0; i < t.generated; ++i)
    work += decoder.work(sizes(t.sequences, t.sequences, t.sequences), (t.depth + t.prompt + i + 1) * t.sequences);
  return work;
}

}  // namespace

std::string BenchTest::name() const {
  std::string text;
  if (prompt > 0) text = fmt::format("pp{}", prompt);
  if (generated > 0) text += fmt::format("{}tg{}", text.empty() ? "" : "+", generated);
  if (kind == BenchKind::encoder) return fmt::format("b{} s{}", sequences, prompt);
  if (kind == BenchKind::images) return fmt::format("b{}", sequences);
  if (sequences > 1) text += fmt::format(" x {}", sequences);
  return depth > 0 ? fmt::format("{} @ d{}", text, depth) : text;
}

std::int64_t BenchTest::items() const {
  return kind == BenchKind::images ? sequences : (prompt + generated) * sequences;
}

double BenchResult::tokens_per_second(std::size_t repetition) const {
  const double s = seconds[repetition];
  return s > 0 ? static_cast<double>(test.items()) / s : 0;
}
double BenchResult::mean_tps() const {
  double sum = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) sum += tokens_per_second(i);
  return seconds.empty() ? 0 : sum / static_cast<double>(seconds.size());
}
double BenchResult::stddev_tps() const {
  const double mean = mean_tps();
  double sum = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) sum += std::pow(tokens_per_second(i) - mean, 2);
  return seconds.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(seconds.size() - 1));
}
double BenchResult::median_tps() const {
  std::vector<double> all;
  for (std::size_t i = 0; i < seconds.size(); ++i) all.push_back(tokens_per_second(i));
  return quantile(std::move(all), 0.5);
}
double BenchResult::median_ms() const { return quantile(step_ms, 0.5); }
double BenchResult::p95_ms() const { return quantile(step_ms, 0.95); }

double BenchResult::share() const {
  const double s = quantile(seconds, 0.5);
  if (s <= 0 || probe.gbps <= 0) return 0;
  if (test.generated > 0 && test.prompt == 0) return work.bytes / s / 1e9 / probe.gbps;
  double ideal = 0;
  for (int u = 0; u < kComputeUnits; ++u) ideal += work.ops[u] / 1e9 / probe.rate(static_cast<ComputeUnit>(u));
  return ideal / s;
}

ComputeUnit BenchResult::unit() const {
  return static_cast<ComputeUnit>(std::max_element(work.ops, work.ops + kComputeUnits) - work.ops);
}

std::int64_t needed_context(const std::vector<BenchTest>& tests) {
  std::int64_t most = 1;
  for (const BenchTest& t : tests) most = std::max(most, t.depth + t.prompt + t.generated);
  return most;
}

BenchResult bench(Decoder& decoder, const BenchTest& test, const BenchOptions& options) {
  if (needed_context({test}) > decoder.context())
    fail(ErrorCode::limit, "{} needs a context of {}, it is {}", test.name(),
         needed_context({test}), decoder.context());
  BenchResult result;
  result.test = test;
  Workers workers(decoder.threads());
  const ProbeResult before = probe(workers);
  Stepper stepper(decoder, test, options);
  for (std::int64_t s = 0; s < test.sequences; ++s) decoder.truncate(0, s);
  stepper.fill_depth();
  if (options.warm_up) warm_up(stepper, test);
  decoder.set_profile(options.profile);
  std::vector<double> first;
  for (std::int64_t r = 0; r < options.repetitions && !stepper.cancelled(); ++r)
    repeat(stepper, test, result, first);
  const ProbeResult after = probe(workers);
  result.probe = mean(before, after);
  std::sort(result.step_ms.begin(), result.step_ms.end());
  result.first_token_ms = quantile(first, 0.5);
  result.work = work_of(decoder, test);
  return result;
}

BenchResult bench(EncoderModel& model, const BenchTest& test, const BenchOptions& options) {
  BenchResult result;
  result.test = test;
  Workers workers(model.threads());
  const ProbeResult before = probe(workers);
  EncoderRuns runs(model, test);
  if (options.warm_up) runs.run();
  model.set_profile(options.profile);
  for (std::int64_t r = 0; r < options.repetitions && !(options.cancelled && options.cancelled()); ++r) {
    const Clock::time_point start = Clock::now();
    runs.run();
    result.seconds.push_back(seconds_since(start));
    result.step_ms.push_back(result.seconds.back() * 1e3);
  }
  result.probe = mean(before, probe(workers));
  std::sort(result.step_ms.begin(), result.step_ms.end());
  result.first_token_ms = result.median_ms();
  result.work = model.work();
  return result;
}

}  // namespace rlx
