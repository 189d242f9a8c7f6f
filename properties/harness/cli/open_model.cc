#include "properties/harness/cli/open_model.h"

#include <utility>

#include <fmt/format.h>

namespace attest {

tl::expected<OpenedModel, OpenError> OpenModel(const std::string& text,
                                               const OpenKernelOptions& options) {
  auto session = OpenSession(text, options);
  if (!session) return tl::unexpected(session.error());
  const std::string& json = (*session)->identity().contract_json;
  auto contract = ParseModelContract(json);
  if (contract) return OpenedModel{std::move(*session), std::move(*contract)};
  // What cannot be read is malformed, whatever it was to be.
  const std::string why =
      IsModelContract(json) || contract.error() == kNoJson
          ? fmt::format("{}: malformed contract: {}", text, contract.error())
          : fmt::format("{}: is no model but a kernel: 'attest check {}' checks it", text, text);
  return tl::unexpected(OpenError{kExitUsage, why});
}

}  // namespace attest
