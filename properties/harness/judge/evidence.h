// What a property's Judge sees of a run: the cases it asked for, what the kernel made of them, what
// the contract promises, and the oracle for what was due.
#ifndef ATTEST_HARNESS_JUDGE_EVIDENCE_H_
#define ATTEST_HARNESS_JUDGE_EVIDENCE_H_

#include <functional>
#include <span>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"
#include "properties/harness/judge/oracle.h"
#include "properties/harness/judge/outcome.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

// All outcomes are kComputed; the runner has dealt with the rest.
struct Evidence {
  const Contract& contract;
  std::span<const Case> cases;
  std::span<const Outcome> outcomes;  // one a case
  Oracle& oracle;                     // over the same cases
  // Whether the cause of this failure is worth the search for it; empty = always.
  std::function<bool(const Verdict&)> wants_cause = {};
  bool wants_every_cause = false;  // and not only the best: Verdict::other_causes
};

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EVIDENCE_H_
