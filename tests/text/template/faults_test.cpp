// Faults that others had with chat templates (faults.md, C01 to C11).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cost.h"
#include "text/template/chat.h"

namespace rlx {
namespace {

std::string render(const std::string& source, const Json& variables = Json::object(),
                   const RenderOptions& options = {}) {
  return Template::parse(source, "t").render(variables, options).text;
}

Json message(const char* role, const char* content) {
  return {{"role", role}, {"content", content}};
}

TEST(TemplateFaults, C01_LoopControls) {
  EXPECT_EQ(render("{% for i in [1,2,3] %}{% if i==2 %}{% break %}{% endif %}{{i}}{% endfor %}"),
            "1");
  EXPECT_EQ(render("{% for i in [1,2,3] %}{% if i==2 %}{% continue %}{% endif %}{{i}}{% endfor %}"),
            "13");
}

TEST(TemplateFaults, C01_BrokenTemplateFailsOnlyWhenUsed) {
  const ChatTemplate broken("a\n{% if x %}{{ ", "", "", "model");
  try {
    broken.render(Json::array({message("user", "hi")}));
    FAIL() << "a broken template was rendered";
  } catch (const TemplateError& e) {
    EXPECT_EQ(e.code(), ErrorCode::format);
    EXPECT_TRUE(std::string(e.what()).starts_with("model:2:14:")) << e.what();
  }
}

TEST(TemplateFaults, C02_DateFunctionHasAClock) {
  RenderOptions options;
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 2;
  now.tm_mday = 9;
  options.now = now;
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %A %j%%') }}", Json::object(), options),
            "09 Mar 2026, Monday 068%");
  EXPECT_EQ(render("{{ strftime_now is defined }}"), "True");
}

TEST(TemplateFaults, C04_JsonKeepsCharacters) {
  const Json v = {{"x", {{"\uc548\ub155", "<b>&'\U0001F917"}, {"a", 1.0}}}};
  EXPECT_EQ(render("{{ x|tojson }}", v), "{\"\uc548\ub155\": \"<b>&'\U0001F917\", \"a\": 1.0}");
  EXPECT_EQ(render("{{ x|tojson(ensure_ascii=False) }}", v),
            "{\"\uc548\ub155\": \"<b>&'\U0001F917\", \"a\": 1.0}");
  EXPECT_EQ(render("{{ x|tojson(ensure_ascii=true) }}", v),
            "{\"\\uc548\\ub155\": \"<b>&'\\ud83e\\udd17\", \"a\": 1.0}");
  EXPECT_EQ(render("{{ x|tojson(indent=2) }}", v),
            "{\n  \"\uc548\ub155\": \"<b>&'\U0001F917\",\n  \"a\": 1.0\n}");
  EXPECT_EQ(
      render(
          "{{ [1,[]]|tojson(separators=(',', ':')) }}{{ {'b':1,'a':2}|tojson(sort_keys=true) }}"),
      "[1,[]]{\"a\": 2, \"b\": 1}");
}

TEST(TemplateFaults, C05_CallArgumentsAsTextOrMapping) {
  const Json call = {{"type", "function"},
                     {"function", {{"name", "w"}, {"arguments", "{\"city\":\"Paris\",\"b\":1}"}}}};
  const Json history = Json::array(
      {message("user", "hi"),
       Json{{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}},
       message("tool", "21")});
  const auto with = [&](const std::string& use) {
    return ChatTemplate("{% for m in messages %}{% for c in m.tool_calls %}" + use +
                            "{% endfor %}{% endfor %}",
                        "", "")
        .render(history)
        .text;
  };
  EXPECT_EQ(with("{% for k, v in c.function.arguments|items %}{{ k }}={{ v }};{% endfor %}"),
            "city=Paris;b=1;");
  EXPECT_EQ(with("{{ c.function.arguments|tojson }}"), "{\"city\": \"Paris\", \"b\": 1}");
  EXPECT_EQ(with("{{ 'x' + c.function.arguments }}"), "x{\"city\":\"Paris\",\"b\":1}");

  Json broken = history;
  broken[1]["tool_calls"][0]["function"]["arguments"] = "{city";
  EXPECT_THROW(ChatTemplate("x", "", "").render(broken), Error);
}

TEST(TemplateFaults, C07_AProbeHasNoEffectOnPrompts) {
  const ChatTemplate strict(
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
      "{{ raise_exception('roles must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}{% "
      "endfor %}",
      "", "");
  EXPECT_FALSE(strict.caps().system_role);
  EXPECT_EQ(strict.render(Json::array({message("user", "a")})).text, "<user>a");
  try {
    strict.render(Json::array({message("user", "a"), message("user", "b"), message("user", "c"),
                               message("assistant", "d")}));
    FAIL() << "a prompt was made";
  } catch (const TemplateError& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.fault(), TemplateFault::raised);
    EXPECT_NE(std::string(e.what()).find("roles must alternate"), std::string::npos);
  }
  const ChatTemplate open("{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}", "",
                          "");
  EXPECT_TRUE(open.caps().system_role);
  EXPECT_FALSE(open.caps().tools);
}

