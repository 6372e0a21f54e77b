#include "runtime/chat_session.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace rlx {
namespace {

Json message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

}  // namespace

GenerateResult generate_text(TextModel& model, std::span<const std::int32_t> prompt,
                             std::int64_t cached, Sampler& sampler, const GenerateOptions& options,
                             const std::function<void(std::string_view)>& on_text) {
  StreamDecoder words(model.tokenizer(), true);
  for (const std::int32_t id : prompt) words.push(id);
  const auto show = [&](const std::string& text) {
    if (!text.empty()) on_text(text);
  };
  GenerateResult result = generate(model.decoder(), prompt, cached, sampler, options,
                                   [&](std::int32_t id) { show(words.push(id)); });
  if (!result.ids.empty()) show(words.finish());
  return result;
}

ChatSession::ChatSession(TextModel& model, const SamplerOptions& sampling, GenerateOptions options)
    : model_(model), sampler_(sampling), options_(std::move(options)) {
  options_.ends = model_.ends();
}

void ChatSession::set_system(std::string text) { system_ = std::move(text); }

void ChatSession::clear() { messages_ = Json::array(); }

std::int64_t ChatSession::reuse(const std::vector<std::int32_t>& prompt) {
  const std::size_t most = std::min(cached_.size(), prompt.size() - 1);
  const auto [mine, theirs] = std::mismatch(
      cached_.begin(), cached_.begin() + static_cast<std::ptrdiff_t>(most), prompt.begin());
  static_cast<void>(theirs);
  cached_.erase(mine, cached_.end());
  const std::int64_t common = model_.decoder().truncate(
      static_cast<std::int64_t>(cached_.size()), options_.sequence);
  cached_.resize(static_cast<std::size_t>(common));
  return common;
}

GenerateResult ChatSession::ask(std::string_view user,
                                const std::function<void(std::string_view)>& on_text) {
  Json turn = Json::array();
  if (!system_.empty()) turn.push_back(message("system", system_));
  for (const Json& m : messages_) turn.push_back(m);
  turn.push_back(message("user", user));
  const std::vector<std::int32_t> prompt =
      model_.chat_prompt(turn, nullptr, {{"add_generation_prompt", true}});
  if (prompt.empty())
    fail(ErrorCode::format, "{}: the chat template gave an empty prompt",
         model_.decoder().model().path.string());
  require_fits(static_cast<std::int64_t>(prompt.size()), model_.decoder().context());

  std::string answer;
  const std::int64_t cached = reuse(prompt);
  const auto show = [&](std::string_view text) {
    answer += text;
    on_text(text);
  };
  GenerateResult result = generate_text(model_, prompt, cached, sampler_, options_, show);
  // What the cache holds now: the part of prompt and answer that was stepped.
  cached_ = prompt;
  cached_.insert(cached_.end(), result.ids.begin(), result.ids.end());
  cached_.resize(static_cast<std::size_t>(model_.decoder().past(options_.sequence)));
  messages_.push_back(message("user", user));
  messages_.push_back(message("assistant", answer));
  return result;
}

}  // namespace rlx
