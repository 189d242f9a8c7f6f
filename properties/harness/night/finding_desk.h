// Where the raw findings of a night become findings: run again in a worker, shrunk, explained, compared with
// those that are there, saved and written down in the journal, each in full before the next is begun.
#ifndef ATTEST_HARNESS_NIGHT_FINDING_DESK_H_
#define ATTEST_HARNESS_NIGHT_FINDING_DESK_H_

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/night/journal.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/runner/run_property.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

struct DeskOptions {
  RunOptions run;  // how findings are shrunk and confirmed
  // Why a failure with this signature on this case does not count; "" = it does.
  std::function<std::string(const Signature&, const Case&, const Verdict&)> waive;
  // Writes the case file of a finding; the reason why it is waived, or "".
  std::function<ReportedFinding(const Finding&, const std::string& waived)> save;
};

// Runs of a raw finding in the worker before it counts as one that does not fail there, and of an input
// in its target.
inline constexpr int kTries = 3;

// An input that ended a fuzz target without a word about a case.
struct DeadlyInput {
  std::string path;
  std::string log;     // the target's, its end; "" where it was lost
  std::string replay;  // the command that runs it again
  // Runs it again in its target: what the log says where that ends again.
  std::function<std::optional<std::string>()> ends_again;
};

class FindingDesk {
 public:
  FindingDesk(const Contract& contract, KernelSession& session, DeskOptions options,
              RunObserver& observer, Journal& journal);

  // What the journal says was taken and found.
  void Restore(const std::vector<std::string>& lines);

  // The kernel is another one than the findings are of: tries each again. One that fails no longer goes
  // to gone(), one of gone() that fails comes back, and whatever a target has left is as if it had never
  // been taken. False where it was interrupted; it is to be done again then.
  bool CheckAgain();

  // A case file that a fuzz target wrote. Its failures are confirmed and become findings; one that does not
  // fail in a worker becomes an INCONCLUSIVE one. What was taken once is not taken again; where the run is
  // interrupted meanwhile it is not taken.
  void TakeCase(const std::string& path);
  // The input is decoded and tried with every claim. Where none fails in a worker and the target ends again
  // in three of three runs, that is the finding.
  void TakeInput(const DeadlyInput& input);
  // One that the property search has confirmed.
  void TakeFinding(const Finding& finding);

  bool HasTaken(const std::string& path) const;
  bool IsKnown(const Signature& signature, bool waived) const;
  // From then on a finding is neither shrunk nor run again more than once.
  void StopAt(std::chrono::steady_clock::time_point end) { options_.run.stop_at = end; }
  // For RunOptions: what not to look for again, and what is accepted.
  void Instruct(RunOptions& options) const;
  const std::vector<ReportedFinding>& findings() const { return findings_; }
  // Findings of the kernel as it was, which it shows no longer.
  const std::vector<ReportedFinding>& gone() const { return gone_; }
  // The first error of the journal or of a file; "" = none.
  const std::string& error() const { return error_; }

 private:
  void Note(const std::string& path, std::string_view as);
  void Append(const std::string& line);
  void Retire(const std::string& signature, const std::string& case_file);
  bool CheckGone();
  bool StillFails(const ReportedFinding& reported);
  bool ConfirmCase(const Property& property, const Case& c);
  void ConfirmFailures(const Property& property, const std::vector<Failure>& failures);
  void KeepUnconfirmed(const Property& property, const Case& c, std::string reason);
  void KeepDeadly(const DeadlyInput& input, const std::string& log, const Case& c);
  std::string ReasonToWaive(const Finding& finding) const;
  void Keep(const Finding& finding);
  bool IsInterrupted() const;

  const Contract& contract_;
  KernelSession& session_;
  DeskOptions options_;
  RunObserver& observer_;
  Journal& journal_;
  std::set<std::string> taken_;  // file names
  std::vector<ReportedFinding> findings_, gone_;
  std::string error_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_FINDING_DESK_H_
