// Reads the values that command-line options carry. Every error is one line: what, and how to mend
// it.
#ifndef ATTEST_HARNESS_CLI_ARGUMENTS_H_
#define ATTEST_HARNESS_CLI_ARGUMENTS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/contract.h"
#include "properties/harness/model/model_property.h"
#include "properties/harness/runner/run_property.h"
#include "properties/property.h"

namespace attest {

// "90s" "5m" "8h" "2d": a whole number of at least 1 and its unit.
tl::expected<std::chrono::seconds, std::string> ParseDuration(const std::string& text);

// "i/n", 0 <= i < n.
tl::expected<std::pair<int64_t, int64_t>, std::string> ParseShard(const std::string& text);

// Decimal, or hexadecimal after 0x.
tl::expected<uint64_t, std::string> ParseSeed(const std::string& text);

tl::expected<Plan, std::string> ParsePlan(const std::string& text);

// The properties whose id matches one of the shell patterns, in the order of the families; all of
// them for no pattern. A pattern that matches nothing is an error.
tl::expected<std::vector<const Property*>, std::string> SelectProperties(
    const std::vector<std::string>& patterns);

// Likewise of models.
tl::expected<std::vector<const ModelProperty*>, std::string> SelectModelProperties(
    const std::vector<std::string>& patterns);

tl::expected<const Property*, std::string> PropertyNamed(const std::string& id);

// What a published contract asks of a kernel that declares `declared`. Strict takes it whole: a
// kernel that lacks a feature of it fails. Otherwise its promises hold for what the kernel offers:
// features, element types, layouts, strides, alignment and limits are as declared.
tl::expected<Contract, std::string> ContractNamed(const std::string& name, bool strict,
                                                  const Contract& declared);

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_ARGUMENTS_H_
