#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace rlx::cli {
namespace {

// Written by the signal handler.
volatile std::sig_atomic_t g_scopes = 0, g_interrupted = 0;

extern "C" void on_interrupt(int) {
  if (g_scopes == 0 || g_interrupted != 0) _exit(kExitInterrupted);
  g_interrupted = 1;
}

}  // namespace

void install_interrupt() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  // Restarted: a line that is being read stays whole; the scope's owner asks the flag.
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write
}

InterruptScope::InterruptScope() {
  g_interrupted = 0;
  g_scopes = g_scopes + 1;
}
InterruptScope::~InterruptScope() { g_scopes = g_scopes - 1; }
bool InterruptScope::interrupted() { return g_interrupted != 0; }

}  // namespace rlx::cli
