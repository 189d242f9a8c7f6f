// One failure, followed from case to case while it is made smaller, run again and asked for its cause. Caller:
// finding.cc.
#ifndef ATTEST_HARNESS_RUNNER_FAILURE_PROBE_H_
#define ATTEST_HARNESS_RUNNER_FAILURE_PROBE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/runner/run_case.h"
#include "properties/harness/runner/run_property.h"

namespace attest {

// Whether an output is a gradient: dq, dk, dv, dbias, dsink.
bool IsGradientOutput(std::string_view output);

// The same failure is one with the same property, cause, output and class; as long as no class is known any will do,
// for some show on some sizes only, and the first to show is then kept to: a smaller case of another fault explains
// nothing. Nor does one that is waived where this one is not, or the reverse.
class FailureProbe {
 public:
  // All that it is given must outlive it.
  FailureProbe(const Property& property, const Failure& failure, const Contract& contract,
               KernelSession& session, const RunOptions& options);

  // Whether `c` fails in the same way; signature() and verdict() are then of that failure.
  bool StillFails(const Case& c);

  // Likewise for a rerun, whose values, and so whose class, may be others.
  bool Recurs(const Case& c);

  // Back to the failure as it was met.
  void Follow(const Failure& failure);

  // Likewise behind other calls, all of it on a fresh kernel; signature() and verdict() are then of that failure.
  bool RecursBehind(const std::vector<Case>& before, const Case& c, bool names_cause = false);

  // Whether the failure, of a claim about several calls or of one, is of a call that is right when it is made alone.
  // The case has just failed on a fresh kernel.
  bool NeedsItsOwnCallsBefore(const Case& c);

  // What Recurs has met: a witness a rerun, none where the case did not fail.
  const std::vector<std::optional<Witness>>& reruns() const { return reruns_; }

  // Where the case, run once more, breaks the claim in some gradient and with another class: that class, "" where it
  // names none, or holds.
  std::optional<std::string> OtherGradientClass(const Case& c, std::string_view cause_class);

  // Whether the case, run once more, says something and holds.
  bool Holds(const Case& c);

  // All causes that fit the case, beside the one that it has.
  std::vector<OtherCause> OtherCauses(const Case& c);

  bool interrupted() const { return session_.interrupted(); }
  // Whether more may be asked of fresh kernels: that takes time.
  bool CanRefresh() const;
  const Signature& signature() const { return signature_; }
  const Verdict& verdict() const { return verdict_; }

 private:
  std::optional<Failure> Run(const Case& c, const Signature& pattern, bool needs_class);
  // That failure of the result which the pattern covers.
  std::optional<Failure> Matching(CaseResult result, const Signature& pattern,
                                  bool needs_class) const;
  bool IsWaived(const Failure& failure) const;

  const Property& property_;
  const Contract& contract_;
  KernelSession& session_;
  const RunOptions& options_;
  const bool waived_;
  Signature signature_;
  Verdict verdict_;
  std::vector<std::optional<Witness>> reruns_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_FAILURE_PROBE_H_
