// From the name of a kernel on the command line to a running worker and its contract.
#ifndef ATTEST_HARNESS_CLI_OPEN_KERNEL_H_
#define ATTEST_HARNESS_CLI_OPEN_KERNEL_H_

#include <memory>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/contract.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/sandbox/session.h"

namespace CLI {
class App;
}

namespace attest {

struct OpenKernelOptions {
  SessionOptions session;
  std::string contract;  // --contract: replaces the declared one; empty = the declared one
  bool strict = false;
};

// --deadline, --threads, --contract and --strict: how a kernel is opened and called. Commands that run cases have
// all of them, because a failure may show with these alone.
void AddOpenOptions(CLI::App& command, OpenKernelOptions& options);
// --deadline alone, and --threads alone.
void AddDeadline(CLI::App& command, OpenKernelOptions& options);
void AddThreads(CLI::App& command, OpenKernelOptions& options);
// What a command line must hold to open a kernel so, with a space before each option; empty by default.
std::string OpenOptionsText(const OpenKernelOptions& options);
// That the options go together. The error is one line.
tl::expected<void, std::string> CheckOpenOptions(const OpenKernelOptions& options);

struct OpenedKernel {
  std::unique_ptr<KernelSession> session;
  Contract contract;
};

struct OpenError {
  ExitStatus status = kExitUsage;  // kExitHarness where no kernel could have been opened
  std::string text;                // one line
};

// A running worker of what is named, kernel or model.
tl::expected<std::unique_ptr<KernelSession>, OpenError> OpenSession(
    const std::string& text, const OpenKernelOptions& options = {});

// Fails on an unknown name, a library that does not load, a wrong ABI version, a malformed contract;
// and where this program cannot start a worker.
tl::expected<OpenedKernel, OpenError> OpenKernel(const std::string& text,
                                                 const OpenKernelOptions& options = {});

// A kernel of a run, and the head of what is reported on it.
struct KernelToRun {
  OpenedKernel opened;  // no session where it is skipped
  KernelReport report;
};

// All kernels of a run, before any is run, so that a typing mistake in the last costs no waiting: a name that comes
// twice counts once, and an optional kernel that does not open is skipped, which its report says.
tl::expected<std::vector<KernelToRun>, OpenError> OpenKernels(
    const std::vector<std::string>& kernels, const std::vector<std::string>& optional_kernels,
    const OpenKernelOptions& options = {});

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_OPEN_KERNEL_H_
