// A conversation with a model: its history, and the reuse of what the cache already holds of it.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/generate.h"
#include "runtime/text_model.h"

namespace rlx {

class ChatSession {
 public:
  /// `model` must outlive the session. `ends` of `options` is set to the model's end tokens.
  ChatSession(TextModel& model, const SamplerOptions& sampling, GenerateOptions options);

  /// Replaces the system message; empty: none. Answers so far stay.
  void set_system(std::string text);
  void clear();

  /// One turn: the user's text, then the model's answer, given to `on_text` as it becomes certain.
  /// A turn that fails (the prompt passes the context, a template that raises) leaves the history
  /// as it was.
  GenerateResult ask(std::string_view user, const std::function<void(std::string_view)>& on_text);

  const Json& messages() const { return messages_; }

 private:
  /// Tokens of the prompt that the cache holds already; the cache is cut to them. At least one
  /// token is left to step.
  std::int64_t reuse(const std::vector<std::int32_t>& prompt);

  TextModel& model_;
  Sampler sampler_;
  GenerateOptions options_;
  Json messages_ = Json::array();
  std::string system_;
  std::vector<std::int32_t> cached_;  ///< tokens that the cache holds, in order
};

/// Generates and hands out text instead of tokens. The decoder of the text has read the prompt
/// first, so that the text continues it: a first word keeps its space, and a character that the
/// prompt began is completed.
GenerateResult generate_text(TextModel& model, std::span<const std::int32_t> prompt,
                             std::int64_t cached, Sampler& sampler, const GenerateOptions& options,
                             const std::function<void(std::string_view)>& on_text);

}  // namespace rlx
