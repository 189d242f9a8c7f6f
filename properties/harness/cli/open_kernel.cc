#include "properties/harness/cli/open_kernel.h"

#include <utility>

#include <fmt/format.h>

#include "properties/harness/cli/arguments.h"

namespace attest {

tl::expected<OpenedKernel, std::string> OpenKernel(const std::string& text,
                                                   const OpenKernelOptions& options) {
  const auto spec = ResolveKernel(text);
  if (!spec) return tl::unexpected(spec.error());
  auto session = KernelSession::Open(*spec, options.session);
  if (!session) return tl::unexpected(session.error());
  auto contract = ParseContract((*session)->identity().contract_json);
  if (!contract) {
    return tl::unexpected(fmt::format("{}: malformed contract: {}", text, contract.error()));
  }
  if (!options.contract.empty()) {
    contract = ContractNamed(options.contract, options.strict, *contract);
    if (!contract) return tl::unexpected(contract.error());
  }
  return OpenedKernel{std::move(*session), std::move(*contract)};
}

}  // namespace attest
