#include "runtime/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace rlx {
namespace {

// Rows whose logits exist at once: a chunk of a large vocabulary would take a GiB.
constexpr std::int64_t kEvaluatedPiece = 64;

/// Walks the chunks of a text. `visit` gets the index of the predicted token in the chunk and one
/// row of logits per decoder.
class Chunks {
 public:
  Chunks(std::span<const std::int32_t> tokens, const EvalOptions& o) : tokens_(tokens), o_(o) {
    if (o.chunk < 2)
      fail(ErrorCode::usage, "-c: expected a chunk of 3 tokens or more, found {}", o.chunk);
    if (static_cast<std::int64_t>(tokens.size()) < 2 * o.chunk)
      fail(ErrorCode::usage, "the text has {} tokens: expected at least 2 chunks of {}; -c {} or less would do",
           tokens.size(), o.chunk, tokens.size() / 2);
    count_ = static_cast<std::int64_t>(tokens.size()) / o.chunk;
  }

  std::int64_t count() const { return count_; }

  /// The tokens that are stepped: the last of a chunk is only predicted.
  std::vector<std::int32_t> chunk(std::int64_t c) const {
    const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(c * o_.chunk);
    std::vector<std::int32_t> out(first, first + static_cast<std::ptrdiff_t>(o_.chunk));
    if (o_.bos >= 0) out.front() = o_.bos;
    return out;
  }

  /// Steps the first half for no logits, the rest in pieces.
  template <typename Visit>
  void run(std::int64_t c, std::span<Decoder* const> decoders, Visit&& visit) const {
    const std::vector<std::int32_t> tokens = chunk(c);
    const std::span<const std::int32_t> all(tokens);
    const std::size_t half = tokens.size() / 2, end = tokens.size() - 1;
    for (Decoder* d : decoders) {
      d->truncate(0);
      if (half > 0) d->step(all.first(half), Decoder::Want::none);
    }
    std::vector<std::span<const float>> logits(decoders.size());
    for (std::size_t at = half; at < end; at += kEvaluatedPiece) {
      if (o_.cancelled && o_.cancelled()) return;
      const std::size_t n = std::min<std::size_t>(kEvaluatedPiece, end - at);
      for (std::size_t i = 0; i < decoders.size(); ++i)
        logits[i] = decoders[i]->step(all.subspan(at, n), Decoder::Want::all);
      for (std::size_t r = 0; r < n; ++r) visit(tokens[at + r + 1], logits, r);
    }
  }

 private:
  std::span<const std::int32_t> tokens_;
  const EvalOptions& o_;
  std::int64_t count_ = 0;
};

std::span<const float> row(std::span<const float> logits, std::size_t r, std::int64_t vocab) {
  return logits.subspan(r * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab));
}

std::size_t argmax(std::span<const float> v) {
  return static_cast<std::size_t>(std::max_element(v.begin(), v.end()) - v.begin());
}

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  float most = -HUGE_VALF;
  for (const float v : logits) {
    if (std::isnan(v) || v == HUGE_VALF)
      fail(ErrorCode::device, "the model computed a logit that is {}",
           std::isnan(v) ? "NaN" : "infinite");
    most = std::max(most, v);
  }
  if (most == -HUGE_VALF) fail(ErrorCode::device, "the model computed no finite logit");
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - most);
  return most + std::log(sum);
}

Perplexity perplexity(Decoder& decoder, std::span<const std::int32_t> tokens,
                      const EvalOptions& options) {
  const Chunks chunks(tokens, options);
  Decoder* const decoders[] = {&decoder};
  const std::int64_t vocab = decoder.info().vocab;
  double sum = 0, squares = 0;
  Perplexity out;
  for (std::int64_t c = 0; c < chunks.count(); ++c) {
    chunks.run(
        c, decoders,
        [&](std::int32_t next, const std::vector<std::span<const float>>& logits, std::size_t r) {
          const std::span<const float> v = row(logits[0], r, vocab);
          const double nll = log_sum_exp(v) - v[static_cast<std::size_t>(next)];
          sum += nll;
          squares += nll * nll;
          ++out.tokens;
        });
    if (options.cancelled && options.cancelled()) return out;
    if (options.progress)
      options.progress(c + 1, chunks.count(), std::exp(sum / static_cast<double>(out.tokens)));
  }
  const double n = static_cast<double>(out.tokens), mean = sum / n,
               variance = squares / n - mean * mean;
  out.ppl = std::exp(mean);
  if (variance > 0 && out.tokens > 1) out.stderr_ = out.ppl * std::sqrt(variance / (n - 1));
  if (!std::isfinite(out.ppl))
    fail(ErrorCode::device, "the perplexity is not finite (mean negative log likelihood {})", mean);
  return out;
}

Distance distance(Decoder& model, Decoder& base, std::span<const std::int32_t> tokens,
                  const EvalOptions& options) {
  const std::int64_t vocab = model.info().vocab;
  if (base.info().vocab != vocab)
    fail(ErrorCode::shape, "vocabularies of {} and {} tokens cannot be compared", vocab,
         base.info().vocab);
  const Chunks chunks(tokens, options);
  Decoder* const decoders[] = {&model, &base};
  double sum = 0;
  std::int64_t same = 0;
  Distance out;
  for (std::int64_t c = 0; c < chunks.count(); ++c) {
    chunks.run(c, decoders,
               [&](std::int32_t, const std::vector<std::span<const float>>& logits, std::size_t r) {
                 const std::span<const float> ours = row(logits[0], r, vocab),
                                              theirs = row(logits[1], r, vocab);
                 const double our_norm = log_sum_exp(ours), their_norm = log_sum_exp(theirs);
                 double kl = 0;
                 for (std::size_t i = 0; i < ours.size(); ++i) {
                   const double log_p = theirs[i] - their_norm,
                                log_q = std::max(ours[i] - our_norm, -1e4);
                   kl += std::exp(log_p) * (std::max(log_p, -1e4) - log_q);
                 }
                 kl = std::max(kl, 0.0);  // below 0 by rounding alone
                 sum += kl;
                 out.max_kl = std::max(out.max_kl, kl);
                 same += argmax(ours) == argmax(theirs) ? 1 : 0;
                 ++out.tokens;
               });
    if (options.cancelled && options.cancelled()) return out;
    if (options.progress)
      options.progress(c + 1, chunks.count(), sum / static_cast<double>(out.tokens));
  }
  out.mean_kl = sum / static_cast<double>(out.tokens);
  out.top1 = static_cast<double>(same) / static_cast<double>(out.tokens);
  return out;
}

}  // namespace rlx
