// Where each sampling option comes from.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "runtime/generate.h"

namespace rlx {
namespace {

struct Range {
  double least, most;
};

double checked(std::string_view flag, double value, Range range) {
  if (!(value >= range.least && value <= range.most))
    fail(ErrorCode::usage, "{}: expected {} to {}, found {}", flag, range.least, range.most, value);
  return value;
}

/// Chooses values and notes their origin.
class Chooser {
 public:
  template <typename T>
  T pick(std::string_view label, const std::optional<T>& wish, const std::optional<T>& hint,
         T otherwise) {
    const T value = wish ? *wish : hint ? *hint : otherwise;
    note(label, fmt::format("{}", value), wish ? "flag" : hint ? "model" : "default");
    return value;
  }
  void note(std::string_view label, std::string_view value, std::string_view from) {
    text_ += fmt::format("{}{} {} ({})", text_.empty() ? "" : ", ", label, value, from);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void check(const SamplingWishes& w) {
  constexpr double large = std::numeric_limits<std::int32_t>::max();
  const auto number = [](std::string_view flag, const std::optional<double>& v, Range range) {
    if (v) checked(flag, *v, range);
  };
  number("--temp", w.temperature, {0, 100});
  number("--top-p", w.top_p, {0, 1});
  number("--min-p", w.min_p, {0, 1});
  number("--repeat-penalty", w.repeat_penalty, {0.001, 100});
  number("--presence-penalty", w.presence_penalty, {-2, 2});
  number("--frequency-penalty", w.frequency_penalty, {-2, 2});
  if (w.top_k) checked("--top-k", static_cast<double>(*w.top_k), {0, large});
  if (w.seed && *w.seed < -1)
    fail(ErrorCode::usage, "--seed: expected -1 (random) or above, found {}", *w.seed);
}

}  // namespace

SamplerOptions resolve_sampling(const SamplingWishes& w, const ModelHints& hints,
                                std::string* origin) {
  check(w);
  const SamplerOptions d;
  const auto same = [](float v) { return std::stod(fmt::format("{}", v)); };  // 0.8f as 0.8
  Chooser choose;
  SamplerOptions o;
  std::optional<double> temperature = hints.temperature;
  if (hints.do_sample == false) temperature = 0.0;
  o.temperature = static_cast<float>(
      choose.pick("temperature", w.temperature, temperature, same(d.temperature)));
  o.top_k = static_cast<int>(
      choose.pick("top-k", w.top_k, hints.top_k, static_cast<std::int64_t>(d.top_k)));
  o.top_p = static_cast<float>(choose.pick("top-p", w.top_p, hints.top_p, same(d.top_p)));
  o.min_p = static_cast<float>(choose.pick("min-p", w.min_p, hints.min_p, same(d.min_p)));
  o.repeat_penalty = static_cast<float>(choose.pick(
      "repeat-penalty", w.repeat_penalty, hints.repetition_penalty, same(d.repeat_penalty)));
  o.presence_penalty = static_cast<float>(w.presence_penalty.value_or(d.presence_penalty));
  o.frequency_penalty = static_cast<float>(w.frequency_penalty.value_or(d.frequency_penalty));
  o.seed = w.seed.value_or(d.seed);
  if (origin != nullptr) *origin = choose.take();
  return o;
}

}  // namespace rlx
