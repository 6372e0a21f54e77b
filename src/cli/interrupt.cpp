#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/file.h"

namespace rlx::cli {
namespace {

// Written by the signal handler.
volatile std::sig_atomic_t g_scopes = 0, g_interrupted = 0;

extern "C" void on_interrupt(int) {
  if (g_scopes == 0 || g_interrupted != 0) _exit(kExitInterrupted);
  g_interrupted = 1;
}

void put(const char* text) { static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text))); }

// A page of a mapped file that is not there any more. Nothing can go on: one line and the code of a file's fault.
extern "C" void on_bus_error(int, siginfo_t* info, void*) {
  const char* path = mapped_file_at(info->si_addr);
  if (path == nullptr) {
    std::signal(SIGBUS, SIG_DFL);  // our own fault: it comes again and ends the program
    return;
  }
  put("rlx: ");
  put(path);
  put(": the file was cut while it was in use\n");
  _exit(3);
}

}  // namespace

void install_interrupt() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  // Restarted: a line that is being read stays whole; the scope's owner asks the flag.
  action.sa_flags = SA_RESTART;
  struct sigaction before = {};
  sigaction(SIGINT, nullptr, &before);
  // A shell that starts a program in the background, or nohup, has it ignored: Ctrl+C is for others then.
  if (before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write
  std::signal(SIGXFSZ, SIG_IGN);  // so is a file above the limit of its size
  struct sigaction bus = {};
  bus.sa_sigaction = on_bus_error;
  bus.sa_flags = SA_SIGINFO;
  sigemptyset(&bus.sa_mask);
  sigaction(SIGBUS, &bus, nullptr);
}

InterruptScope::InterruptScope() {
  g_interrupted = 0;
  g_scopes = g_scopes + 1;
}
InterruptScope::~InterruptScope() { g_scopes = g_scopes - 1; }
bool InterruptScope::interrupted() { return g_interrupted != 0; }

}  // namespace rlx::cli
