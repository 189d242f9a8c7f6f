#include "properties/harness/runner/numerics_of_both.h"

#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/judge/explain/numerics_search.h"

namespace attest {
namespace {

// Whether what `pattern` names, whatever its class, fails under wider arithmetic too.
bool FailsUnder(const std::string& phrase, const Property& property, const Case& c,
                const Signature& pattern, const Contract& contract, KernelSession& session) {
  const auto wider = WidenedBy(phrase, contract);
  if (!wider) return true;
  const CaseResult result = RunCase(property, c, *wider, session, WantsNoCause);
  Signature any_class = pattern;
  any_class.cause_class.clear();
  for (const Failure& failure : result.failures)
    if (Covers(any_class, failure.signature)) return true;
  return false;
}

// What covers the case as it was met, whatever it costs; empty where nothing does.
std::string NumericsOfMet(const Property& property, const Failure& met, const Signature& pattern,
                          const Contract& contract, KernelSession& session) {
  Signature any_class = pattern;
  any_class.cause_class.clear();
  const auto is_it = [&](const Signature& signature) { return Covers(any_class, signature); };
  const CaseResult result =
      RunCase(property, met.c, contract, session, is_it, /*every_cause=*/true);
  for (const Failure& failure : result.failures) {
    if (!is_it(failure.signature)) continue;
    if (failure.verdict.cause_class == kNumerics) return failure.verdict.likely_cause;
    for (const OtherCause& other : failure.verdict.other_causes)
      if (other.cause_class == kNumerics) return other.phrase;
  }
  return "";
}

}  // namespace

std::string NumericsOfBoth(const Property& property, const Failure& met, const Finding& finding,
                           const Contract& contract, KernelSession& session) {
  const std::string& phrase = finding.verdict.likely_cause;
  const auto fails = [&](const std::string& words, const Case& c) {
    return FailsUnder(words, property, c, finding.signature, contract, session);
  };
  if (!fails(phrase, met.c) || session.interrupted()) return phrase;
  std::string wider = NumericsOfMet(property, met, finding.signature, contract, session);
  const bool covers = !wider.empty() && !fails(wider, met.c) && !fails(wider, finding.smallest);
  if (session.interrupted()) return phrase;
  return covers ? wider : "";
}

}  // namespace attest
