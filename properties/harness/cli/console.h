// What the program says and how it ends: exit codes, the one line of an error, and output that
// notices when nobody can read it.
#ifndef ATTEST_HARNESS_CLI_CONSOLE_H_
#define ATTEST_HARNESS_CLI_CONSOLE_H_

#include <string>

namespace attest {

// Where several apply, 4 goes before 3 before 1 before 2 before 0.
enum ExitStatus : int {
  kExitPass = 0,
  kExitFindings = 1,
  kExitInconclusive = 2,  // or nothing was run
  kExitUsage = 3,         // usage or bad input
  kExitHarness = 4,       // fault of the harness itself, reports that could not be written included
};

// Prints "attest: TEXT" as one line on stderr and returns `status`.
int Complain(ExitStatus status, const std::string& text);

// Prints to stdout.
void Print(const std::string& text);

// Flushes stdout. kExitHarness, with its line on stderr, where something printed was lost (a full
// disk); else `status`.
int EndOutput(int status);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_CONSOLE_H_
