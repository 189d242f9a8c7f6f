#include "properties/harness/runner/run_case.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/judge/fault_cause.h"
#include "properties/harness/runner/case_in_hand.h"

namespace attest {
namespace {

constexpr std::string_view kEquivalence = "equivalence.matches_reference";

Verdict OfKind(VerdictKind kind, std::string reason) {
  Verdict v;
  v.kind = kind;
  v.reason = std::move(reason);
  return v;
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
      return FailOfFault(*outcome.fault);
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

CallSetting SettingOf(const Derived& derived, size_t i) {
  return derived.settings.empty() ? CallSetting{} : derived.settings[i];
}

// Why one of the cases cannot be run as it is to be run; asked first, for it costs nothing.
std::optional<Unable> WhyUnable(const Derived& derived, CallRunner& runner) {
  for (const CallSetting& setting : derived.settings) {
    if (auto unable = runner.WhyUnable(setting)) return unable;
  }
  return std::nullopt;
}

// One of the cases derived from one in hand.
struct Part {
  CaseInHand* hand;
  size_t i;
};

// Has the calls of the parts run together, in their order.
tl::expected<void, Unable> RunParts(const CallSetting& setting, std::span<const Part> parts,
                                    const Contract& contract, CallRunner& runner) {
  std::vector<Call> calls;
  calls.reserve(parts.size());
  for (const auto& [hand, i] : parts) calls.push_back(std::move(hand->lowered[i].call));
  const auto results = runner.Run(setting, calls);
  if (!results) return tl::unexpected(results.error());
  for (size_t n = 0; n < parts.size(); ++n) {
    const auto& [hand, i] = parts[n];
    hand->lowered[i].call = std::move(calls[n]);
    hand->outcomes[i] = Lift(hand->derived.cases[i], contract, hand->lowered[i], (*results)[n]);
  }
  return {};
}

// The outcome of every case derived from one; those of one setting are run together, settings in the order in which
// they are met.
tl::expected<void, Unable> RunBySetting(CaseInHand& hand, const Contract& contract,
                                        CallRunner& runner) {
  const size_t count = hand.derived.cases.size();
  std::vector<bool> done(count, false);
  for (size_t first = 0; first < count; ++first) {
    if (done[first]) continue;
    const CallSetting setting = SettingOf(hand.derived, first);
    std::vector<Part> parts;
    for (size_t i = first; i < count; ++i) {
      if (!(SettingOf(hand.derived, i) == setting)) continue;
      parts.push_back({&hand, i});
      done[i] = true;
    }
    if (auto ran = RunParts(setting, parts, contract, runner); !ran) return ran;
  }
  return {};
}

Signature SignatureOf(std::string_view property, const Verdict& verdict) {
  return {std::string(property), verdict.cause, verdict.output, verdict.cause_class};
}

// The filter as a judge asks it, which does not know under whose name it judges.
std::function<bool(const Verdict&)> Under(std::string_view property, const CauseFilter& wants) {
  if (!wants) return {};
  return [=](const Verdict& verdict) { return wants(SignatureOf(property, verdict)); };
}

// The first `count` cases, without those that are run in an unusual way: by another kernel or beside others.
std::vector<Case> CallsBefore(const Derived& derived, size_t count) {
  std::vector<Case> calls;
  for (size_t i = 0; i < count; ++i) {
    if (SettingOf(derived, i).is_usual()) calls.push_back(derived.cases[i]);
  }
  return calls;
}

// Whether the case is the same computation as one before it, and came out the same: judged by the reference it
// would be judged the same. Where a NaN came out it is judged again.
bool IsRepeated(const Derived& derived, const Evidence& evidence, size_t i) {
  const Outcome& outcome = evidence.outcomes[i];
  for (size_t j = 0; j < i; ++j) {
    const Outcome& before = evidence.outcomes[j];
    if (SettingOf(derived, j).is_usual() && evidence.oracle.AreSame(i, j) &&
        evidence.cases[i].storage.packed == evidence.cases[j].storage.packed &&
        outcome.out == before.out && outcome.lse == before.lse &&
        outcome.weights == before.weights && outcome.scores == before.scores) {
      return true;
    }
  }
  return false;
}

// Derived cases are cases like any other: each must match the reference too. But for those that were
// run in an unusual way, where alone they would show nothing.
void JudgeDerived(const Property& property, const Derived& derived, const Evidence& evidence,
                  CaseResult& result) {
  if (property.id.starts_with("equivalence.")) return;
  for (size_t i = 0; i < evidence.cases.size(); ++i) {
    if (!SettingOf(derived, i).is_usual() || IsRepeated(derived, evidence, i)) continue;
    Verdict verdict = MatchesReference(evidence, i, "it does not match the reference");
    if (verdict.kind == VerdictKind::kFail) {
      result.failures.push_back(FailureOf(kEquivalence, evidence.cases[i], std::move(verdict)));
      result.failures.back().before = CallsBefore(derived, i);
      return;
    }
  }
}

Verdict Refusal(const Outcome& outcome, std::string_view when) {
  return FailWith(
      Cause::kRefused,
      fmt::format("the kernel {}{}, but its contract promises this call", outcome.reason, when));
}

// A refused call breaks one claim, and leaves every other without an answer.
void JudgeRefusals(const Derived& derived, const std::vector<Outcome>& outcomes,
                   CaseResult& result) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    if (outcomes[i].status != OutcomeStatus::kRefused) continue;
    if (!SettingOf(derived, i).is_usual()) continue;
    result.failures.push_back(FailureOf(kAcceptance, derived.cases[i], Refusal(outcomes[i], "")));
    return;
  }
}

std::string DescribeSetting(const CallSetting& setting) {
  std::string text = setting.threads == 0 ? "" : fmt::format(" with {} threads", setting.threads);
  return text + (setting.at_once ? " while other calls run" : "");
}

// A fault condemns the property whatever it claims; nothing else can then be judged. So does a refusal of
// what is taken in the usual way.
std::optional<Verdict> JudgeStatuses(const Derived& derived, const std::vector<Outcome>& outcomes) {
  std::optional<Verdict> worst;
  bool refuses_as_usual = false;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const CallSetting setting = SettingOf(derived, i);
    const bool is_refused = outcomes[i].status == OutcomeStatus::kRefused;
    refuses_as_usual |= is_refused && setting.is_usual();
    auto verdict = JudgeStatus(outcomes[i]);
    if (is_refused && !setting.is_usual() && !refuses_as_usual) {
      verdict = Refusal(outcomes[i], DescribeSetting(setting));
    }
    if (verdict && verdict->kind == VerdictKind::kFail && setting.threads != 0 && !is_refused) {
      verdict->sentence += DescribeSetting(setting);
    }
    if (verdict) worst = worst ? Worst(*worst, *verdict) : *verdict;
  }
  return worst;
}

