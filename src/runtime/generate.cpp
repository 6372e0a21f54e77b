#include "runtime/generate.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace rlx {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double rate(double tokens, double ms) { return ms > 0 ? tokens * 1000 / ms : 0; }

bool wants_stop(const GenerateOptions& o) { return o.cancelled && o.cancelled(); }

// The prompt goes in chunk by chunk, so that a long one can be cancelled. Empty when it was.
std::span<const float> read_prompt(Decoder& decoder, std::span<const std::int32_t> tokens,
                                   const GenerateOptions& o) {
  const auto chunk = static_cast<std::size_t>(decoder.options().chunk);
  for (std::size_t at = 0;; at += chunk) {
    if (wants_stop(o)) return {};
    const std::span<const std::int32_t> part =
        tokens.subspan(at, std::min(chunk, tokens.size() - at));
    const bool last = at + part.size() == tokens.size();
    const Decoder::Part step{o.sequence, part, last ? Decoder::Want::last : Decoder::Want::none};
    const std::span<const float> logits = decoder.step({&step, 1});
    if (last) return logits;
  }
}

// Room for every token that can come, so that a decode step allocates nothing.
std::int64_t most_tokens(const GenerateOptions& o, std::int64_t prompt, std::int64_t context) {
  const std::int64_t room = context - prompt + 1;  // the last token needs no place in the cache
  return o.max_tokens < 0 ? room : std::min(o.max_tokens, room);
}

class Run {
 public:
  Run(Decoder& decoder, Sampler& sampler, const GenerateOptions& options, GenerateResult& result)
      : decoder_(decoder), sampler_(sampler), options_(options), result_(result) {}

  void decode(std::span<const float> logits, std::span<const std::int32_t> prompt,
              std::int64_t most, const std::function<void(std::int32_t)>& on_token) {
    std::vector<std::int32_t> history(prompt.begin(), prompt.end());
    history.reserve(prompt.size() + static_cast<std::size_t>(most));
    result_.ids.reserve(static_cast<std::size_t>(most));
    const Clock::time_point start = Clock::now();
    double shown_ms = 0;  // the caller's time is not decode time
    while (static_cast<std::int64_t>(result_.ids.size()) < most) {
      const std::optional<std::int32_t> token = choose(logits, history);
      if (!token) break;
      result_.ids.push_back(*token);
      history.push_back(*token);
      const Clock::time_point show = Clock::now();
      on_token(*token);
      shown_ms += ms_since(show);
      if (static_cast<std::int64_t>(result_.ids.size()) == most) break;
      if (wants_stop(options_)) {
        result_.reason = FinishReason::cancelled;
        break;
      }
      logits = step(*token);
    }
    result_.decode_ms = ms_since(start) - shown_ms;
  }

 private:
  // Nothing when the text ends here.
  std::optional<std::int32_t> choose(std::span<const float> logits,
                                     std::span<const std::int32_t> history) {
    std::int32_t token = 0;
    try {
      token = sampler_.sample(logits, history);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::device) throw;
      result_.reason = FinishReason::error;
      result_.error = e.what();
      return std::nullopt;
    }
    if (std::find(options_.ends.begin(), options_.ends.end(), token) == options_.ends.end())
      return token;
    result_.reason = FinishReason::stop;
    return std::nullopt;
  }

  std::span<const float> step(std::int32_t token) {
    const std::int64_t before = options_.allocations ? options_.allocations() : 0;
    const Decoder::Part part{options_.sequence, {&token, 1}, Decoder::Want::last};
    const std::span<const float> logits = decoder_.step({&part, 1});
    if (options_.allocations && result_.decode_steps > 0)
      result_.step_allocations += options_.allocations() - before;
    ++result_.decode_steps;
    return logits;
  }

  Decoder& decoder_;
  Sampler& sampler_;
  const GenerateOptions& options_;
  GenerateResult& result_;
};

}  // namespace

std::string_view name(FinishReason reason) {
  constexpr std::string_view names[] = {"stop", "length", "error", "stop"};
  return names[static_cast<std::size_t>(reason)];
}

double GenerateResult::prompt_per_second() const {
  return rate(static_cast<double>(prompt_tokens - cached_tokens), prompt_ms);
}
double GenerateResult::decode_per_second() const {
  return rate(static_cast<double>(decode_steps), decode_ms);
}

void require_fits(std::int64_t prompt_tokens, std::int64_t context) {
  if (prompt_tokens > context)
    fail(ErrorCode::limit,
         "the prompt has {} tokens, the context holds {}: shorten it, or raise the context (-c)",
         prompt_tokens, context);
}

GenerateResult generate(Decoder& decoder, std::span<const std::int32_t> prompt, std::int64_t cached,
                        Sampler& sampler, const GenerateOptions& options,
                        const std::function<void(std::int32_t)>& on_token) {
  const auto count = static_cast<std::int64_t>(prompt.size());
  if (prompt.empty())
    fail(ErrorCode::invalid_argument, "the prompt has no token: expected at least one");
  require_fits(count, decoder.context());
  RLX_CHECK(cached >= 0 && cached < count && decoder.past(options.sequence) == cached);
  GenerateResult result;
  result.prompt_tokens = count;
  result.cached_tokens = cached;
  const Clock::time_point start = Clock::now();
  const std::span<const float> logits =
      read_prompt(decoder, prompt.subspan(static_cast<std::size_t>(cached)), options);
  result.prompt_ms = ms_since(start);
  if (logits.empty()) {
    result.reason = FinishReason::cancelled;
    return result;
  }
  Run(decoder, sampler, options, result)
      .decode(logits, prompt, most_tokens(options, count, decoder.context()), on_token);
  return result;
}

}  // namespace rlx
