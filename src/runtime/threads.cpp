#include "runtime/threads.h"

#include <cstdlib>

#include "base/cpu_features.h"
#include "base/error.h"

namespace rlx {

int resolve_threads(int asked) {
  if (asked < 0 || asked > 1024) fail(ErrorCode::usage, "--threads: expected 1 to 1024, found {}", asked);
  if (asked > 0) return asked;
  const char* text = std::getenv("RLX_THREADS");
  if (text == nullptr || *text == '\0') return cpu_limits().threads;
  char* end = nullptr;
  const long n = std::strtol(text, &end, 10);
  if (*end != '\0' || n < 1 || n > 1024) fail(ErrorCode::usage, "RLX_THREADS: expected 1 to 1024, found \"{}\"", text);
  return static_cast<int>(n);
}

}  // namespace rlx
