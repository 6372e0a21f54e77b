#include "models/hints.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"

namespace rlx {
namespace {

/// Checks values of one file against their ranges.
class Checker {
 public:
  Checker(const std::string& file, std::int64_t vocab) : file_(file), vocab_(vocab) {}

  std::int32_t token(std::string_view key, std::int64_t id) const {
    if (id < 0 || id >= vocab_)
      fail(ErrorCode::format, "{}: {}: expected a token 0 to {}, found {}", file_, key, vocab_ - 1,
           id);
    return static_cast<std::int32_t>(id);
  }
  void add_end(std::string_view key, std::int64_t id, std::vector<std::int32_t>& eos) const {
    const std::int32_t t = token(key, id);
    if (std::find(eos.begin(), eos.end(), t) == eos.end()) eos.push_back(t);
  }
  std::optional<double> number(std::string_view key, std::optional<double> v, double least,
                               double most) const {
    if (v && !(*v >= least && *v <= most))
      fail(ErrorCode::format, "{}: {}: expected {} to {}, found {}", file_, key, least, most, *v);
    return v;
  }
  std::optional<std::int64_t> integer(std::string_view key, std::optional<std::int64_t> v) const {
    if (v && (*v < -1 || *v > INT32_MAX))
      fail(ErrorCode::format, "{}: {}: expected 0 (off) to {}, found {}", file_, key, INT32_MAX,
           *v);
    return v ? std::optional(std::max<std::int64_t>(*v, 0)) : v;  // -1 means off, too
  }

 private:
  const std::string& file_;
  std::int64_t vocab_;
};

constexpr double kMaxTemperature = 100.0, kMaxPenalty = 100.0, kLeastPenalty = 1e-3;

}  // namespace

ModelHints read_hints(const GgufFile& file, std::int64_t vocab) {
  const Checker check(file.path(), vocab);
  ModelHints h;
  for (const std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"})
    if (const std::optional<std::int64_t> id = file.get_int(key)) check.add_end(key, *id, h.eos);
  const auto token = [&](std::string_view key) -> std::optional<std::int32_t> {
    const std::optional<std::int64_t> id = file.get_int(key);
    return id ? std::optional(check.token(key, *id)) : std::nullopt;
  };
  h.bos = token("tokenizer.ggml.bos_token_id");
  h.pad = token("tokenizer.ggml.padding_token_id");
  const auto number = [&](std::string_view key, double least, double most) {
    return check.number(key, file.get_float(key), least, most);
  };
  h.temperature = number("general.sampling.temp", 0.0, kMaxTemperature);
  h.top_k = check.integer("general.sampling.top_k", file.get_int("general.sampling.top_k"));
  h.top_p = number("general.sampling.top_p", 0.0, 1.0);
  h.min_p = number("general.sampling.min_p", 0.0, 1.0);
  h.repetition_penalty = number("general.sampling.penalty_repeat", kLeastPenalty, kMaxPenalty);
  return h;
}

ModelHints read_hints(const HubConfig& config, const HubConfig* generation, std::int64_t vocab) {
  ModelHints h;
  // The generation config is the newer of the two and may name more ends (<|im_end|> beside
  // <|endoftext|>): it comes first.
  for (const HubConfig* source : {generation, &config}) {
    if (!source || !h.eos.empty()) continue;
    const Checker check(source->file(), vocab);
    for (const std::int64_t id : source->integers("eos_token_id"))
      check.add_end("eos_token_id", id, h.eos);
  }
  const auto token = [&](std::string_view key) -> std::optional<std::int32_t> {
    for (const HubConfig* source : {generation, &config})
      if (const std::vector<std::int64_t> ids =
              source ? source->integers(key) : std::vector<std::int64_t>{};
          !ids.empty())
        return ids[0] < 0 ? std::nullopt
                          : std::optional(Checker(source->file(), vocab).token(key, ids[0]));
    return std::nullopt;
  };
  h.bos = token("bos_token_id");
  h.pad = token("pad_token_id");
  if (!generation) return h;
  const Checker check(generation->file(), vocab);
  const auto number = [&](std::string_view key, double least, double most) {
    return check.number(key, generation->number(key), least, most);
  };
  h.do_sample = generation->flag("do_sample");
  h.temperature = number("temperature", 0.0, kMaxTemperature);
  h.top_k = check.integer("top_k", generation->integer("top_k"));
  h.top_p = number("top_p", 0.0, 1.0);
  h.min_p = number("min_p", 0.0, 1.0);
  h.repetition_penalty = number("repetition_penalty", kLeastPenalty, kMaxPenalty);
  return h;
}

}  // namespace rlx
