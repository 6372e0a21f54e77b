#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/philox.h"

namespace rlx {
namespace {

void check_range(const char* field, float value, float low, float high) {
  if (!(value >= low && value <= high))
    fail(ErrorCode::invalid_argument, "{}: expected a number from {} to {}, found {}", field, low,
         high, value);
}

// Better first: the larger logit, of equals the lower id.
constexpr auto kBetter = [](const auto& a, const auto& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
};

void check_logits(std::span<const float> logits) {
  bool finite = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float v = logits[i];
    if (std::isnan(v) || v == std::numeric_limits<float>::infinity())
      fail(ErrorCode::device, "sampler: logit {} of {} is {}", i, logits.size(),
           std::isnan(v) ? "NaN" : "+inf");
    finite = finite || v != -std::numeric_limits<float>::infinity();
  }
  if (!finite) fail(ErrorCode::device, "sampler: all {} logits are -inf", logits.size());
}

}  // namespace

void validate(const SamplerOptions& o) {
  check_range("temperature", o.temperature, 0, 100);
  check_range("top_p", o.top_p, 0, 1);
  check_range("min_p", o.min_p, 0, 1);
  if (!(o.repeat_penalty > 0 && o.repeat_penalty <= 100))
    fail(ErrorCode::invalid_argument,
         "repeat_penalty: expected a number above 0, at most 100, found {}", o.repeat_penalty);
  if (o.repeat_last_n < -1)
    fail(ErrorCode::invalid_argument, "repeat_last_n: expected -1 (all) or more, found {}",
         o.repeat_last_n);
  check_range("presence_penalty", o.presence_penalty, -2, 2);
  check_range("frequency_penalty", o.frequency_penalty, -2, 2);
  if (o.seed < -1)
    fail(ErrorCode::invalid_argument, "seed: expected -1 (random) or more, found {}", o.seed);
}

Sampler::Sampler(SamplerOptions options) : options_(options) {
  validate(options_);
  if (options_.seed >= 0) {
    seed_ = static_cast<uint64_t>(options_.seed);
  } else {
    std::random_device source;
    seed_ = uint64_t{source()} << 32 | source();
  }
}

double Sampler::next_uniform() { return philox_uniform(seed_, step_++); }

void Sampler::apply_penalties(std::span<const int32_t> history) {
  const bool off = options_.repeat_penalty == 1 && options_.presence_penalty == 0 &&
                   options_.frequency_penalty == 0;
  if (off || options_.repeat_last_n == 0) return;
  const auto last = static_cast<size_t>(options_.repeat_last_n);
  if (options_.repeat_last_n > 0 && history.size() > last) history = history.last(last);
  const auto valid = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < candidates_.size();
  };
  for (const int32_t id : history)
    if (valid(id)) ++counts_[static_cast<size_t>(id)];
  for (const int32_t id : history) {
    if (!valid(id)) continue;
    int32_t& count = counts_[static_cast<size_t>(id)];
    if (count == 0) continue;  // a repeated token has been seen to
    float& logit = candidates_[static_cast<size_t>(id)].logit;
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit -= static_cast<float>(count) * options_.frequency_penalty + options_.presence_penalty;
    count = 0;
  }
}

void Sampler::select_top_k() {
  kept_ = candidates_.size();
  const auto k = static_cast<size_t>(std::max(options_.top_k, 0));
  if (k == 0 || k >= kept_) return;
  const auto begin = candidates_.begin();
  std::nth_element(begin, begin + static_cast<std::ptrdiff_t>(k - 1), candidates_.end(), kBetter);
  kept_ = k;
}

// The best logit. Orders only as many candidates as the threshold needs: the best 64, then 512, ...
double Sampler::keep_top_p() {
  const auto begin = candidates_.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(kept_);
  const float best = std::min_element(begin, end, kBetter)->logit;
  if (options_.top_p >= 1) return best;
  const auto weight = [best](const Candidate& c) {
    return std::exp(static_cast<double>(c.logit) - best);
  };
  double total = 0;
  for (auto c = begin; c != end; ++c) total += weight(*c);
  const double wanted = static_cast<double>(options_.top_p) * total;
  double sum = 0;
  std::ptrdiff_t sorted = 0;
  for (std::ptrdiff_t i = 0; i < end - begin; ++i) {
    if (i == sorted) {
      sorted = std::min(end - begin, std::max<std::ptrdiff_t>(64, sorted * 8));
      std::partial_sort(begin + i, begin + sorted, end, kBetter);
    }
    sum += weight(begin[i]);
    if (sum >= wanted) {
      kept_ = static_cast<size_t>(i) + 1;
      break;
    }
  }
  return best;
}

int32_t Sampler::draw() {
  const double best = keep_top_p();
  const auto begin = candidates_.begin();
  // A fixed order, so that the draw does not depend on how the library selects. Without a selection
  // it is there.
  const auto end = begin + static_cast<std::ptrdiff_t>(kept_);
  const auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
  if (!std::is_sorted(begin, end, by_id)) std::sort(begin, end, by_id);
  // min_p of the best probability is a bound on the logit.
  const double bound = options_.min_p > 0 ? best + std::log(static_cast<double>(options_.min_p))
                                          : -std::numeric_limits<double>::infinity();
  double total = 0;
  size_t last = 0;
  for (size_t i = 0; i < kept_; ++i) {
    const double logit = candidates_[i].logit;
    const bool keep = logit >= bound || logit == best;
    weights_[i] = keep ? std::exp((logit - best) / static_cast<double>(options_.temperature)) : 0;
    total += weights_[i];
    if (weights_[i] > 0) last = i;
  }
  double rest = next_uniform() * total;
  for (size_t i = 0; i < last; ++i) {
    rest -= weights_[i];
    if (rest < 0 && weights_[i] > 0) return candidates_[i].id;
  }
  return candidates_[last].id;
}

int32_t Sampler::sample(std::span<const float> logits, std::span<const int32_t> history) {
  if (logits.empty()) fail(ErrorCode::invalid_argument, "sampler: expected logits, found none");
  if (logits.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    fail(ErrorCode::invalid_argument, "sampler: {} logits are more than token ids can number",
         logits.size());
  check_logits(logits);
  candidates_.resize(logits.size());
  counts_.resize(logits.size(), 0);
  weights_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) candidates_[i] = {logits[i], static_cast<int32_t>(i)};
  apply_penalties(history);
  if (options_.temperature == 0)
    return std::min_element(candidates_.begin(), candidates_.end(), kBetter)->id;
  select_top_k();
  return draw();
}

}  // namespace rlx
