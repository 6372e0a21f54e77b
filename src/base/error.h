// Errors of the caller or the environment (Error) and of this code itself (InternalError).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace rlx {

/// What kind of fault an Error reports; the command line maps it to an exit code
/// (interfaces.md, 3.5).
enum class ErrorCode {
  invalid_argument,  ///< a value passed to the API is wrong                   (exit 1)
  usage,             ///< a command-line flag or its value is wrong            (exit 2)
  io,                ///< a file cannot be opened, read, mapped or written     (exit 3)
  format,            ///< a file's content breaks its format                   (exit 3)
  unsupported,       ///< known but not supported: architecture, block type    (exit 3)
  shape,             ///< shapes, dtypes or bindings disagree                  (exit 3)
  limit,             ///< a stated limit was passed, e.g. prompt over context  (exit 2)
  memory,            ///< not enough memory                                    (exit 4)
  device,            ///< a device is missing or failed                        (exit 5)
};

/// Fault of the caller or the environment. The message names what was expected and what was found.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// Fault of this code: a broken invariant, never caused by input alone.
class InternalError : public std::logic_error {
  using std::logic_error::logic_error;
};

/// What fail() does; one body for all types of arguments, since a program has thousands of messages.
[[noreturn]] void fail_formatted(ErrorCode code, fmt::string_view text, fmt::format_args args);

/// Throws Error with a formatted message: `fail(ErrorCode::io, "{}: cannot open: {}", path, why)`.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  fail_formatted(code, text, fmt::make_format_args(args...));
}

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);

}  // namespace rlx

/// Checks an invariant of this code; throws InternalError with file and line. Never used on input.
#define RLX_CHECK(condition, ...)                                                    \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::rlx::check_failed(#condition, __FILE__, __LINE__, std::string{__VA_ARGS__}); \
  } while (false)
