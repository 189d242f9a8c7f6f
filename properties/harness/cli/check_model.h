// What attest check-model and attest replay share: a case of a model, run again.
#ifndef ATTEST_HARNESS_CLI_CHECK_MODEL_H_
#define ATTEST_HARNESS_CLI_CHECK_MODEL_H_

#include <string>

#include "properties/harness/cli/open_kernel.h"

namespace attest {

// Replays the case in `text`, the content of the file `path`; model and property are the file's where they are
// empty. Returns the exit status.
int ReplayModel(const std::string& path, const std::string& text, const std::string& model,
                const std::string& property, const OpenKernelOptions& open);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_CHECK_MODEL_H_