void JudgeUnable(const Unable& unable, CaseInHand& hand) {
  CaseResult& result = hand.result;
  hand.is_over = true;
  result.verdict = unable.is_fault ? FailWith(Cause::kCrash, unable.reason)
                                   : OfKind(VerdictKind::kUnsupported, unable.reason);
  if (unable.is_fault)
    result.failures.push_back(FailureOf(hand.property->id, *hand.c, result.verdict));
}

}  // namespace

bool WantsNoCause(const Signature&) {
  return false;
}

Verdict FailOfFault(const Fault& fault) {
  Verdict verdict = FailWith(CauseOfFault(fault.kind), fault.detail);
  if (fault.is_cut_offset) {
    verdict.cause_class = kNarrowOffset;
    verdict.likely_cause = "offsets into tensors are counted in 32 bits";
  }
  return verdict;
}

Failure FailureOf(std::string_view property, const Case& c, Verdict verdict) {
  return {SignatureOf(property, verdict), c, std::move(verdict)};
}

std::vector<Case> TakeCalls(Derived& derived) {
  std::vector<Case> calls;
  for (size_t i = 0; i < derived.cases.size(); ++i) {
    if (SettingOf(derived, i).is_usual()) calls.push_back(std::move(derived.cases[i]));
  }
  return calls;
}

void Prepare(const Contract& contract, CallRunner& runner, CaseInHand& hand) {
  const Property& property = *hand.property;
  const auto end_as = [&](VerdictKind kind, std::string reason) {
    hand.is_over = true;
    hand.result.verdict = OfKind(kind, std::move(reason));
  };
  if (std::string reason = property.unsupported(contract); !reason.empty())
    return end_as(VerdictKind::kUnsupported, std::move(reason));
  hand.derived = property.derive(*hand.c, contract);
  if (!hand.derived.not_applicable.empty()) {
    hand.result.applied = false;
    return end_as(VerdictKind::kInconclusive, hand.derived.not_applicable);
  }
  if (const auto unable = WhyUnable(hand.derived, runner)) return JudgeUnable(*unable, hand);
  hand.oracle.emplace(hand.derived.cases, contract);
  auto lowered = LowerAll(hand.derived.cases, contract, *hand.oracle);
  if (!lowered) return end_as(VerdictKind::kUnsupported, lowered.error().reason);
  hand.lowered = std::move(*lowered);
  hand.outcomes.resize(hand.lowered.size());
}

void CallAll(const Contract& contract, CallRunner& runner, std::span<CaseInHand> hands) {
  std::vector<Part> together;
  for (CaseInHand& hand : hands) {
    if (hand.is_over || !hand.derived.settings.empty()) continue;
    for (size_t i = 0; i < hand.outcomes.size(); ++i) together.push_back({&hand, i});
  }
  const auto ran = RunParts({}, together, contract, runner);
  for (CaseInHand& hand : hands) {
    if (hand.is_over) continue;
    const auto ran_this =
        hand.derived.settings.empty() ? ran : RunBySetting(hand, contract, runner);
    if (!ran_this) JudgeUnable(ran_this.error(), hand);
  }
}

