// The template language, a line a rule; expected texts were made with Jinja 3.1 in the environment
// of HF transformers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/template/template.h"

namespace rlx {
namespace {

const Json kVariables = {
    {"s", "Hello World"},
    {"u", "Z\u00fcrich \u6771\u4eac"},
    {"n", 7},
    {"f", 2.5},
    {"none", nullptr},
    {"xs", {3, 1, 2}},
    {"d", {{"b", 1}, {"a", "x'y"}, {"items", 5}}},
    {"rows", {{{"k", "x"}, {"v", 1}}, {{"k", "y"}, {"v", 2}}, {{"k", "x"}, {"v", 3}}}}};

std::string run(const std::string& source) {
  try {
    return Template::parse(source, "t").render(kVariables).text;
  } catch (const TemplateError& e) {
    return std::string("ERROR ") + e.what();
  }
}

struct Line {
  const char* source;
  const char* expected;
};

void check(std::initializer_list<Line> lines) {
  for (const Line& l : lines) EXPECT_EQ(run(l.source), l.expected) << l.source;
}

// The message only has to say so, at the right place.
void check_errors(std::initializer_list<Line> lines) {
  for (const Line& l : lines) {
    const std::string got = run(l.source);
    EXPECT_TRUE(got.starts_with("ERROR ")) << l.source << " gave " << got;
    EXPECT_NE(got.find(l.expected), std::string::npos) << l.source << " gave " << got;
  }
}

TEST(TemplateLanguage, WhiteSpaceControl) {
  check({{"a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc"},
         {"a {%- if true -%} b {%- endif %} c", "ab c"},
         {"  {%+ if true +%}\nb{% endif %}", "  \nb"},
         {"a\n  {{ n }}\n b", "a\n  7\n b"},
         {"{# note #}\nx{#- y -#} z", "xz"},
         {"{% raw %}{{ n }}{% endraw %}\nx", "{{ n }}x"},
         {"a\r\nb\rc\n", "a\nb\nc"}});
}

TEST(TemplateLanguage, Arithmetic) {
  check({{"{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}",
          "-4 2 -2 3.5 1024 0.5"},
         {"{{ -7.5 // 2 }} {{ -7.5 % 2 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 100.0 }}",
          "-4.0 0.5 1e+16 1e-05 0.30000000000000004 100.0"},
         {"{{ true + true }} {{ 'ab' * 2 }} {{ [1] + [2] }} {{ 1 ~ 'a' ~ none ~ true }}",
          "2 abab [1, 2] 1aNoneTrue"},
         {"{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 1_000 }} {{ 0x1f }}", "64 4 1000 31"}});
  check_errors({{"{{ 1 / 0 }}", "division by zero"},
                {"{{ 'a' + 1 }}", "t:1:8: can only concatenate str (not \"int\") to str"},
                {"{{ 1 + 'a' }}", "unsupported operand"}});
}

TEST(TemplateLanguage, ComparisonsAndLogic) {
  check({{"{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }}",
          "True True True True True"},
         {"{{ 'or' in s }} {{ 'x' not in s }} {{ 'a' in d }} {{ 3 in xs }}", "True True True True"},
         {"{{ 0 or 'x' }} {{ '' and 1 }} {{ not [] }} {{ 'a' if false }}|", "x  True |"},
         {"{{ missing is defined }} {{ none is defined }} {{ none is none }}", "False True True"},
         {"{{ missing == none }} {{ missing }}|{{ missing|length }}", "False |0"}});
  check_errors({{"{{ missing.x }}", "'missing' is undefined"},
                {"{{ d.zzz.y }}", "'dict object' has no attribute 'zzz'"},
                {"{{ 1 < 'a' }}", "not supported between instances"},
                {"{{ 1 in none }}", "argument of type 'NoneType' is not iterable"}});
}

TEST(TemplateLanguage, ValuesPrintAsInPython) {
  check({{"{{ xs }} {{ d }}", "[3, 1, 2] {'b': 1, 'a': \"x'y\", 'items': 5}"},
         {"{{ (1,) }} {{ (1, 'a') }} {{ () }} {{ [none, true, 1.0] }}",
          "(1,) (1, 'a') () [None, True, 1.0]"},
         {"{{ ['a\\nb', \"it's\", '\\x07'] }}", "['a\\nb', \"it's\", '\\x07']"},
         {"{{ {1: 2, none: 'x'} }} {{ range(3) }} {{ d.keys() }}",
          "{1: 2, None: 'x'} range(0, 3) dict_keys(['b', 'a', 'items'])"}});
}

TEST(TemplateLanguage, SubscriptsAndSlices) {
  check(
      {{"{{ s[0] }}{{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[::3] }}",
        "Hd ell dlroW olleH rld HlWl"},
       {"{{ u[1] }} {{ u[-2:] }} {{ u|length }} {{ u[::-1] }}",
        "\u00fc \u6771\u4eac 9 \u4eac\u6771 hcir\u00fcZ"},
       {"{{ xs[1:] }} {{ xs[::-1] }} {{ xs[5:] }} {{ xs.0 }}", "[1, 2] [2, 1, 3] [] 3"},
       {"{{ d.b }} {{ d['items'] }} {{ d.items()|list|length }} {{ d.get('q', 'z') }}", "1 5 3 z"},
       {"{{ xs[9] is defined }} {{ d.q is defined }}", "False False"}});
}

TEST(TemplateLanguage, Loops) {
  check({{"{% for x in xs %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% "
          "endfor %}",
          "1/3:3,2/3:1,3/3:2"},
         {"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=x'y;items=5;"},
         {"{% for x in xs if x > 1 %}{{ loop.index0 }}{{ x }}{{ loop.last }}{% else %}none{% "
          "endfor %}",
          "03False12True"},
         {"{% for x in [] %}a{% else %}empty{% endfor %}", "empty"},
         {"{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}",
          "<3>1 3<1>2 1<2> "},
         {"{% set x = 0 %}{% for y in xs %}{% set x = y %}{% endfor %}{{ x }}", "0"},
         {"{% set ns = namespace(x=0) %}{% for y in xs %}{% set ns.x = ns.x + y %}{% endfor %}{{ "
          "ns.x }}",
          "6"},
         {"{% for x in [[1, [2]], [3, [4]]] recursive %}{{ x[0] }}{{ loop.depth }}{% endfor %}",
          "1131"},
         {"{% for x in 'ab' %}{{ loop.cycle('-', '+') }}{{ x }}{{ loop.changed(1) }}{% endfor %}",
          "-aTrue+bFalse"},
         {"{% set ns = namespace(stop=false) %}{% for x in xs if not ns.stop %}{{ x }}{% set "
          "ns.stop = true %}{% endfor %}",
          "3"}});
  check_errors({{"{% for x in none %}{% endfor %}", "'NoneType' object is not iterable"},
                {"{% for a, b in [[1]] %}{% endfor %}", "cannot unpack"},
                {"{% set d.x = 1 %}", "cannot assign attribute on non-namespace object"}});
}

TEST(TemplateLanguage, Macros) {
  check(
      {{"{% macro f(a, b='y') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, b=2) }} {{ f(b=3, "
        "a=4) }}",
        "1y 12 43"},
       {"{% macro f() %}<{{ caller('z') }}>{% endmacro %}{% call(x) f() %}in {{ x }}{% endcall %}",
        "<in z>"},
       {"{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, k=2) }}", "(1,){'k': 2}"},
       {"{% macro f() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ f() }}", "5"},
       {"{% macro f() %}{{ x is defined }}{% endmacro %}{% for x in [1] %}{{ f() }}{% endfor %}",
        "False"},
       {"{% set t %}a{{ n }}{% endset %}{{ t }} {% filter upper %}b{{ n }}c{% endfilter %}",
        "a7 B7C"},
       {"{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "3False"},
       {"{% generation %}x{% endgeneration %}", "x"}});
  check_errors({{"{% macro f() %}{% endmacro %}{{ f(1) }}", "takes not more than 0"}});
}

TEST(TemplateLanguage, Filters) {
  check(
      {{"{{ rows|selectattr('k', 'equalto', 'x')|map(attribute='v')|list }}", "[1, 3]"},
       {"{{ rows|rejectattr('k', 'equalto', 'x')|list|length }} {{ "
        "rows|groupby('k')|map('first')|join(',') }}",
        "1 x,y"},
       {"{{ xs|sort|join('-') }} {{ xs|sort(reverse=true) }} {{ xs|sum }} {{ xs|max }} {{ xs|first "
        "}} {{ xs|last }}",
        "1-2-3 [3, 2, 1] 6 3 3 2"},
       {"{{ d|dictsort }} {{ d|items|list }}",
        "[('a', \"x'y\"), ('b', 1), ('items', 5)] [('b', 1), ('a', \"x'y\"), ('items', 5)]"},
       {"{{ '  a '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ s|replace('o', '0') }}|{{ s|upper }}|{{ 'ab "
        "cd-ef'|title }}",
        "a|a|Hell0 W0rld|HELLO WORLD|Ab Cd-Ef"},
       {"{{ '3.7'|int }} {{ 'x'|int(9) }} {{ '12'|float }} {{ 2.5|round }} {{ 2.567|round(2) }} {{ "
        "2.1|round(method='ceil') }}",
        "3 9 12.0 2.0 2.57 3.0"},
       {"{{ missing|default('z') }} {{ ''|default('z', true) }} {{ none|default('z') }}",
        "z z None"},
       {"{{ 'a\\nb\\n\\nc'|indent(2) }}", "a\n  b\n\n  c"},
       {"{{ 'x'|safe + '<' }} {{ '<a>'|e }} {{ ['a', 'B', 'a']|unique|list }}",
        "x&lt; &lt;a&gt; ['a', 'B']"},
       {"{{ [1, 2, 3]|batch(2)|list }} {{ '%s-%03d' % ('a', 5) }} {{ '{:>4}|{}'.format('x', 1) }}",
        "[[1, 2], [3]] a-005    x|1"}});
  check_errors({{"{{ s|nope }}", "no filter named 'nope'"},
                {"{{ xs|map('upper')|tojson }}", "Object of type generator"}});
}

TEST(TemplateLanguage, StringMethods) {
  check({{"{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a-b-c'.rsplit('-', 1) }}",
          "['a', 'b', '', 'c'] ['a', 'b'] ['a-b', 'c']"},
         {"{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('o') }} {{ "
          "u.index('r') }} {{ s.count('l') }}",
          "True True 4 2 3"},
         {"{{ 'ab'.center(5, '*') }} {{ '7'.zfill(3) }} {{ 'stra\u00dfe'.upper() }} {{ 'a "
          "b'.title() }} {{ '-'.join(['x', 'y']) }}",
          "**ab* 007 STRASSE A B x-y"},
         {"{{ 'x=1=2'.partition('=') }} {{ 'abc'.removeprefix('a') }} {{ 'a\\nb'.splitlines() }} "
          "{{ 'xyx'.strip('x') }}",
          "('x', '=', '1=2') bc ['a', 'b'] y"}});
}

TEST(TemplateLanguage, UnknownFilterInABranchFailsOnlyWhenRun) {
  EXPECT_EQ(run("{% if false %}{{ n|nope }}{% endif %}x"), "x");
  EXPECT_EQ(run("{{ (n|nope) if false else 'x' }}"), "x");
  check_errors({{"{% for x in [] %}{{ x|nope }}{% endfor %}", "no filter named 'nope'"}});
}

TEST(TemplateLanguage, SyntaxErrorsNameLineAndColumn) {
  check_errors({{"a\n{% if %}", "t:2:7:"},
                {"{{ 1 +", "t:1:7:"},
                {"{% for x in y %}", "expected 'endfor' or 'else'"},
                {"{% foo %}", "unknown tag 'foo'"},
                {"{% break %}", "outside of a loop"},
                {"{# x", "missing end of comment"},
                {"{{ 'a }}", "the string has no end"},
                {"{{ (1] }}", "expected ')'"}});
}

}  // namespace
}  // namespace rlx
