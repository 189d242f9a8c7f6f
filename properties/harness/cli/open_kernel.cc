#include "properties/harness/cli/open_kernel.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/model/contract.h"
#include "properties/harness/sandbox/file_descriptor.h"
#include "properties/harness/sandbox/locate.h"

namespace attest {

namespace {

// Whether a worker can be started at all: its program is there, and so are the descriptors for it.
bool CanStartWorkers() {
  constexpr size_t kDescriptors = 16;  // shared memory, both ends of four channels, and to spare
  std::vector<FileDescriptor> descriptors;
  while (descriptors.size() < kDescriptors) {
    descriptors.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!descriptors.back().valid()) return false;
  }
  return ::access(WorkerProgram().c_str(), X_OK) == 0 &&
         ::access(GuardProgram().c_str(), X_OK) == 0;
}

constexpr std::chrono::milliseconds kUsualDeadline = SessionOptions().deadline;

tl::unexpected<OpenError> Refuse(std::string text) {
  return tl::unexpected(OpenError{kExitUsage, std::move(text)});
}

// Built-in kernels under the name that the user gave, not that of the file it stands for.
std::string WithName(const KernelSpec& spec, const std::string& error) {
  const bool is_installed = spec.worker.empty() && spec.text.find('/') == std::string::npos;
  if (!is_installed || !error.starts_with(spec.library)) return error;
  return spec.text + error.substr(spec.library.size());
}

// Kernels that are correct until a fault is chosen: a pass of one says nothing of the faults.
std::vector<std::string> NotesOn(const std::string& kernel) {
  for (const char* name : {"mutant", "hostile"}) {
    if (kernel != name) continue;
    return {fmt::format(
        "this is the kernel without a fault: choose one as {0}:ID, 'attest list {1}' shows them",
        name, kernel == "mutant" ? "mutants" : name)};
  }
  return {};
}

KernelToRun ToRun(const std::string& text, bool optional, OpenedKernel opened) {
  KernelToRun kernel;
  kernel.report.kernel = text;
  kernel.report.optional = optional;
  kernel.report.identity = opened.session->identity();
  kernel.report.contract = opened.contract;
  kernel.report.notes = NotesOn(text);
  kernel.opened = std::move(opened);
  return kernel;
}

}  // namespace

void AddDeadline(CLI::App& command, OpenKernelOptions& options) {
  command
      .add_option_function<int64_t>(
          "--deadline",
          [&options](int64_t ms) { options.session.deadline = std::chrono::milliseconds(ms); },
          "Milliseconds one kernel call may take")
      ->check(CLI::Range(int64_t{1}, int64_t{3600000}))
      ->default_str(std::to_string(kUsualDeadline.count()));
}

void AddThreads(CLI::App& command, OpenKernelOptions& options) {
  command.add_option("--threads", options.session.threads, "Threads that a kernel is given")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
}

void AddOpenOptions(CLI::App& command, OpenKernelOptions& options) {
  AddDeadline(command, options);
  AddThreads(command, options);
  command
      .add_option("--contract", options.contract,
                  "Hold the kernel to this published contract, for what the kernel offers")
      ->type_name("NAME");
  command.add_flag("--strict", options.strict,
                   "With --contract: the kernel must offer all that the contract does");
}

std::string OpenOptionsText(const OpenKernelOptions& options) {
  std::string text;
  if (options.session.deadline != kUsualDeadline) {
    text += fmt::format(" --deadline {}", options.session.deadline.count());
  }
  if (options.session.threads != SessionOptions().threads) {
    text += fmt::format(" --threads {}", options.session.threads);
  }
  if (!options.contract.empty()) text += " --contract " + options.contract;
  if (options.strict) text += " --strict";
  return text;
}

tl::expected<void, std::string> CheckOpenOptions(const OpenKernelOptions& options) {
  if (!options.strict || !options.contract.empty()) return {};
  return tl::unexpected(std::string("--strict: of what: name a contract with --contract"));
}

tl::expected<std::unique_ptr<KernelSession>, OpenError> OpenSession(
    const std::string& text, const OpenKernelOptions& options) {
  if (text.ends_with(".toml")) {  // the second of DIR/*.toml, as a shell writes them out
    return Refuse(
        fmt::format("{}: is a case file, no kernel: name one case, then the kernel", text));
  }
  const auto spec = ResolveKernel(text);
  if (!spec) return Refuse(spec.error());
  SessionOptions session_options = options.session;
  session_options.stop = &Interrupted();  // a hang need not be sat out
  auto session = KernelSession::Open(*spec, session_options);
  if (!session) {
    return tl::unexpected(
        OpenError{CanStartWorkers() ? kExitUsage : kExitHarness, WithName(*spec, session.error())});
  }
  return std::move(*session);
}

tl::expected<OpenedKernel, OpenError> OpenKernel(const std::string& text,
                                                 const OpenKernelOptions& options) {
  auto session = OpenSession(text, options);
  if (!session) return tl::unexpected(session.error());
  if (IsModelContract((*session)->identity().contract_json)) {
    return Refuse(
        fmt::format("{}: is no kernel but a model: 'attest check-model {}' checks it", text, text));
  }
  auto contract = ContractOf((*session)->identity());
  if (!contract) {
    return Refuse(fmt::format("{}: malformed contract: {}", text, contract.error()));
  }
  if (!options.contract.empty()) {
    contract = ContractNamed(options.contract, options.strict, *contract);
    if (!contract) return Refuse(contract.error());
  }
  return OpenedKernel{std::move(*session), std::move(*contract)};
}

tl::expected<std::vector<KernelToRun>, OpenError> OpenKernels(
    const std::vector<std::string>& kernels, const std::vector<std::string>& optional_kernels,
    const OpenKernelOptions& options) {
  std::set<std::string> seen;
  std::vector<KernelToRun> opened;
  for (const bool optional : {false, true}) {
    for (const std::string& text : optional ? optional_kernels : kernels) {
      if (!seen.insert(text).second) continue;
      auto kernel = OpenKernel(text, options);
      if (kernel) {
        opened.push_back(ToRun(text, optional, std::move(*kernel)));
        continue;
      }
      if (!optional || kernel.error().status == kExitHarness) {
        return tl::unexpected(kernel.error());
      }
      KernelReport skipped;
      skipped.kernel = text;
      skipped.optional = true;
      skipped.skipped = kernel.error().text;
      opened.push_back({{}, std::move(skipped)});
    }
  }
  return opened;
}

}  // namespace attest
