// Cases whose calls go to the kernel together, and cases behind calls made before them.
#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/runner/case_in_hand.h"
#include "properties/harness/sandbox/fault_words.h"

namespace attest {
namespace {

const Fault* LateWriteIn(const CaseInHand& hand) {
  for (const Outcome& outcome : hand.outcomes) {
    if (outcome.fault && outcome.fault->kind == FaultKind::kLateWrite) return &*outcome.fault;
  }
  return nullptr;
}

// The verdict of the case whose call wrote there; `fault` is of one of `count` calls before it.
Verdict WroteBehind(const Fault& fault, size_t count) {
  Fault own = fault;
  const std::string element =
      fault.index.empty() ? "" : fmt::format(" ({})", ElementName(fault.role, fault.index));
  own.detail = fmt::format("wrote to {}{} of {} before it, after that call had returned",
                           RoleName(fault.role), element, count == 1 ? "the call" : "a call");
  return FailOfFault(own);
}

// A failing case, and the cases called in the same round trip before it, of which the first has an output that is
// written to after its call has returned: by a call of the last. nullopt where none is.
std::optional<Failure> FindLateWriter(const Property& property, std::span<const Case> cases,
                                      std::span<const std::vector<Case>> called,
                                      const Contract& contract, KernelSession& session) {
  std::vector<Case> before;
  for (size_t n = 0; n + 1 < cases.size(); ++n) {
    before.insert(before.end(), called[n].begin(), called[n].end());
    CaseResult result = RunInOneTripBehind(before, property, cases[n + 1], contract, session);
    if (result.failures.empty()) continue;
    result.failures.front().before = std::move(before);
    return std::move(result.failures.front());
  }
  return std::nullopt;
}

bool IsLateWrite(const CaseResult& result) {
  return !result.failures.empty() && result.failures.front().signature.cause == Cause::kLateWrite;
}

void AddFailure(Failure failure, CaseResult& result) {
  if (result.failures.empty()) result.verdict = failure.verdict;
  result.failures.push_back(std::move(failure));
}

// All calls in one round trip; as RunCases, but for what fails in company only. `called` gets the calls of each case.
std::vector<CaseResult> RunTogether(const Property& property, std::span<const Case> cases,
                                    const Contract& contract, KernelSession& session,
                                    std::vector<std::vector<Case>>& called) {
  SessionRunner runner(session);
  std::vector<CaseInHand> hands(cases.size());
  for (size_t n = 0; n < cases.size(); ++n) {
    hands[n].property = &property;
    hands[n].c = &cases[n];
    Prepare(contract, runner, hands[n]);
  }
  CallAll(contract, runner, hands);
  std::vector<CaseResult> results;
  for (CaseInHand& hand : hands) {
    if (!hand.is_over) JudgeCalled(contract, runner, WantsNoCause, false, hand);
    results.push_back(std::move(hand.result));
    if (!results.back().failures.empty()) break;
  }
  if (results.back().failures.empty()) return results;
  for (size_t n = 0; n < hands.size(); ++n) {
    called.push_back(n < results.size() ? results[n].called : TakeCalls(hands[n].derived));
  }
  return results;
}

std::vector<CaseResult> RunUpToAFailure(const Property& property, std::span<const Case> cases,
                                        const Contract& contract, KernelSession& session,
                                        const CauseFilter& wants_cause) {
  std::vector<CaseResult> results;
  for (const Case& c : cases) {
    results.push_back(RunCase(property, c, contract, session, wants_cause));
    if (!results.back().failures.empty()) break;
  }
  return results;
}

}  // namespace

std::string MakeCalls(const std::vector<Case>& before, const Contract& contract,
                      KernelSession& session) {
  const Property* plain = FindProperty(kAcceptance);
  std::string why_not;
  for (const Case& c : before) {
    const CaseResult made = RunCase(*plain, c, contract, session);
    if (why_not.empty() && made.verdict.kind == VerdictKind::kUnsupported) {
      why_not = made.verdict.reason;
    }
  }
  return why_not;
}

CaseResult RunInOneTripBehind(const std::vector<Case>& before, const Property& property,
                              const Case& c, const Contract& contract, KernelSession& session) {
  const Property* plain = FindProperty(kAcceptance);
  SessionRunner runner(session);
  std::vector<CaseInHand> hands;
  hands.reserve(before.size() + 1);
  for (const Case& one : before) hands.push_back({plain, &one});
  hands.push_back({&property, &c});
  for (CaseInHand& hand : hands) Prepare(contract, runner, hand);
  CallAll(contract, runner, hands);
  CaseResult result;
  for (const CaseInHand& hand : std::span(hands).first(before.size())) {
    const Fault* fault = LateWriteIn(hand);
    if (fault == nullptr) continue;
    result.verdict = WroteBehind(*fault, before.size());
    result.failures.push_back(FailureOf(property.id, c, result.verdict));
    break;
  }
  return result;
}

CaseResult RunBehind(const std::vector<Case>& before, const Property& property, const Case& c,
                     const Contract& contract, KernelSession& session,
                     const CauseFilter& wants_cause) {
  if (before.empty()) return RunCase(property, c, contract, session, wants_cause);
  session.Refresh();
  CaseResult late = RunInOneTripBehind(before, property, c, contract, session);
  session.Refresh();
  MakeCalls(before, contract, session);
  CaseResult result = RunCase(property, c, contract, session, wants_cause);
  if (late.failures.empty()) return result;
  // Whatever else fails may come of it.
  result.verdict = std::move(late.verdict);
  result.failures.insert(result.failures.begin(), std::move(late.failures.front()));
  return result;
}

std::vector<CaseResult> RunCases(const Property& property, std::span<const Case> cases,
                                 const Contract& contract, KernelSession& session,
                                 const CauseFilter& wants_cause) {
  if (cases.size() == 1) return {RunCase(property, cases[0], contract, session, wants_cause)};
  std::vector<std::vector<Case>> called;
  std::vector<CaseResult> together = RunTogether(property, cases, contract, session, called);
  if (together.back().failures.empty()) return together;
  std::optional<Failure> late;
  if (IsLateWrite(together.back())) {
    const size_t spoilt = together.size() - 1;
    late = FindLateWriter(property, cases.subspan(spoilt), std::span(called).subspan(spoilt),
                          contract, session);
  }
  std::vector<CaseResult> alone = RunUpToAFailure(property, cases, contract, session, wants_cause);
  if (late) AddFailure(*std::move(late), alone.back());
  if (alone.back().failures.empty()) return together;
  for (std::vector<Case>& one : called) {
    std::ranges::move(one, std::back_inserter(alone.front().called_before));
  }
  return alone;
}

}  // namespace attest
