// The program `rlx`: every fault ends as one line on stderr and the exit code of its kind
// (interfaces.md, 3.5).
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"

namespace rlx::cli {
namespace {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 1;
    case ErrorCode::usage:
    case ErrorCode::limit:
      return 2;
    case ErrorCode::io:
    case ErrorCode::format:
    case ErrorCode::unsupported:
    case ErrorCode::shape:
      return 3;
    case ErrorCode::memory:
      return 4;
    case ErrorCode::device:
      return 5;
  }
  return 1;
}

int complain(std::string_view message, int code) {
  // What was written so far stands before the complaint, also when both go to one terminal.
  std::fflush(stdout);
  // Some messages name their command: "rlx run: MODEL is missing".
  const std::string_view own = "rlx ";
  if (message.starts_with(own)) message.remove_prefix(own.size());
  say("rlx: " + one_line(message));
  return code;
}

int run(const std::vector<std::string>& words) {
  try {
    install_interrupt();
    const int code = dispatch(words);
    out().flush();
    return code;
  } catch (const OutputClosed&) {
    return 0;  // `rlx ... | head`: the reader has what it wants
  } catch (const Error& e) {
    return complain(e.what(), exit_code(e.code()));
  } catch (const std::bad_alloc&) {
    return complain("not enough memory", exit_code(ErrorCode::memory));
  } catch (const InternalError& e) {
    return complain(std::string("internal error, please report it: ") + e.what(), 1);
  } catch (const std::exception& e) {
    return complain(std::string("internal error, please report it: ") + e.what(), 1);
  }
}

}  // namespace
}  // namespace rlx::cli

int main(int argc, char** argv) {
  return rlx::cli::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
