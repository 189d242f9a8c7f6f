// A case on its way through run_case.cc, in the parts that cases run together go through one after the other.
#ifndef ATTEST_HARNESS_RUNNER_CASE_IN_HAND_H_
#define ATTEST_HARNESS_RUNNER_CASE_IN_HAND_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "properties/harness/judge/oracle.h"
#include "properties/harness/lower/lower.h"
#include "properties/harness/runner/call_runner.h"

namespace attest {

// Makes one call a case, and compares it with nothing.
inline constexpr std::string_view kAcceptance = "equivalence.promised_calls_are_accepted";

struct CaseInHand {
  const Property* property = nullptr;
  const Case* c = nullptr;
  Derived derived{};
  std::optional<Oracle> oracle{};  // of derived.cases, which stay where they are
  std::vector<Lowered> lowered{};
  std::vector<Outcome> outcomes{};
  CaseResult result{};
  bool is_over = false;  // the result holds all there is to say
};

// Up to the calls, which are then ready to be made.
void Prepare(const Contract& contract, CallRunner& runner, CaseInHand& hand);

// The calls of all cases that are in hand still, in one round trip where none is run in an unusual way.
void CallAll(const Contract& contract, CallRunner& runner, std::span<CaseInHand> hands);

// From the outcomes on.
void JudgeCalled(const Contract& contract, CallRunner& runner, const CauseFilter& wants_cause,
                 bool every_cause, CaseInHand& hand);

// The derived cases that are run in the usual way, moved out of `derived`: copies would cost as much as a small case's
// kernel.
std::vector<Case> TakeCalls(Derived& derived);

Verdict FailOfFault(const Fault& fault);
Failure FailureOf(std::string_view property, const Case& c, Verdict verdict);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_CASE_IN_HAND_H_
