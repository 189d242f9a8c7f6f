// What a kernel says of itself, as far as its worker lets it.
#include "properties/harness/sandbox/session.h"

namespace attest {

tl::expected<Contract, std::string> ContractOf(const KernelIdentity& identity) {
  auto contract = ParseContract(identity.contract_json);
  if (contract && !identity.maps_views) contract->far_strides = false;
  return contract;
}

}  // namespace attest
