// What replay and shrink work on: a case file, the property it is about and the kernel it is run
// on, from the command line or, where that says nothing, from the file.
#ifndef ATTEST_HARNESS_CLI_CASE_TARGET_H_
#define ATTEST_HARNESS_CLI_CASE_TARGET_H_

#include <string>

#include <tl/expected.hpp>

#include "properties/harness/case/toml.h"
#include "properties/harness/cli/open_kernel.h"
#include "properties/property.h"

namespace attest {

struct CaseTarget {
  CaseFile file;
  const Property* property;
  std::string kernel;
  OpenedKernel opened;
};

// What stands in a file; "" where it cannot be read, which the reader of cases says better.
std::string ContentOf(const std::string& path);

// What to add where a kernel that the file alone names cannot be opened: it is named as its run saw it.
std::string WhoNamed(const std::string& path);

// Empty `property` and `kernel` mean the file's; a file without a property is held against the
// reference.
tl::expected<CaseTarget, OpenError> OpenCaseTarget(const std::string& path,
                                                   const std::string& property,
                                                   const std::string& kernel,
                                                   const OpenKernelOptions& options);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_CASE_TARGET_H_
