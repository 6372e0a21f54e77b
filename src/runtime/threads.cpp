#include "runtime/threads.h"

#include <cstdlib>

#include "base/affinity.h"
#include "base/cpu_features.h"
#include "base/error.h"

namespace rlx {

namespace {

int threads_of_environment() {
  const char* text = std::getenv("RLX_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (*end != '\0' || n < 1 || n > 1024) fail(ErrorCode::usage, "RLX_THREADS: expected 1 to 1024, found \"{}\"", text);
  return static_cast<int>(n);
}

}  // namespace

int resolve_threads(int asked) {
  if (asked < 0 || asked > 1024) fail(ErrorCode::usage, "--threads: expected 1 to 1024, found {}", asked);
  const int processors = static_cast<int>(affinity().size());
  const char* flag = asked > 0 ? "--threads" : "RLX_THREADS";
  if (asked == 0) asked = threads_of_environment();
  if (asked == 0) return processors > 0 ? processors : cpu_limits().threads;
  if (processors > 0 && processors < asked)
    fail(ErrorCode::usage, "{}: expected a processor for each of the {} threads of {}, found {}", affinity_source(),
         asked, flag, processors);
  return asked;
}

}  // namespace rlx
