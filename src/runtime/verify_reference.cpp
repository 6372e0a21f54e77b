// Real models against the probabilities and greedy texts of a reference.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/evaluate.h"
#include "runtime/generate.h"
#include "runtime/verify.h"
#include "runtime/verify_tensors.h"

namespace rlx {
namespace {

constexpr std::int64_t kReferencePiece = 64;
constexpr double kLeastLog = -700;  // exp of it is still above 0

/// One position: the reference's top tokens with their log-probabilities, and our logits.
struct Position {
  std::span<const std::int32_t> ids;
  std::span<const float> logprobs;
  std::span<const float> logits;
};

double log_rest(double sum) { return sum < 1 ? std::log1p(-sum) : kLeastLog; }

double divergence(const Position& p) {
  const double norm = log_sum_exp(p.logits);
  double kl = 0, reference_sum = 0, our_sum = 0;
  for (std::size_t i = 0; i < p.ids.size(); ++i) {
    const double reference = p.logprobs[i],
                 ours = std::max(p.logits[static_cast<std::size_t>(p.ids[i])] - norm, kLeastLog);
    kl += std::exp(reference) * (reference - ours);
    reference_sum += std::exp(reference);
    our_sum += std::exp(ours);
  }
  // The tokens outside the list count as one.
  const double rest = 1 - reference_sum;
  if (rest > 0) kl += rest * (std::log(rest) - std::max(log_rest(our_sum), kLeastLog));
  return std::max(kl, 0.0);
}

bool same_top(const Position& p) {
  const auto best = std::max_element(p.logprobs.begin(), p.logprobs.end()) - p.logprobs.begin();
  return std::max_element(p.logits.begin(), p.logits.end()) - p.logits.begin() ==
         p.ids[static_cast<std::size_t>(best)];
}

TextDistance text_distance(Decoder& decoder, const ReferenceTensors& tensors,
                           const std::string& stem) {
  const std::vector<std::int32_t> ids = tensors.ids(stem + ".ids", 1),
                                  top = tensors.ids(stem + ".top_ids", 2);
  const std::vector<float> logprobs = tensors.floats(stem + ".top_logprobs", 2);
  const std::vector<std::int64_t>& shape = tensors.find(stem + ".top_ids", 2).shape;
  const std::int64_t vocab = decoder.info().vocab;
  if (shape != tensors.find(stem + ".top_logprobs", 2).shape ||
      shape[0] != static_cast<std::int64_t>(ids.size()) || shape[1] < 1 || ids.empty())
    fail(ErrorCode::shape, "{}: {}: expected top_ids and top_logprobs of {} rows", tensors.path(),
         stem, ids.size());
  for (const std::int32_t id : top)
    if (id >= vocab)
      fail(ErrorCode::format, "{}: {}.top_ids: a token {} outside the vocabulary of {}",
           tensors.path(), stem, id, vocab);
  const auto width = static_cast<std::size_t>(shape[1]);
  decoder.truncate(0);
  TextDistance out;
  for (std::size_t at = 0; at < ids.size(); at += kReferencePiece) {
    const std::size_t n = std::min<std::size_t>(kReferencePiece, ids.size() - at);
    const std::span<const float> logits =
        decoder.step(std::span<const std::int32_t>(ids).subspan(at, n), Decoder::Want::all);
    for (std::size_t r = 0; r < n; ++r) {
      const Position p{
          std::span<const std::int32_t>(top).subspan((at + r) * width, width),
          std::span<const float>(logprobs).subspan((at + r) * width, width),
          logits.subspan(r * static_cast<std::size_t>(vocab), static_cast<std::size_t>(vocab))};
      const double kl = divergence(p);
      out.mean_kl += kl;
      out.max_kl = std::max(out.max_kl, kl);
      out.top1 += same_top(p) ? 1 : 0;
    }
  }
  out.mean_kl /= static_cast<double>(ids.size());
  out.top1 /= static_cast<double>(ids.size());
  return out;
}

ChatMatch chat_match(Decoder& decoder, const ReferenceTensors& tensors, const std::string& stem) {
  const std::vector<std::int32_t> prompt = tensors.ids(stem + ".prompt", 1),
                                  expected = tensors.ids(stem + ".greedy", 1);
  const std::vector<float> margins = tensors.floats(stem + ".margins", 1);
  if (margins.size() != expected.size())
    fail(ErrorCode::shape, "{}: {}.margins: expected {} values, found {}", tensors.path(), stem,
         expected.size(), margins.size());
  decoder.truncate(0);
  SamplerOptions sampling;
  sampling.temperature = 0;
  Sampler sampler(sampling);
  GenerateOptions options;
  options.max_tokens = static_cast<std::int64_t>(expected.size());
  const GenerateResult got = generate(decoder, prompt, 0, sampler, options, [](std::int32_t) {});
  if (got.reason == FinishReason::error) fail(ErrorCode::device, "{}: {}", stem, got.error);
  double least = margins.empty() ? 0 : margins[0];
  for (std::size_t i = 0; i < expected.size(); ++i) {
    least = std::min<double>(least, margins[i]);
    if (i >= got.ids.size() || got.ids[i] != expected[i])
      return {static_cast<std::int64_t>(i), margins[i], least};
  }
  return {};
}

}  // namespace

ReferenceResult verify_reference(Decoder& decoder, const std::filesystem::path& reference) {
  const ReferenceTensors tensors(reference);
  ReferenceResult out;
  for (const std::string& stem : tensors.stems(".top_ids"))
    out.texts.push_back(text_distance(decoder, tensors, stem));
  for (const std::string& stem : tensors.stems(".greedy"))
    out.chats.push_back(chat_match(decoder, tensors, stem));
  if (out.texts.empty() && out.chats.empty())
    fail(ErrorCode::format, "{}: expected tensors text.K.top_ids or chat.K.greedy, found none",
         tensors.path());
  return out;
}

}  // namespace rlx
