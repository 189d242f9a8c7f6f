// From the name of a model on the command line to a running worker and its contract.
#ifndef ATTEST_HARNESS_CLI_OPEN_MODEL_H_
#define ATTEST_HARNESS_CLI_OPEN_MODEL_H_

#include <memory>
#include <string>

#include <tl/expected.hpp>

#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/model/contract.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

struct OpenedModel {
  std::unique_ptr<KernelSession> session;
  ModelContract contract;
};

// As OpenKernel; a kernel is refused.
tl::expected<OpenedModel, OpenError> OpenModel(const std::string& text,
                                               const OpenKernelOptions& options = {});

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_OPEN_MODEL_H_
