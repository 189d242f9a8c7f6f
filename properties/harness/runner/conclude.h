// From the counts of a property's cases to its one verdict. Apart from the runner so that the rule
// can be read, and tested, by itself.
#ifndef ATTEST_HARNESS_RUNNER_CONCLUDE_H_
#define ATTEST_HARNESS_RUNNER_CONCLUDE_H_

#include <map>
#include <string>

#include "properties/harness/runner/run_property.h"

namespace attest {

// What the counts alone do not tell.
struct RunFacts {
  std::string cut_short;  // why the run ended before its plan did; empty = it did not
  bool gave_up = false;   // too few of the cases drawn said anything
  std::string first_inconclusive;
  std::string flaky;  // what became of the first failure that did not recur and is no finding
  int64_t flaky_failures = 0;  // how many such were looked into
  std::map<std::string, int64_t> not_applicable_reasons;
};

// Sets result.verdict and result.reason, by the first line that applies:
//   FAIL          some finding of this property failed
//   INCONCLUSIVE  a flaky failure; cut short; no case applied; no row decided; too few cases applied
//   UNSUPPORTED   every case that applied was unsupported: the commonest reason
//   INCONCLUSIVE  some case was, and none passed
//   MARGINAL      some case was
//   PASS
void Conclude(const RunFacts& facts, PropertyResult& result);

// The key with the largest count, the first of equals; "" for an empty map.
std::string Commonest(const std::map<std::string, int64_t>& counts);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_CONCLUDE_H_
