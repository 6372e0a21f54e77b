#include "base/error.h"

namespace rlx {

void fail_formatted(ErrorCode code, fmt::string_view text, fmt::format_args args) {
  throw Error(code, fmt::vformat(text, args));
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: internal check failed: {}{}{}", file, line, condition,
                                  message.empty() ? "" : ": ", message));
}

}  // namespace rlx
