#include "properties/harness/cli/open_kernel.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/cli/arguments.h"
#include "properties/harness/cli/interrupt.h"
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

tl::unexpected<OpenError> Refuse(std::string text) {
  return tl::unexpected(OpenError{kExitUsage, std::move(text)});
}

}  // namespace

tl::expected<OpenedKernel, OpenError> OpenKernel(const std::string& text,
                                                 const OpenKernelOptions& options) {
  const auto spec = ResolveKernel(text);
  if (!spec) return Refuse(spec.error());
  SessionOptions session_options = options.session;
  session_options.stop = &Interrupted();  // a hang need not be sat out
  auto session = KernelSession::Open(*spec, session_options);
  if (!session) {
    return tl::unexpected(
        OpenError{CanStartWorkers() ? kExitUsage : kExitHarness, session.error()});
  }
  auto contract = ParseContract((*session)->identity().contract_json);
  if (!contract) {
    return Refuse(fmt::format("{}: malformed contract: {}", text, contract.error()));
  }
  if (!options.contract.empty()) {
    contract = ContractNamed(options.contract, options.strict, *contract);
    if (!contract) return Refuse(contract.error());
  }
  return OpenedKernel{std::move(*session), std::move(*contract)};
}

}  // namespace attest