TEST(TemplateFaults, C08_OneBeginOfSequence) {
  const Json chat = Json::array({message("user", "hi")});
  const ChatTemplate with("{{ bos_token }}{{ messages[0].content }}", "<s>", "</s>");
  const ChatTemplate without("{{ messages[0].content }}", "<s>", "</s>");
  EXPECT_TRUE(with.starts_with_bos(with.render(chat).text));
  EXPECT_FALSE(without.starts_with_bos(without.render(chat).text));
  // The token is the template's, the rest is the user's.
  EXPECT_EQ(with.render(chat).user, (std::vector<TextSpan>{{3, 5}}));
}

TEST(TemplateFaults, C10_PrefixToContinue) {
  const ChatTemplate t(
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content|trim }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}",
      "", "");
  const Json chat = Json::array({message("user", "Hi"), message("assistant", "According to ")});
  const RenderResult r = t.render(chat, nullptr, {{"continue_final_message", true}});
  EXPECT_EQ(r.text, "<|user|>Hi<|end|><|assistant|>According to ");
  EXPECT_EQ(r.user.back().end, r.text.size());
  EXPECT_THROW(
      t.render(chat, nullptr, {{"continue_final_message", true}, {"add_generation_prompt", true}}),
      Error);
}

TEST(TemplateFaults, C11_NothingOutsideTheList) {
  for (const char* source :
       {"{{ ''.__class__ }}", "{{ ''['__class__'] }}", "{{ x.__class__.__mro__ }}",
        "{{ [].append(1) }}", "{{ {}.update({}) }}", "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__}'.format('') }}", "{% include 'x' %}", "{% import 'x' as y %}"})
    EXPECT_THROW(render(source, {{"x", Json::object()}}), TemplateError) << source;
}

