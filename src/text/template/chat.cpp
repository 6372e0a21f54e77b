#include "text/template/chat.h"

#include <mutex>
#include <nlohmann/json.hpp>

namespace rlx {

struct ChatTemplate::State {
  std::string source, bos, eos, name;
  std::mutex mutex;
  std::optional<Template> parsed;
  std::optional<ChatCaps> caps;
};

namespace {

[[noreturn]] void bad_message(size_t i, const std::string& what) {
  fail(ErrorCode::invalid_argument, "messages[{}]: {}", i, what);
}

// Call arguments that are a JSON text become what they say (faults.md, C05). True when any did.
bool read_arguments(Json& call, size_t i) {
  Json* function = call.is_object() && call.contains("function") ? &call["function"] : &call;
  if (!function->is_object() || !function->contains("arguments")) return false;
  Json& arguments = (*function)["arguments"];
  if (!arguments.is_string()) return false;
  const auto& text = arguments.get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    arguments = Json::object();
    return true;
  }
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) bad_message(i, "the arguments of a tool call are not JSON");
  if (!parsed.is_object()) bad_message(i, "the arguments of a tool call must be a JSON object");
  arguments = std::move(parsed);
  return true;
}

bool read_all_arguments(Json& messages) {
  bool any = false;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) continue;
    for (Json& call : message["tool_calls"]) any = read_arguments(call, i) || any;
  }
  return any;
}

void check_messages(const Json& messages) {
  if (!messages.is_array())
    fail(ErrorCode::invalid_argument, "messages: expected a list, found {}", messages.type_name());
  if (messages.empty())
    fail(ErrorCode::invalid_argument, "messages: expected at least one message, found none");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object())
      bad_message(i, std::string("expected an object, found ") + messages[i].type_name());
    if (!messages[i].contains("role") || !messages[i]["role"].is_string())
      bad_message(i, "'role' must be a string");
  }
}

bool flag(const Json& arguments, const char* name) {
  return arguments.contains(name) && arguments[name].is_boolean() && arguments[name].get<bool>();
}

// The text of the last message; of typed parts the last text.
std::string last_text(const Json& message) {
  const Json content = message.contains("content") ? message["content"] : Json();
  if (content.is_string()) return content.get<std::string>();
  if (content.is_array())
    for (auto part = content.rbegin(); part != content.rend(); ++part)
      if (part->is_object() && part->contains("text") && (*part)["text"].is_string())
        return (*part)["text"].get<std::string>();
  fail(ErrorCode::invalid_argument,
       "continue_final_message: the last message has no text to continue");
}

void cut(RenderResult& result, size_t size) {
  result.text.resize(size);
  while (!result.user.empty() && result.user.back().begin >= size) result.user.pop_back();
  if (!result.user.empty()) result.user.back().end = std::min(result.user.back().end, size);
}

// Ends the prompt with the last message's text (faults.md, C10). White space at the end of the text
// that the template removed is put back.
void cut_at_final_message(RenderResult& result, const std::string& text) {
  constexpr const char* kSpace = " \t\r\n\f\v";
  const size_t end = text.find_last_not_of(kSpace);
  if (end == std::string::npos)
    fail(ErrorCode::invalid_argument,
         "continue_final_message: the last message has no text to continue");
  const size_t begin = text.find_first_not_of(kSpace);
  const std::string core = text.substr(begin, end + 1 - begin);
  const size_t at = result.text.rfind(core);
  if (at == std::string::npos)
    fail(ErrorCode::invalid_argument,
         "continue_final_message: the template changes the text of the last message");
  const std::string tail = text.substr(end + 1);
  cut(result, at + core.size());
  if (tail.empty()) return;
  if (!result.user.empty() && result.user.back().end == result.text.size())
    result.user.back().end += tail.size();
  else
    result.user.push_back({result.text.size(), result.text.size() + tail.size()});
  result.text += tail;
}

// A word that occurs in no template, so that finding it in a result means that the value was used.
constexpr const char* kWord = "zqxjkvw";

Json message(const char* role, const Json& content) {
  return {{"role", role}, {"content", content}};
}

Json call(const char* name, Json arguments) {
  return {{"id", "call00001"},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", std::move(arguments)}}}};
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, std::string bos, std::string eos, std::string name)
    : state_(std::make_shared<State>()) {
  state_->source = std::move(source);
  state_->bos = std::move(bos);
  state_->eos = std::move(eos);
  state_->name = std::move(name);
}

const std::string& ChatTemplate::source() const { return state_->source; }
const std::string& ChatTemplate::bos() const { return state_->bos; }
const std::string& ChatTemplate::eos() const { return state_->eos; }

const Template& ChatTemplate::parsed() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->parsed) state_->parsed = Template::parse(state_->source, state_->name);
  return *state_->parsed;
}

