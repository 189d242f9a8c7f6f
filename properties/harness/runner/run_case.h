// One property, one case or some, one kernel: the line through the house. Derives the cases, lowers them,
// runs them in one round trip for each way of running them, lifts the outcomes, judges. The suites,
// replay, shrink and vectors all go through here.
#ifndef ATTEST_HARNESS_RUNNER_RUN_CASE_H_
#define ATTEST_HARNESS_RUNNER_RUN_CASE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/judge/verdict.h"
#include "properties/harness/sandbox/session.h"
#include "properties/property.h"

namespace attest {

// A failing case with the claim it breaks, ready to be run again by itself.
struct Failure {
  Signature signature;
  Case c;
  Verdict verdict;
  std::vector<Case>
      before{};  // calls made before it on the same kernel, as far as known, the last one last
};

struct CaseResult {
  Verdict verdict;      // of the property on the case
  bool applied = true;  // false: the case says nothing about the claim (verdict.reason says why)
  // Every failure met: the property's own first, then derived cases that differ from the reference
  // (signature equivalence.matches_reference).
  std::vector<Failure> failures;
  int64_t calls = 0;
  std::vector<Case> called{};  // the calls in the usual setting, in order
  std::vector<Case>
      called_before{};  // likewise those made before them of which no result tells: see RunCases
};

// The case that the verdict's witness is from, where the property has derived it from `c`; nullopt
// where it is `c` itself or there is no witness.
std::optional<Case> DerivedAtFault(const Property& property, const Case& c,
                                   const Contract& contract, const Verdict& verdict);

// The session in which that case, run alone, can give the verdict's value again: `session`, or its
// sibling with the threads of the call at fault. A call that was made beside others is alone there, and may
// be right. nullptr where no such kernel can be had.
KernelSession* SessionAtFault(const Property& property, const Case& c, const Contract& contract,
                              const Verdict& verdict, KernelSession& session);

// Which failures are worth a search for their cause, which costs more than all else in a failing
// case; asked with a signature that has no class yet. Empty = all.
using CauseFilter = std::function<bool(const Signature&)>;
// One that wants none.
bool WantsNoCause(const Signature&);

// `c` must be valid. With `every_cause` failures name all causes that fit, not only the best.
CaseResult RunCase(const Property& property, const Case& c, const Contract& contract,
                   KernelSession& session, const CauseFilter& wants_cause = {},
                   bool every_cause = false);

// As many cases as a run has their calls made together: more touch so much memory that it leaves the caches.
inline constexpr int64_t kCasesTogether = 4;

// Cases one after the other, as RunCase runs each; their calls go to the kernel together, for a round trip costs as
// much as a small case. Where one fails they are run again each by itself, as they will be when it is looked into; should
// none fail then, the failure stands. One result for each of the first cases, up to and including the first that fails.
std::vector<CaseResult> RunCases(const Property& property, std::span<const Case> cases,
                                 const Contract& contract, KernelSession& session,
                                 const CauseFilter& wants_cause = {});

// Makes the calls of a case file's [[before]], or a finding's, whatever comes of them. Returns why one was not made,
// because the contract does not offer it; empty = all were.
std::string MakeCalls(const std::vector<Case>& before, const Contract& contract,
                      KernelSession& session);

// A case behind those calls, on a kernel that has seen no others; with none, RunCase.
CaseResult RunBehind(const std::vector<Case>& before, const Property& property, const Case& c,
                     const Contract& contract, KernelSession& session,
                     const CauseFilter& wants_cause = {});

// The calls of all in one round trip, where outputs of earlier ones are still in place when later ones run. The one
// failure this looks for: that a call of `c` writes to such an output.
CaseResult RunInOneTripBehind(const std::vector<Case>& before, const Property& property,
                              const Case& c, const Contract& contract, KernelSession& session);

// Whether one run of the case holds, and whether it fails: neither where it was not judged.
bool RunHolds(const Property& property, const Case& c, const Contract& contract,
              KernelSession& session);
bool RunFails(const Property& property, const Case& c, const Contract& contract,
              KernelSession& session);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_RUN_CASE_H_
