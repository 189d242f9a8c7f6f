// Many cases of one property on one kernel, driven by RapidCheck: draw, run, shrink what fails
// under a budget, confirm it. RapidCheck's headers stay behind this one.
#ifndef ATTEST_HARNESS_RUNNER_RUN_PROPERTY_H_
#define ATTEST_HARNESS_RUNNER_RUN_PROPERTY_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/case/bins.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/judge/verdict.h"
#include "properties/harness/runner/run_case.h"
#include "properties/harness/sandbox/session.h"
#include "properties/property.h"

namespace attest {

// A number of cases per property. Times are measurements, never gates.
struct Plan {
  std::string_view name;
  int64_t cases_per_property;
};
const std::vector<Plan>& Plans();  // quick, ci, overnight
const Plan* FindPlan(std::string_view name);
// The cases per property after which a run goes on to the next property, in ascending order; the last is the
// plan's own. A plan so goes through the smaller ones on its way.
std::vector<int64_t> PassesOf(const Plan& plan);

struct RunOptions {
  Plan plan = Plans().front();
  uint64_t seed = 1;
  // --for; a cut is INCONCLUSIVE. Shrinking ends then too, and the reruns of a finding after the first.
  std::optional<std::chrono::steady_clock::time_point> stop_at;
  int64_t shard_index = 0;  // this shard runs cases i with i % shard_count == shard_index
  int64_t shard_count = 1;
  int64_t shrink_budget = 1500;  // cases tried while shrinking one finding
  int confirmations = 3;         // reruns of the smallest case; of one that hangs a single one
  int recounts = 20;             // reruns at least, where they do not all fail: to know how often
  // Distinct signatures looked for in one property. 0: only whether it fails; its first failure is
  // confirmed, but neither shrunk nor reported, and ends the property.
  int max_findings = 4;
  bool ends_when_full =
      false;  // a property ends with its max_findings-th finding; else the plan is run
  // Signatures that differ in their class alone. A kernel that is wrong throughout fits many a
  // hypothesis by chance: more are one fault in many lights.
  int max_classes = 3;
  // Shrinking one finding ends here too: a candidate that hangs costs a whole deadline.
  std::chrono::milliseconds shrink_time{20000};
  int max_hangs = 2;  // a property ends after so many hangs: it has failed by then
  // A property that has failed also ends after so many slow restarts of the worker that took longer than
  // this together. What restarts faster is tested to the end, however often it dies.
  int max_slow_deaths = 10;
  std::chrono::milliseconds slow_deaths_time{10000};
  std::chrono::milliseconds slow_restart{100};  // Python with numpy: about 1 s; in C++: 5 ms
  // Which failures are accepted. They hide no others: of a signature one of either kind is reported, and
  // shrinking does not lead from one kind to the other. Empty = none.
  std::function<bool(const Failure&)> is_waived;
  // Signatures reported already: counted, but not shrunk and reported again.
  std::set<Signature> known;
  std::set<Signature> known_waived;
  // The last calls made on the session, in order, kept by every property that runs on it: a failure may need them.
  std::shared_ptr<std::deque<Case>> called = std::make_shared<std::deque<Case>>();
  const std::atomic<bool>* stop = nullptr;  // set from outside: finish with what is there
  GeneratorOptions generator;
};

// The outcome of one property on one kernel.
struct PropertyResult {
  std::string kernel;
  std::string property;
  VerdictKind verdict = VerdictKind::kInconclusive;  // FAIL, else INCONCLUSIVE, MARGINAL, PASS, ...
  std::string reason;                                // for all but a plain PASS or FAIL
  std::map<VerdictKind, int64_t> cases;              // by verdict
  int64_t wanted = 0;                                // cases that the plan asks of this shard
  int64_t not_applicable = 0;                        // drawn, but outside the claim
  int64_t via_mask = 0;
  int64_t calls = 0;
  int64_t rows = 0, uninformative_rows = 0, unconstrained_rows = 0;
  double worst_ratio = 0;
  double seconds = 0;
  int64_t cases_to_first =
      0;  // cases run up to the first that failed, that one too; 0 = none failed
  Cause first_cause = Cause::kNone;  // why that one failed
  ErrorFigures figures;              // the largest of each
  std::map<std::string, int64_t> unsupported_reasons;
  std::map<std::string, int64_t> marginal_reasons;  // "bits" "statistics": cases
  BinCounts bins;
  std::vector<Finding> findings;
  bool waived = false;       // FAIL, by findings that are all waived
  bool dies_slowly = false;  // ended early; see RunOptions::max_slow_deaths

  int64_t cases_run() const;  // all that ran and said something; UNSUPPORTED ones did not
};

// Follows a run; every function may be called often and must return quickly.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void OnCase(const Property&, int64_t /*done*/, int64_t /*of*/) {}
  virtual void OnShrink(const Property&, int64_t /*tries*/) {}
  virtual void OnFinding(const Finding&) {}
};

// One property on one kernel, run in parts: a run gives every property its first cases before it gives any
// its last, for what one property alone can see should not wait for all cases of the others. Cases
// and findings are those of one run to the end, whatever the parts.
class PropertyRun {
 public:
  // What is referred to must outlive the run.
  PropertyRun(const Property& property, const Contract& contract, KernelSession& session,
              const RunOptions& options, RunObserver& observer);
  PropertyRun(PropertyRun&&) noexcept;
  ~PropertyRun();

  // Runs on until this shard's share of `cases` has been run in all, under `options`, which may differ from the
  // first in their limits and in what is known.
  void RunTo(int64_t cases, const RunOptions& options);
  // For a property that is run no further though its plan goes on.
  void CutShort(const std::string& why);
  // So far: counts and findings, but no verdict yet.
  const PropertyResult& result() const;
  // With the verdict. The last call.
  PropertyResult Finish();

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

// Runs a whole property. Failures of derived cases under another property's name
// (equivalence.matches_reference) come back among the findings with their own signature.
PropertyResult RunProperty(const Property& property, const Contract& contract,
                           KernelSession& session, const RunOptions& options,
                           RunObserver& observer);

// Shrinks and confirms one failure of `property`: what RunProperty does with each, and
// `attest shrink` with a file. A failure that does not recur each time has its counts in the
// verdict's reason: a value or a fault stays FAIL ("intermittent 3 of 20"), for a kernel that was
// wrong once is wrong. Two are INCONCLUSIVE: a call that was late and in no rerun again ("slow
// once"), for the machine may have been busy; and two calls that differed in bits ("flaky: failed
// in 3 of 20 runs"), for a kernel that does not repeat itself need not break the relation, unless
// it is repeating itself that the property is about. Such calls are not shrunk.
//
// What fails and does not fail on a fresh kernel depends on calls before it: where failure.before holds
// those that it needs, the finding keeps them.
Finding MakeFinding(const Property& property, const Failure& failure, const Contract& contract,
                    KernelSession& session, const RunOptions& options, RunObserver& observer);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_RUN_PROPERTY_H_
