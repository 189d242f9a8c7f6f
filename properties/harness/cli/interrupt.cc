#include "properties/harness/cli/interrupt.h"

#include <signal.h>

namespace attest {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void OnInterrupt(int) {
  interrupted.store(true);
}

void OnClosedPipe(int) {}

}  // namespace

void CatchSignals() {
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  // A handler, not SIG_IGN: workers start with signals as a program expects them, and an ignored
  // signal would stay ignored in them.
  action.sa_handler = OnClosedPipe;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
}

const std::atomic<bool>& Interrupted() {
  return interrupted;
}

}  // namespace attest
