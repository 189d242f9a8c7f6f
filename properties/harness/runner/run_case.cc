#include "properties/harness/runner/run_case.h"

#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/lower/lower.h"

namespace attest {
namespace {

constexpr std::string_view kEquivalence = "equivalence.matches_reference";
constexpr std::string_view kAcceptance = "equivalence.promised_calls_are_accepted";

Verdict OfKind(VerdictKind kind, std::string reason) {
  Verdict v;
  v.kind = kind;
  v.reason = std::move(reason);
  return v;
}

Cause CauseOfFault(FaultKind kind) {
  switch (kind) {
    case FaultKind::kReadFault:
      return Cause::kReadFault;
    case FaultKind::kWriteFault:
      return Cause::kWriteFault;
    case FaultKind::kInputChanged:
      return Cause::kInputChanged;
    case FaultKind::kStrayWrite:
      return Cause::kStrayWrite;
    case FaultKind::kUnwritten:
      return Cause::kUnwritten;
    case FaultKind::kCrash:
      return Cause::kCrash;
    case FaultKind::kExit:
      return Cause::kExit;
    case FaultKind::kHang:
      return Cause::kHang;
    case FaultKind::kMemoryLimit:
      return Cause::kMemoryLimit;
    case FaultKind::kFloatEnvironment:
      return Cause::kFloatEnvironment;
    case FaultKind::kProtocol:
      return Cause::kProtocol;
  }
  return Cause::kProtocol;
}

Verdict FailWith(Cause cause, std::string sentence) {
  Verdict v;
  v.kind = VerdictKind::kFail;
  v.cause = cause;
  v.sentence = std::move(sentence);
  return v;
}

// A verdict for an outcome that holds no values; nullopt when it holds some.
std::optional<Verdict> JudgeStatus(const Outcome& outcome) {
  switch (outcome.status) {
    case OutcomeStatus::kComputed:
      return std::nullopt;
    case OutcomeStatus::kUnsupported:
      return OfKind(VerdictKind::kUnsupported, outcome.reason);
    case OutcomeStatus::kRefused:
      return OfKind(VerdictKind::kUnsupported,
                    fmt::format("refused: the kernel {}", outcome.reason));
    case OutcomeStatus::kFault:
      return FailWith(CauseOfFault(outcome.fault->kind), outcome.fault->detail);
  }
  return std::nullopt;
}

// The cases of one property run, lowered; or why the contract does not take one of them.
tl::expected<std::vector<Lowered>, Unsupported> LowerAll(const std::vector<Case>& cases,
                                                         const Contract& contract, Oracle& oracle) {
  std::vector<Lowered> lowered;
  for (size_t i = 0; i < cases.size(); ++i) {
    auto one = Lower(cases[i], oracle.InputsOf(i), contract);
    if (!one) return tl::unexpected(one.error());
    lowered.push_back(std::move(*one));
  }
  return lowered;
}

std::vector<Outcome> RunAll(const std::vector<Case>& cases, const std::vector<Lowered>& lowered,
                            const Contract& contract, KernelSession& session) {
  std::vector<Call> calls;
  for (const Lowered& one : lowered) calls.push_back(one.call);
  const std::vector<CallResult> results = session.Run(calls);
  std::vector<Outcome> outcomes;
  for (size_t i = 0; i < cases.size(); ++i) {
    outcomes.push_back(Lift(cases[i], contract, lowered[i], results[i]));
  }
  return outcomes;
}

Signature SignatureOf(std::string_view property, const Verdict& verdict) {
  return {std::string(property), verdict.cause, verdict.output, verdict.cause_class};
}

Failure FailureOf(std::string_view property, const Case& c, Verdict verdict) {
  return {SignatureOf(property, verdict), c, std::move(verdict)};
}

// The filter as a judge asks it, which does not know under whose name it judges.
std::function<bool(const Verdict&)> Under(std::string_view property, const CauseFilter& wants) {
  if (!wants) return {};
  return [=](const Verdict& verdict) { return wants(SignatureOf(property, verdict)); };
}

// Derived cases are cases like any other: each must match the reference too.
void JudgeDerived(const Property& property, const Evidence& evidence, CaseResult& result) {
  if (property.id.starts_with("equivalence.")) return;
  for (size_t i = 0; i < evidence.cases.size(); ++i) {
    Verdict verdict = MatchesReference(evidence, i, "it does not match the reference");
    if (verdict.kind == VerdictKind::kFail) {
      result.failures.push_back(FailureOf(kEquivalence, evidence.cases[i], std::move(verdict)));
      return;
    }
  }
}

// A refused call breaks one claim, and leaves every other without an answer.
void JudgeRefusals(const std::vector<Case>& cases, const std::vector<Outcome>& outcomes,
                   CaseResult& result) {
  for (size_t i = 0; i < cases.size(); ++i) {
    if (outcomes[i].status != OutcomeStatus::kRefused) continue;
    Verdict verdict = FailWith(
        Cause::kRefused,
        fmt::format("the kernel {}, but its contract promises this call", outcomes[i].reason));
    result.failures.push_back(FailureOf(kAcceptance, cases[i], std::move(verdict)));
    return;
  }
}

// A fault condemns the property whatever it claims; nothing else can then be judged.
std::optional<Verdict> JudgeStatuses(const std::vector<Outcome>& outcomes) {
  std::optional<Verdict> worst;
  for (const Outcome& outcome : outcomes) {
    auto verdict = JudgeStatus(outcome);
    if (verdict) worst = worst ? Worst(*worst, *verdict) : *verdict;
  }
  return worst;
}

}  // namespace

std::optional<Case> DerivedAtFault(const Property& property, const Case& c,
                                   const Contract& contract, const Verdict& verdict) {
  if (!verdict.witness) return std::nullopt;
  Derived derived = property.derive(c, contract);
  if (verdict.call >= derived.cases.size() || SameCase(derived.cases[verdict.call], c)) {
    return std::nullopt;
  }
  return std::move(derived.cases[verdict.call]);
}

CaseResult RunCase(const Property& property, const Case& c, const Contract& contract,
                   KernelSession& session, const CauseFilter& wants_cause) {
  CaseResult result;
  if (std::string reason = property.unsupported(contract); !reason.empty()) {
    result.verdict = OfKind(VerdictKind::kUnsupported, std::move(reason));
    return result;
  }
  const Derived derived = property.derive(c, contract);
  if (!derived.not_applicable.empty()) {
    result.applied = false;
    result.verdict = OfKind(VerdictKind::kInconclusive, derived.not_applicable);
    return result;
  }
  Oracle oracle(derived.cases, contract);
  const auto lowered = LowerAll(derived.cases, contract, oracle);
  if (!lowered) {
    result.verdict = OfKind(VerdictKind::kUnsupported, lowered.error().reason);
    return result;
  }
  const std::vector<Outcome> outcomes = RunAll(derived.cases, *lowered, contract, session);
  result.calls = static_cast<int64_t>(outcomes.size());
  JudgeRefusals(derived.cases, outcomes, result);
  if (auto verdict = JudgeStatuses(outcomes)) {
    result.verdict = std::move(*verdict);
  } else {
    Evidence evidence{contract, derived.cases, outcomes, oracle, Under(property.id, wants_cause)};
    result.verdict = property.judge(evidence);
    evidence.wants_cause = Under(kEquivalence, wants_cause);
    JudgeDerived(property, evidence, result);
  }
  for (const Outcome& outcome : outcomes) result.verdict.via_mask |= outcome.via_mask;
  if (property.id == kAcceptance && !result.failures.empty()) {
    result.verdict = result.failures.front().verdict;
  } else if (result.verdict.kind == VerdictKind::kFail) {
    result.failures.insert(result.failures.begin(), FailureOf(property.id, c, result.verdict));
  }
  return result;
}

}  // namespace attest
