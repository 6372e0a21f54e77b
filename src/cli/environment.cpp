#include "cli/environment.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/affinity.h"
#include "base/error.h"
#include "cli/arguments.h"
#include "cli/session_flags.h"

namespace rlx::cli {
namespace {

struct Variable {
  const char* name;
  std::string_view values;        ///< separated by commas; empty: checked where it is read, if at all
  std::string_view says = "any";  ///< of those without values: what is valid
  bool threads = false;           ///< a number of threads
};
constexpr Variable kVariables[] = {
    {"RLX_ISA", "baseline,avx2,avx512,amx"},
    {"RLX_THREADS", "", "1 to 1024", true},
    {"RLX_AFFINITY", "", "none, cores or processors as 0-3,8"},
    {"RLX_KERNEL_DISPATCH", "common,native"},
    {"RLX_CACHE", "", "default, none or a folder"},
    {"RLX_PRINT", "after-each"},
    {"RLX_DISPATCH_REPORT", "1"},
    {"NO_COLOR", ""},
};

std::string value_of(const Variable& v) {
  const char* text = std::getenv(v.name);
  return text == nullptr ? "" : text;
}

}  // namespace

void check_environment() {
  affinity();
  for (const Variable& v : kVariables) {
    const std::string value = value_of(v);
    if (value.empty()) continue;
    if (v.threads) parse_integer(v.name, value, kThreadRange);
    const std::vector<std::string> valid = split_list(v.values);
    if (!valid.empty() && std::find(valid.begin(), valid.end(), value) == valid.end())
      fail(ErrorCode::usage, "{}: expected {}, found \"{}\"", v.name, fmt::join(valid, ", "),
           value);
  }
}

std::vector<EnvironmentSetting> environment_settings() {
  std::vector<EnvironmentSetting> out;
  for (const Variable& v : kVariables)
    out.push_back({v.name, value_of(v),
                   std::string(v.values.empty() ? v.says : v.values)});
  return out;
}

}  // namespace rlx::cli
