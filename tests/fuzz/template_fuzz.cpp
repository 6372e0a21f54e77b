// A template and its variables: the bytes before the first zero byte are the template, the rest is
// JSON. Whatever they are, the answer is a text or a TemplateError, within the limits.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/template/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t split = std::min(input.find('\0'), input.size());
  rlx::Json variables =
      rlx::Json::parse(input.substr(std::min(split + 1, input.size())), nullptr, false);
  if (!variables.is_object())
    variables = {{"messages", {{{"role", "user"}, {"content", "Hi <|im_end|>"}}}},
                 {"tools", nullptr},
                 {"n", 3},
                 {"s", "a\u00fcb"}};
  rlx::RenderOptions options;
  options.limits.steps = 20'000;
  options.limits.memory_bytes = size_t{4} << 20;
  options.limits.work_bytes = size_t{16} << 20;
  try {
    const rlx::RenderResult r =
        rlx::Template::parse(input.substr(0, split), "fuzz").render(variables, options);
    size_t end = 0;
    for (const rlx::TextSpan& s : r.user) {
      // Spans are ascending, disjoint and inside the text.
      if (s.begin < end || s.end <= s.begin || s.end > r.text.size()) std::abort();
      end = s.end;
    }
  } catch (const rlx::TemplateError&) {
  }
  return 0;
}
