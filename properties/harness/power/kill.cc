#include "properties/harness/power/kill.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/report/finding_groups.h"

namespace attest {
namespace {

// What the finding says is wrong: the class of its cause, or its plain cause where a fault says all
// ("unwritten").
std::string NamedCause(const Signature& signature) {
  return signature.cause_class.empty() ? std::string(Name(signature.cause)) : signature.cause_class;
}

PropertyKill KillBy(const PropertyResult& result, const KernelReport& kernel) {
  PropertyKill kill{result.property, result.first_cause, result.cases_to_first};
  for (const ReportedFinding& reported : kernel.findings) {
    if (kill.cause != Cause::kNone) break;
    const Signature& signature = reported.finding.signature;
    if (signature.property == result.property) kill.cause = signature.cause;
  }
  return kill;
}

void DescribeFindings(KernelReport kernel, Kill& kill) {
  const auto& findings = kernel.findings;  // in the order in which they were made
  const ReportedFinding& first = findings.front();
  kill.first = {first.finding.signature.property, first.kernel_cases, first.kernel_seconds};
  const auto smallest = std::ranges::min_element(findings, {}, [](const ReportedFinding& reported) {
    return Elements(reported.finding.smallest.problem);
  });
  kill.smallest = smallest->finding.smallest.problem;
  kill.named_somewhere = std::ranges::any_of(findings, [&](const ReportedFinding& reported) {
    return IsAmong(NamedCause(reported.finding.signature), kill.subject.causes);
  });
  kill.is_confirmed = smallest->finding.confirmed == smallest->finding.confirmations;
  FoldFindings(kernel);
  const Signature shown = GroupsOf(kernel).front().shown().finding.signature;
  kill.shown = ToString(shown);
  kill.named = NamedCause(shown);
  kill.named_rightly = IsAmong(kill.named, kill.subject.causes);
}

}  // namespace

Kill KillOf(const Subject& subject, const KernelReport& kernel) {
  Kill kill;
  kill.subject = subject;
  kill.seconds = kernel.seconds;
  for (const PropertyResult& result : kernel.results) {
    if (result.verdict == VerdictKind::kFail) kill.by.push_back(KillBy(result, kernel));
  }
  KernelReport failed = kernel;
  std::erase_if(failed.findings, [](const ReportedFinding& reported) {
    return reported.finding.verdict.kind != VerdictKind::kFail;
  });
  if (!failed.findings.empty()) DescribeFindings(std::move(failed), kill);
  return kill;
}

bool IsOwnKill(const PropertyKill& kill) {
  switch (kill.cause) {
    case Cause::kNan:
    case Cause::kInf:
    case Cause::kValue:
    case Cause::kRefused:
      return true;
    default:
      break;
  }
  const Property* property = FindProperty(kill.property);
  return property != nullptr && property->rung == Rung::kMemorySafe;
}

const PropertyKill* Quickest(const Kill& kill) {
  const PropertyKill* best = nullptr;
  for (const PropertyKill& by : kill.by) {
    if (by.cases > 0 && (best == nullptr || by.cases < best->cases)) best = &by;
  }
  return best;
}

int64_t Elements(const Problem& p) {
  // Or seven keys without a lane would be smaller than one key with one.
  const int64_t lanes = std::max<int64_t>(p.head_dim + p.value_dim, 1);
  return p.batch * (p.q_heads * p.q_len + p.kv_heads * p.kv_len) * lanes;
}

bool IsAmong(std::string_view word, std::string_view words) {
  return fmt::format("|{}|", words).find(fmt::format("|{}|", word)) != std::string::npos;
}

}  // namespace attest
