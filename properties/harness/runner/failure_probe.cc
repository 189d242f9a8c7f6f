#include "properties/harness/runner/failure_probe.h"

#include <algorithm>
#include <utility>

#include "properties/harness/runner/calls_before.h"

namespace attest {
namespace {

// What asking fresh kernels may cost a session: a worker in C++ starts in milliseconds, one in Python in a second.
constexpr double kMostSecondsRefreshing = 10;

bool IsGood(VerdictKind kind) {
  return kind == VerdictKind::kPass || kind == VerdictKind::kMarginal;
}

}  // namespace

bool IsGradientOutput(std::string_view output) {
  return output == "dq" || output == "dk" || output == "dv" || output == "dbias" ||
         output == "dsink";
}

FailureProbe::FailureProbe(const Property& property, const Failure& failure,
                           const Contract& contract, KernelSession& session,
                           const RunOptions& options)
    : property_(property),
      contract_(contract),
      session_(session),
      options_(options),
      waived_(IsWaived(failure)),
      signature_(failure.signature),
      verdict_(failure.verdict) {}

bool FailureProbe::StillFails(const Case& c) {
  auto failure = Run(c, signature_, /*needs_class=*/true);
  if (!failure) return false;
  signature_ = std::move(failure->signature);
  verdict_ = std::move(failure->verdict);
  return true;
}

bool FailureProbe::Recurs(const Case& c) {
  Signature any_class = signature_;
  any_class.cause_class.clear();
  auto failure = Run(c, any_class, /*needs_class=*/false);
  if (!interrupted()) reruns_.push_back(failure ? failure->verdict.witness : std::nullopt);
  // How long it was waited for says more without hurry.
  if (failure && signature_.cause == Cause::kHang) verdict_ = std::move(failure->verdict);
  return failure.has_value();
}

void FailureProbe::Follow(const Failure& failure) {
  signature_ = failure.signature;
  verdict_ = failure.verdict;
}

bool FailureProbe::RecursBehind(const std::vector<Case>& before, const Case& c, bool names_cause) {
  session_.Refresh();
  Signature any_class = signature_;
  any_class.cause_class.clear();
  std::optional<Failure> failure;
  if (signature_.cause == Cause::kLateWrite && !before.empty()) {
    failure = Matching(RunInOneTripBehind(before, property_, c, contract_, session_), any_class,
                       names_cause);
  } else {
    MakeCalls(before, contract_, session_);
    failure = Run(c, any_class, names_cause);
  }
  if (!failure) return false;
  signature_ = std::move(failure->signature);
  verdict_ = std::move(failure->verdict);
  return true;
}

bool FailureProbe::NeedsItsOwnCallsBefore(const Case& c) {
  session_.Refresh();
  const CaseResult all = RunCase(property_, c, contract_, session_, WantsNoCause);
  for (const Failure& failure : all.failures) {
    const Property* named = FindProperty(failure.signature.property);
    if (failure.before.empty() || named == nullptr || named == &property_) continue;
    session_.Refresh();
    return RunCase(*named, failure.c, contract_, session_, WantsNoCause).failures.empty();
  }
  return false;
}

std::optional<std::string> FailureProbe::OtherGradientClass(const Case& c,
                                                            std::string_view cause_class) {
  const auto is_it = [&](const Signature& signature) {
    return signature.property == signature_.property && IsGradientOutput(signature.output);
  };
  const CaseResult result = RunCase(property_, c, contract_, session_, is_it);
  if (interrupted() || !result.applied) return std::nullopt;
  if (IsGood(result.verdict.kind)) return "";
  const auto other = std::ranges::find_if(result.failures, [&](const Failure& failure) {
    return is_it(failure.signature) && failure.signature.cause_class != cause_class;
  });
  if (other == result.failures.end()) return std::nullopt;
  return other->signature.cause_class;
}

bool FailureProbe::Holds(const Case& c) {
  const CaseResult result = RunCase(property_, c, contract_, session_, WantsNoCause);
  return !interrupted() && result.applied && result.failures.empty() && IsGood(result.verdict.kind);
}

std::vector<OtherCause> FailureProbe::OtherCauses(const Case& c) {
  CaseResult result = RunCase(property_, c, contract_, session_, {}, /*every_cause=*/true);
  for (Failure& failure : result.failures) {
    if (failure.signature == signature_) return std::move(failure.verdict.other_causes);
  }
  return {};
}

bool FailureProbe::CanRefresh() const {
  return !interrupted() && session_.stats().seconds_refreshing < kMostSecondsRefreshing;
}

std::optional<Failure> FailureProbe::Run(const Case& c, const Signature& pattern,
                                         bool needs_class) {
  CaseResult result = RunCase(property_, c, contract_, session_, [&](const Signature& signature) {
    Signature any_class = pattern;
    any_class.cause_class.clear();
    return needs_class && Covers(any_class, signature);
  });
  return Matching(std::move(result), pattern, needs_class);
}

std::optional<Failure> FailureProbe::Matching(CaseResult result, const Signature& pattern,
                                              bool needs_class) const {
  if (session_.interrupted()) return std::nullopt;
  for (Failure& failure : result.failures) {
    if (!Covers(pattern, failure.signature)) continue;
    if (needs_class && IsWaived(failure) != waived_) continue;
    return std::move(failure);
  }
  return std::nullopt;
}

bool FailureProbe::IsWaived(const Failure& failure) const {
  return options_.is_waived != nullptr && options_.is_waived(failure);
}

}  // namespace attest
