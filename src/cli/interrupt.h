// Ctrl+C.
#pragma once

namespace rlx::cli {

/// From now on Ctrl+C ends the program with code 130 at once.
void install_interrupt();

/// While one lives, the first Ctrl+C only sets a flag, which steps ask; the second ends the
/// program.
class InterruptScope {
 public:
  InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  ~InterruptScope();
  static bool interrupted();
};

constexpr int kExitInterrupted = 130;

}  // namespace rlx::cli