RenderResult ChatTemplate::render_plain(const Json& messages, const Json& tools,
                                        const Json& arguments, const RenderOptions& options) const {
  const Template& t = parsed();
  if (!arguments.is_object() && !arguments.is_null())
    fail(ErrorCode::invalid_argument, "template arguments: expected an object, found {}",
         arguments.type_name());
  Json variables = {{"messages", messages},
                    {"tools", tools},
                    {"documents", nullptr},
                    {"add_generation_prompt", false}};
  if (!state_->bos.empty()) variables["bos_token"] = state_->bos;
  if (!state_->eos.empty()) variables["eos_token"] = state_->eos;
  for (const auto& [key, value] : arguments.items()) variables[key] = value;
  return t.render(variables, options);
}

RenderResult ChatTemplate::render(const Json& messages) const {
  return render(messages, nullptr, Json::object());
}

RenderResult ChatTemplate::render(const Json& messages, const Json& tools, const Json& arguments,
                                  const RenderOptions& options) const {
  check_messages(messages);
  for (const char* reserved : {"messages", "tools"})
    if (arguments.contains(reserved))
      fail(ErrorCode::invalid_argument, "template arguments: '{}' is reserved", reserved);
  const bool go_on = flag(arguments, "continue_final_message");
  if (go_on && flag(arguments, "add_generation_prompt"))
    fail(ErrorCode::invalid_argument,
         "continue_final_message and add_generation_prompt exclude each other");
  const Json used_tools = tools.is_array() && tools.empty() ? Json() : tools;
  Json changed = messages;
  const bool any = read_all_arguments(changed);
  RenderResult result;
  try {
    result = render_plain(changed, used_tools, arguments, options);
  } catch (const TemplateError& e) {
    if (!any || e.fault() != TemplateFault::concat) throw;
    result = render_plain(messages, used_tools, arguments, options);
  }
  if (go_on) cut_at_final_message(result, last_text(messages.back()));
  return result;
}

bool ChatTemplate::starts_with_bos(std::string_view text) const {
  return !state_->bos.empty() && text.starts_with(state_->bos);
}

const ChatCaps& ChatTemplate::caps() const {
  parsed();
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->caps) return *state_->caps;
  }
  const auto shows = [&](const Json& messages, const Json& tools, const char* word) {
    try {
      return render_plain(messages, tools, Json::object()).text.find(word) != std::string::npos;
    } catch (const TemplateError&) {
      return false;
    }
  };
  const Json user = message("user", "hello");
  const Json arguments = {{"city", kWord}};
  const auto calls = [&](Json list) {
    return Json{{"role", "assistant"}, {"content", ""}, {"tool_calls", std::move(list)}};
  };
  const Json answer = {
      {"role", "tool"}, {"tool_call_id", "call00001"}, {"name", "look"}, {"content", kWord}};
  const Json tool = {{"type", "function"},
                     {"function",
                      {{"name", kWord},
                       {"description", "d"},
                       {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}};
  ChatCaps caps;
  caps.system_role = shows(Json::array({message("system", kWord), user}), nullptr, kWord);
  caps.tools = shows(Json::array({user}), Json::array({tool}), kWord);
  const Json mapping = calls(Json::array({call("look", arguments)}));
  const Json textual = calls(Json::array({call("look", arguments.dump())}));
  caps.object_arguments = shows(Json::array({user, mapping, message("tool", "r")}), nullptr, kWord);
  caps.tool_calls = caps.object_arguments ||
                    shows(Json::array({user, textual, message("tool", "r")}), nullptr, kWord);
  const Json two = calls(Json::array({call("look", Json::object()), call(kWord, Json::object())}));
  caps.parallel_tool_calls = shows(Json::array({user, two, message("tool", "r")}), nullptr, kWord);
  const Json plain_call = calls(Json::array({call("look", Json::object())}));
  caps.tool_results = shows(Json::array({user, plain_call, answer}), nullptr, kWord);
  const Json parts = Json::array({Json{{"type", "text"}, {"text", kWord}}});
  const auto typed = [&] {
    try {
      const std::string text =
          render_plain(Json::array({message("user", parts)}), nullptr, Json::object()).text;
      // A list printed as such is no support for it.
      return text.find(kWord) != std::string::npos && text.find("'text'") == std::string::npos &&
             text.find("\"text\"") == std::string::npos;
    } catch (const TemplateError&) {
      return false;
    }
  };
  caps.typed_content = typed();
  const Json thought = {{"role", "assistant"}, {"content", "hi"}, {"reasoning_content", kWord}};
  caps.reasoning = shows(Json::array({user, thought, user}), nullptr, kWord);
  const std::lock_guard lock(state_->mutex);
  if (!state_->caps) state_->caps = caps;
  return *state_->caps;
}

}  // namespace rlx
