// The cause of a failure that is a matter of how tensors lie in memory: no look at one outcome gives it, but running
// the case again with contiguous tensors does. For MakeFinding.
#ifndef ATTEST_HARNESS_RUNNER_STRIDES_CAUSE_H_
#define ATTEST_HARNESS_RUNNER_STRIDES_CAUSE_H_

#include <optional>
#include <string>
#include <string_view>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"
#include "properties/harness/sandbox/session.h"
#include "properties/property.h"

namespace attest {

struct StridesCause {
  std::string_view cause_class;
  std::string why;  // one clause, which names the tensors
};

// `smallest` fails `property` each time. nullopt where contiguous tensors do not mend it, or where no single tensor
// that is not contiguous breaks it.
std::optional<StridesCause> FindStridesCause(const Property& property, const Case& smallest,
                                             const Contract& contract, KernelSession& session);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_STRIDES_CAUSE_H_