void JudgeCalled(const Contract& contract, CallRunner& runner, const CauseFilter& wants_cause,
                 bool every_cause, CaseInHand& hand) {
  const Property& property = *hand.property;
  const std::vector<Outcome>& outcomes = hand.outcomes;
  CaseResult& result = hand.result;
  hand.is_over = true;
  result.calls = std::ssize(outcomes);
  JudgeRefusals(hand.derived, outcomes, result);
  if (auto verdict = JudgeStatuses(hand.derived, outcomes)) {
    result.verdict = std::move(*verdict);
  } else {
    Evidence evidence{
        contract,   hand.derived.cases, outcomes, *hand.oracle, Under(property.id, wants_cause),
        every_cause};
    runner.OnEvidence(evidence);
    result.verdict = property.judge(evidence);
    evidence.wants_cause = Under(kEquivalence, wants_cause);
    JudgeDerived(property, hand.derived, evidence, result);
  }
  for (const Outcome& outcome : outcomes) result.verdict.via_mask |= outcome.via_mask;
  if (property.id == kAcceptance && !result.failures.empty()) {
    result.verdict = result.failures.front().verdict;
  } else if (result.verdict.kind == VerdictKind::kFail) {
    result.failures.insert(result.failures.begin(),
                           FailureOf(property.id, *hand.c, result.verdict));
  }
  result.called = TakeCalls(hand.derived);
}

std::optional<Unable> SessionRunner::WhyUnable(const CallSetting& setting) {
  if (setting.at_once && !session_.identity().can_run_at_once) {
    return Unable{"the kernel's worker computes one call at a time"};
  }
  if (setting.threads == 0) return std::nullopt;
  const auto with_threads = session_.WithThreads(setting.threads);
  if (!with_threads) return with_threads.error();
  return std::nullopt;
}

tl::expected<std::vector<CallResult>, Unable> SessionRunner::Run(const CallSetting& setting,
                                                                 std::span<const Call> calls) {
  KernelSession* runner = &session_;
  if (setting.threads != 0) {
    const auto with_threads = session_.WithThreads(setting.threads);
    if (!with_threads) return tl::unexpected(with_threads.error());
    runner = *with_threads;
  }
  if (setting.at_once) return runner->RunAtOnce(calls);
  return runner->Run(calls);
}

std::optional<Case> DerivedAtFault(const Property& property, const Case& c,
                                   const Contract& contract, const Verdict& verdict) {
  if (!verdict.witness) return std::nullopt;
  Derived derived = property.derive(c, contract);
  if (verdict.call >= derived.cases.size() || SameCase(derived.cases[verdict.call], c)) {
    return std::nullopt;
  }
  return std::move(derived.cases[verdict.call]);
}

KernelSession* SessionAtFault(const Property& property, const Case& c, const Contract& contract,
                              const Verdict& verdict, KernelSession& session) {
  const Derived derived = property.derive(c, contract);
  if (!verdict.witness || verdict.call >= derived.cases.size()) return &session;
  const CallSetting setting = SettingOf(derived, verdict.call);
  return setting.threads == 0 ? &session : session.WithThreads(setting.threads).value_or(nullptr);
}

CaseResult RunCase(const Property& property, const Case& c, const Contract& contract,
                   CallRunner& runner, const CauseFilter& wants_cause, bool every_cause) {
  CaseInHand hand{&property, &c};
  Prepare(contract, runner, hand);
  CallAll(contract, runner, {&hand, 1});
  if (!hand.is_over) JudgeCalled(contract, runner, wants_cause, every_cause, hand);
  return std::move(hand.result);
}

CaseResult RunCase(const Property& property, const Case& c, const Contract& contract,
                   KernelSession& session, const CauseFilter& wants_cause, bool every_cause) {
  SessionRunner runner(session);
  return RunCase(property, c, contract, runner, wants_cause, every_cause);
}

bool RunHolds(const Property& property, const Case& c, const Contract& contract,
              KernelSession& session) {
  const CaseResult result = RunCase(property, c, contract, session, WantsNoCause);
  const VerdictKind kind = result.verdict.kind;
  return !session.interrupted() && result.applied && result.failures.empty() &&
         (kind == VerdictKind::kPass || kind == VerdictKind::kMarginal);
}

bool RunFails(const Property& property, const Case& c, const Contract& contract,
              KernelSession& session) {
  const CaseResult result = RunCase(property, c, contract, session, WantsNoCause);
  return !session.interrupted() && !result.failures.empty();
}

}  // namespace attest
