// Contracts as text and side by side: the inverse of ParseContract, and the differences of two
// contracts field by field. `attest list contracts --diff` and `attest probe` print from here.
#ifndef ATTEST_ATTENTION_CONTRACT_JSON_H_
#define ATTEST_ATTENTION_CONTRACT_JSON_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/contract.h"

namespace attest {

// The published contract of that name; nullopt for an unknown one.
std::optional<Contract> PublishedContract(std::string_view name);

// A JSON object that ParseContract reads back to the same contract: the published contract that it
// starts from (contract.name), then every field that differs from it, one a line.
std::string ContractJson(const Contract& contract);

// One field in which two contracts differ. Of a set, `only_a` and `only_b` hold the members that one
// of them lacks and the texts are empty; of any other field `a` and `b` are its values as in JSON,
// words without their quotes.
struct ContractDifference {
  std::string field;  // "mask_true_means", "limits.max_batch", "numerics.f16.scores"
  std::string a, b;
  std::vector<std::string> only_a, only_b;
};

// In the order of the fields in the JSON text; the names do not count as a difference.
std::vector<ContractDifference> DifferencesOf(const Contract& a, const Contract& b);

// How far two contracts lie apart: one for each differing value and each member of a set.
int64_t CountDifferences(const Contract& a, const Contract& b);

// The members of two sets in one line: "+explicit -zero".
std::string SetChanges(const ContractDifference& difference);

}  // namespace attest

#endif  // ATTEST_ATTENTION_CONTRACT_JSON_H_
