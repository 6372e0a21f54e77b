// rlx render: a chat template over conversations.
#include <ctime>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "text/template/chat.h"

namespace rlx::cli {
namespace {

constexpr std::uint64_t kMaxTemplateBytes = 4u << 20;

struct RenderFlags {
  std::optional<std::string> file, now;
  bool lines = false;
};

/// "2026-03-09T10:11:12" with the day of the week and of the year.
std::tm parse_time(const std::string& text) {
  const std::string form = "dddd-dd-ddTdd:dd:dd";
  bool ok = text.size() == form.size();
  for (std::size_t i = 0; ok && i < form.size(); ++i)
    ok = form[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
  std::tm t = {};
  if (ok) {
    const auto part = [&](std::size_t at, std::size_t n) { return std::stoi(text.substr(at, n)); };
    t.tm_year = part(0, 4) - 1900;
    t.tm_mon = part(5, 2) - 1;
    t.tm_mday = part(8, 2);
    t.tm_hour = part(11, 2);
    t.tm_min = part(14, 2);
    t.tm_sec = part(17, 2);
    std::tm normal = t;
    timegm(&normal);  // a date that does not exist comes back as another one
    ok = normal.tm_mon == t.tm_mon && normal.tm_mday == t.tm_mday && normal.tm_hour == t.tm_hour &&
         normal.tm_min == t.tm_min && normal.tm_sec == t.tm_sec;
    t = normal;
  }
  if (!ok)
    fail(ErrorCode::usage, "--now: expected a time like 2026-03-09T10:11:12, found \"{}\"", text);
  return t;
}

Json member(const Json& object, const char* key, Json otherwise) {
  const auto it = object.find(key);
  return it == object.end() ? std::move(otherwise) : *it;
}

Json render(const ChatTemplate& chat, const Json& request, const RenderOptions& options) {
  if (!request.is_object())
    fail(ErrorCode::invalid_argument,
         "expected an object with messages, tools and arguments, found {}", request.type_name());
  const Json arguments = member(request, "arguments", Json::object());
  if (!arguments.is_null() && !arguments.is_object())
    fail(ErrorCode::invalid_argument, "arguments: expected an object, found {}",
         arguments.type_name());
  return {{"text", chat.render_plain(member(request, "messages", Json::array()),
                                     member(request, "tools", nullptr),
                                     arguments.is_null() ? Json::object() : arguments, options)
                       .text}};
}

int run_render(const RenderFlags& f) {
  if (!f.file)
    fail(ErrorCode::usage, "rlx render: --template FILE is missing; see `rlx render --help`");
  RenderOptions options;
  if (f.now) options.now = parse_time(*f.now);
  const ChatTemplate chat(read_file(*f.file, kMaxTemplateBytes), "", "", *f.file);
  if (!f.lines) {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    const Json request = Json::parse(text, nullptr, false);
    if (request.is_discarded())
      fail(ErrorCode::invalid_argument,
           "stdin: expected a JSON object with messages, tools and arguments");
    out().write(render(chat, request, options)["text"].get_ref<const std::string&>());
    return 0;
  }
  return answer_lines([&](const Json& request) -> Json {
    try {
      return render(chat, request, options);
    } catch (const Error& e) {
      return {{"error", e.what()}};
    }
  });
}

Job declare_render(Arguments& a) {
  const auto f = std::make_shared<RenderFlags>();
  a.text("--template", f->file, "File with the template");
  a.text("--now", f->now, "Time that the template sees, as 2026-03-09T10:11:12 [now]");
  a.flag("--lines", f->lines,
         "An object a line on stdin, {\"text\"} or {\"error\"} a line on stdout; else one object, "
         "and plain text");
  return [f] { return run_render(*f); };
}

}  // namespace

const Command kRender = {
    "render", "Conversations through a chat template",
    "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": null,\n"
    "         \"arguments\": {\"add_generation_prompt\": true}}' | rlx render --template "
    "chat.jinja\n"
    "  rlx render --template chat.jinja --now 2026-03-09T10:11:12 --lines < requests.jsonl\n",
    declare_render};

}  // namespace rlx::cli