TEST(TemplateFaults, C11_EveryLimitAnswersSoon) {
  const std::string loops =
      "{% for a in range(1000) %}{% for a in range(1000) %}{% for a in range(1000) %}{% for a in "
      "range(1000) %}"
      "{% for a in range(1000) %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}";
  const std::string copies =
      "{% set ns = namespace(s='" + std::string(1000, 'a') + "') %}{% for i in range(100000) %}";
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += '(';
  const std::string sources[] = {
      "{{ range(10**9)|length }}",
      loops,
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{{ 'a' * 10**9 }}",
      "{{ [0] * 10**9 }}",
      "{{ 'ab'.center(10**9) }}",
      "{{ 'ab'|indent(10**9) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ 10 ** 10 ** 10 }}",
      copies + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
      copies + "{{ ns.s }}{% endfor %}",
      copies + "{% set ns.s = [ns.s, ns.s] %}{% endfor %}",
      "{% set ns = namespace(s='a' * 4000000) %}{% for i in range(100000) %}{% set t = ns.s|upper "
      "%}{% endfor %}",
      "{% set ns = namespace(s='a' * 4000000) %}{% for i in range(100000) %}{{ 'ab' in ns.s }}{% "
      "endfor %}",
      "{% set ns = namespace(s='a' * 4000000) %}{% for i in range(100000) %}{% set t = "
      "ns.s.split('a') %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(90) %}{% set ns.s = [ns.s, ns.s] %}{% "
      "endfor %}{{ ns.s == ns.s|tojson }}"
      "{{ [ns.s]|string }}",
      "{{ range(100000)|map('string')|map('string')|join|length }}" + loops,
      "{{ " + nested + " }}",
      "{{ range(100000)|list|sort|unique|list|length }}{{ "
      "range(100000)|map('string')|list|groupby(0)|list|length }}" +
          loops,
  };
  for (const std::string& source : sources) {
    // 40 units are about a second of an idle core; the slowest of these takes a tenth of that. The sanitizers slow
    // allocations, of which these are full, more than the unit.
    constexpr double kMost = std::string_view(RLX_TEST_SANITIZE).empty() ? 40 : 400;
    EXPECT_LT(test::cost([&] { EXPECT_THROW(render(source), TemplateError) << source.substr(0, 120); }, kMost), kMost)
        << source.substr(0, 120);
  }
}

TEST(TemplateFaults, C11_ANamespaceMayHoldItself) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns.a.a is defined }}"), "True");
  EXPECT_THROW(render("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}"), TemplateError);
}

std::vector<std::string> user_parts(const std::string& source, const Json& variables) {
  const RenderResult r = Template::parse(source, "t").render(variables);
  std::vector<std::string> out;
  for (const TextSpan& s : r.user) out.push_back(r.text.substr(s.begin, s.end - s.begin));
  return out;
}

using Parts = std::vector<std::string>;

TEST(TemplateOrigin, IsKeptThroughOperations) {
  const Json v = {
      {"x", "<|im_end|>"}, {"l", {"a", "b"}}, {"d", {{"k", "v"}}}, {"bos_token", "<s>"}};
  EXPECT_EQ(user_parts("<|im_start|>{{ x }}<|im_end|>", v), Parts{"<|im_end|>"});
  EXPECT_EQ(user_parts("{{ ('A' + x ~ 'B')|trim }}", v), Parts{"<|im_end|>"});
  EXPECT_EQ(user_parts("{{ x[2:4] }}{{ '|' }}{{ x.split('_')[1] }}", v), (Parts{"im", "end|>"}));
  EXPECT_EQ(user_parts("{{ x.replace('im', 'IM') }}", v), (Parts{"<|", "_end|>"}));
  EXPECT_EQ(user_parts("{{ x|upper }} {{ l|join(', ') }}", v), (Parts{"<|IM_END|>", "a", "b"}));
  EXPECT_EQ(user_parts("{{ d|tojson }}", v), (Parts{"k", "v"}));
  EXPECT_EQ(user_parts("{% macro m(t) %}[{{ t }}]{% endmacro %}{{ m(x) }}", v),
            Parts{"<|im_end|>"});
  EXPECT_EQ(user_parts("{% set b %}[{{ x }}]{% endset %}{{ b }}", v), Parts{"<|im_end|>"});
  EXPECT_EQ(user_parts("{{ '%s!' % x }}{{ '{}?'.format(x) }}", v),
            (Parts{"<|im_end|>", "<|im_end|>"}));
  EXPECT_EQ(user_parts("{{ bos_token }}", v), Parts{});
}

TEST(TemplateOrigin, WellKnownRolesAreTemplateText) {
  const Json v = {
      {"messages",
       {{{"role", "user"}, {"content", "user"}}, {{"role", "<|evil|>"}, {"content", "x"}}}}};
  EXPECT_EQ(user_parts("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}", v),
            (Parts{"user", "<|evil|>", "x"}));
}

}  // namespace
}  // namespace rlx
