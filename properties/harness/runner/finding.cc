#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/runner/rapidcheck_driver.h"
#include "properties/harness/runner/run_case.h"
#include "properties/harness/runner/run_property.h"

namespace attest {
namespace {

// Runs a case and finds the failure of one signature among what comes back.
class SignatureProbe {
 public:
  SignatureProbe(const Property& property, const Signature& signature, const Contract& contract,
                 KernelSession& session)
      : property_(property), signature_(signature), contract_(contract), session_(session) {}

  // True where `c` fails with the signature; last_verdict() is then the failure's.
  bool Fails(const Case& c) {
    CaseResult result = RunCase(property_, c, contract_, session_);
    for (Failure& failure : result.failures) {
      if (failure.signature != signature_) continue;
      last_verdict_ = std::move(failure.verdict);
      return true;
    }
    return false;
  }

  const std::optional<Verdict>& last_verdict() const { return last_verdict_; }

 private:
  const Property& property_;
  const Signature& signature_;
  const Contract& contract_;
  KernelSession& session_;
  std::optional<Verdict> last_verdict_;
};

// What stands where not one rerun failed.
Verdict NeverSeenAgain(const Signature& signature) {
  Verdict verdict;
  verdict.kind = VerdictKind::kFail;
  verdict.cause = signature.cause;
  verdict.output = signature.output;
  verdict.sentence = "it failed once, in the course of the run";
  return verdict;
}

// A kernel that gave a wrong value once is wrong even if it never does so again. Only a comparison
// of the kernel with itself needs to be repeated to mean anything.
void JudgeRecurrence(const Property& property, Finding& finding) {
  if (finding.confirmed == finding.confirmations) return;
  Verdict& verdict = finding.verdict;
  const std::string how_often =
      fmt::format("failed in {} of {} reruns", finding.confirmed, finding.confirmations);
  const bool is_relation =
      property.exactness == Exactness::kBitwise && verdict.cause == Cause::kValue;
  if (finding.confirmed == 0 && is_relation) {
    verdict.kind = VerdictKind::kInconclusive;
    verdict.reason = "flaky: " + how_often;
  } else {
    verdict.reason = fmt::format("intermittent {} of {}", finding.confirmed, finding.confirmations);
  }
  verdict.sentence += fmt::format(" (intermittent: {})", how_often);
}

}  // namespace

Finding MakeFinding(const Property& property, const Case& failing, const Signature& signature,
                    const Contract& contract, KernelSession& session, const RunOptions& options,
                    RunObserver& observer) {
  SignatureProbe probe(property, signature, contract, session);
  const auto end = std::chrono::steady_clock::now() + options.shrink_time;
  const auto out_of_time = [&] {
    return (options.stop != nullptr && options.stop->load()) ||
           std::chrono::steady_clock::now() >= end;
  };
  int64_t tries = 0;
  const auto still_fails = [&](const Case& c) {
    observer.OnShrink(property, ++tries);
    return probe.Fails(c);
  };
  ShrunkCase shrunk = ShrinkCase(failing, still_fails, options.shrink_budget, out_of_time);

  Finding finding;
  finding.kernel = session.spec().text;
  finding.signature = signature;
  finding.smallest = std::move(shrunk.smallest);
  finding.shrink_steps = shrunk.tries;
  // Each rerun of a hang costs a whole deadline.
  finding.confirmations =
      signature.cause == Cause::kHang ? std::min(1, options.confirmations) : options.confirmations;
  for (int i = 0; i < finding.confirmations; ++i) {
    finding.confirmed += probe.Fails(finding.smallest) ? 1 : 0;
  }
  finding.verdict = probe.last_verdict().value_or(NeverSeenAgain(signature));
  JudgeRecurrence(property, finding);
  return finding;
}

}  // namespace attest
