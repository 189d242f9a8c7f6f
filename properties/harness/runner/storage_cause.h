// The cause of a failure that is a matter of where keys and values are kept, found by an experiment: the same case
// in plain tensors. For MakeFinding.
#ifndef ATTEST_HARNESS_RUNNER_STORAGE_CAUSE_H_
#define ATTEST_HARNESS_RUNNER_STORAGE_CAUSE_H_

#include <optional>
#include <string>
#include <string_view>

#include "impl/attention/contract.h"
#include "properties/harness/judge/verdict.h"
#include "properties/harness/sandbox/session.h"
#include "properties/property.h"

namespace attest {

struct StorageCause {
  std::string_view cause_class;
  std::string
      why;  // one clause, which names the storage: "past tensors of no keys are misread: ..."
};

// nullopt where the case at fault is stored plainly, or where plain storage does not mend it.
std::optional<StorageCause> FindStorageCause(const Property& property, const Finding& finding,
                                             const Contract& contract, KernelSession& session);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_STORAGE_CAUSE_H_
