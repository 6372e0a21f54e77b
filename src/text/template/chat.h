// The chat template of a model: what a conversation looks like to it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/template/template.h"

namespace rlx {

/// What a template can express, found by rendering small conversations and looking for their words
/// in the result.
struct ChatCaps {
  bool system_role = false;          ///< the text of a system message reaches the prompt
  bool tools = false;                ///< the names of the tools reach the prompt
  bool tool_calls = false;           ///< the calls of an assistant message reach the prompt
  bool parallel_tool_calls = false;  ///< two calls in one message do
  bool tool_results = false;         ///< the text of a tool message does
  bool object_arguments = false;     ///< call arguments are used as a mapping (not only as text)
  bool typed_content =
      false;  ///< content given as a list of {"type": "text", "text": ...} reaches the prompt
  bool reasoning = false;  ///< reasoning_content of a message before the last user message is kept
};

/// Chat template with the model's special tokens. It is parsed when first used, so that a model
/// with a broken template loads and only its chat requests fail (faults.md, C01). Safe to use from
/// several threads at once.
class ChatTemplate {
 public:
  /// `bos` and `eos` are the texts of the tokens, empty when the model has none.
  ChatTemplate(std::string source, std::string bos, std::string eos,
               std::string name = "chat_template");

  /// Renders as HF's apply_chat_template does: variables are messages, tools (none when null or
  /// empty), documents (none), add_generation_prompt (false), bos_token, eos_token and the keys of
  /// the object `arguments`, which win. Differences (faults.md): call arguments that are a JSON
  /// text become a mapping, and the render is repeated with the text when the template adds it to
  /// strings (C05); text that is not JSON is an error; with `continue_final_message` in `arguments`
  /// the result ends exactly with the last message's content (C10). Errors: invalid_argument for
  /// messages of a wrong shape and for failed renders, format for a broken template.
  RenderResult render(const Json& messages, const Json& tools, const Json& arguments,
                      const RenderOptions& options = {}) const;
  /// The same without tools and arguments.
  RenderResult render(const Json& messages) const;

  /// Renders exactly what is given, without any of the differences above: what `rlx render` prints.
  RenderResult render_plain(const Json& messages, const Json& tools, const Json& arguments,
                            const RenderOptions& options = {}) const;

  /// Found by probes when first asked. A probe that fails means "no" and has no other effect (C07).
  /// Throws TemplateError (format) for a broken template.
  const ChatCaps& caps() const;

  /// True when the rendered `text` starts with the beginning-of-sequence token, so that the
  /// tokenizer must not add another (C08).
  bool starts_with_bos(std::string_view text) const;

  const std::string& source() const;
  const std::string& bos() const;
  const std::string& eos() const;

 private:
  struct State;
  const Template& parsed() const;
  std::shared_ptr<State> state_;
};

}  // namespace rlx
