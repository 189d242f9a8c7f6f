// Writes the crash note: a handler for the signals of a failing kernel that records where it failed
// and then lets the signal kill the worker as it would have.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_CRASH_HANDLER_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_CRASH_HANDLER_H_

#include "properties/harness/sandbox/crash_note.h"

namespace attest {

// Installs the handlers, on a stack of their own so that a stack overflow is noted too. `note` must
// stay mapped for the rest of the process's life.
void InstallCrashHandler(CrashNote* note);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_CRASH_HANDLER_H_
