#include "runtime/embed.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/text_model.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace rlx {
namespace {

EmbedConfig config_of(const LoadedModel& model, const EmbedOptions& options) {
  const ModelInfo& info = model.model.info;
  if (info.kind != ModelKind::encoder && info.kind != ModelKind::seq2seq)
    fail(ErrorCode::unsupported, "{}: {} is of the kind {}; expected an encoder of texts", model.path.string(),
         info.architecture, name(info.kind));
  EmbedConfig config = read_embed_config(model, options.pooling);
  if (options.normalize) config.normalize = *options.normalize;
  return config;
}

// Sums over rows are in double: texts of thousands of tokens keep all digits of their mean.
void add_pooled(Pooling pooling, std::span<const float> rows, std::size_t hidden, std::size_t first, TextVector& out) {
  const std::size_t n = rows.size() / hidden;
  const auto row = [&](std::size_t i) { return rows.subspan(i * hidden, hidden); };
  if (pooling == Pooling::cls || pooling == Pooling::last) {
    const std::span<const float> one = row(pooling == Pooling::cls ? 0 : n - 1);
    out.insert(out.end(), one.begin(), one.end());
    return;
  }
  if (pooling == Pooling::max) {
    const std::size_t at = out.size();
    out.insert(out.end(), row(first).begin(), row(first).end());
    for (std::size_t i = first + 1; i < n; ++i)
      for (std::size_t h = 0; h < hidden; ++h) out[at + h] = std::max(out[at + h], row(i)[h]);
    return;
  }
  std::vector<double> sum(hidden, 0.0);
  double weights = 0;
  for (std::size_t i = first; i < n; ++i) {
    const double w = pooling == Pooling::weighted ? static_cast<double>(i + 1) : 1.0;
    weights += w;
    for (std::size_t h = 0; h < hidden; ++h) sum[h] += w * double{row(i)[h]};
  }
  const double divisor = pooling == Pooling::mean_sqrt ? std::sqrt(weights) : weights;
  for (const double s : sum) out.push_back(static_cast<float>(s / divisor));
}

void normalize_length(TextVector& e) {
  double squares = 0;
  for (const float v : e) squares += double{v} * double{v};
  const double length = std::max(std::sqrt(squares), 1e-12);  // zeros stay zeros, as with the reference
  for (float& v : e) v = static_cast<float>(double{v} / length);
}

}  // namespace

// In this order: what is wrong with the files is said before anything is compiled.
Embedder::Embedder(LoadedModel model, const EmbedOptions& options)
    : config_(config_of(model, options)),
      tokenizer_(tokenizer_of(model)),
      most_rows_(options.rows),
      model_(std::move(model), options.encoder) {
  if (!config_.pool_prompt && !config_.prompt.empty()) skipped_ = prompt_tokens();
}

std::int64_t Embedder::size() const { return info().hidden * static_cast<std::int64_t>(config_.pooling.size()); }

/// Without the special token that ends a text: the text itself follows there.
std::int64_t Embedder::prompt_tokens() const {
  const std::vector<std::int32_t> ids = tokenizer_.encode(config_.prompt);
  const bool ends = !ids.empty() && tokenizer_.is_special(ids.back());
  return static_cast<std::int64_t>(ids.size()) - (ends ? 1 : 0);
}

std::vector<std::int32_t> Embedder::tokens(std::string_view text) const {
  std::string whole = config_.prompt + std::string(text);
  if (config_.lowercase) whole = tokenizer::lowercase(tokenizer::to_utf8(whole));
  std::vector<std::int32_t> ids = tokenizer_.encode(whole);
  if (ids.empty())
    fail(ErrorCode::invalid_argument, "no token, and this tokenizer adds none: expected a text that is not empty");
  const auto most = static_cast<std::size_t>(config_.max_tokens);
  if (most == 0 || ids.size() <= most) return ids;
  const std::vector<std::int32_t> plain = tokenizer_.encode(whole, {false, true});
  const std::size_t added = ids.size() - plain.size();
  if (added >= most)
    fail(ErrorCode::format, "{}: a limit of {} tokens has no room beside the {} special tokens of a text",
         model_.model().path.string(), most, added);
  // The tokens of the text itself stand where they are found first; what is around them stays.
  const auto begin = std::search(ids.begin(), ids.end(), plain.begin(), plain.end());
  const auto kept = static_cast<std::ptrdiff_t>(most - added);
  ids.erase(begin + kept, begin + static_cast<std::ptrdiff_t>(plain.size()));
  return ids;
}

TextVector Embedder::pool(std::span<const float> rows) const {
  const auto hidden = static_cast<std::size_t>(info().hidden), n = rows.size() / hidden;
  TextVector e;
  e.reserve(static_cast<std::size_t>(size()));
  // A text that is cut within its prompt still has a last row.
  const std::size_t first = std::min(static_cast<std::size_t>(skipped_), n - 1);
  for (const Pooling p : config_.pooling) add_pooled(p, rows, hidden, first, e);
  if (config_.normalize) normalize_length(e);
  if (!std::all_of(e.begin(), e.end(), [](float v) { return std::isfinite(v); }))
    fail(ErrorCode::format, "{}: an embedding is not finite: expected weights whose hidden rows are",
         model_.model().path.string());
  return e;
}

std::vector<TextVector> Embedder::embed_tokens(std::span<const std::vector<std::int32_t>> ids) {
  std::vector<TextVector> all;
  all.reserve(ids.size());
  for (std::size_t begin = 0; begin < ids.size();) {
    std::vector<TokenSequence> batch;
    std::int64_t rows = 0;
    for (std::size_t i = begin; i < ids.size(); ++i) {
      rows += static_cast<std::int64_t>(ids[i].size());
      if (rows > most_rows_ && !batch.empty()) break;
      batch.push_back({ids[i], {}});
    }
    const HiddenRows hidden = model_.run(batch);
    for (std::int64_t i = 0; i < hidden.batch(); ++i) all.push_back(pool(hidden.sequence(i)));
    begin += batch.size();
  }
  return all;
}

std::vector<TextVector> Embedder::embed(std::span<const std::string> texts) {
  std::vector<std::vector<std::int32_t>> ids;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    try {
      ids.push_back(tokens(texts[i]));
    } catch (const Error& e) {
      throw Error(e.code(), texts.size() == 1 ? e.what() : fmt::format("text {}: {}", i + 1, e.what()));
    }
  }
  return embed_tokens(ids);
}

}  // namespace rlx
