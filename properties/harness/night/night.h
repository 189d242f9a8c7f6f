// One kernel's night: libFuzzer explores with the plain build, the sanitized build judges what that has
// found, the property search goes its rounds, and what they find is confirmed in a worker and saved at once. All that
// is worth keeping is on the disk at every moment, so that a night that is killed goes on where it was. What was found
// in a kernel that has been built anew since is tried again first.
// `attest fuzz` runs it.
#ifndef ATTEST_HARNESS_NIGHT_NIGHT_H_
#define ATTEST_HARNESS_NIGHT_NIGHT_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/contract.h"
#include "properties/harness/night/finding_desk.h"
#include "properties/harness/night/fuzz_build.h"
#include "properties/harness/night/fuzz_figures.h"
#include "properties/harness/report/run_report.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

// What a person may want to see of a night while it runs.
struct NightProgress {
  std::string phase;  // "search" "explore" "judge" "merge" "confirm"
  std::chrono::seconds left{0};
  double executions_per_second = 0;  // of all jobs, in this phase
  FuzzFigures figures;               // of the night so far
  int64_t corpus = 0;                // inputs
  size_t findings = 0;
};

struct NightOptions {
  std::vector<FuzzBuild> builds;  // none: the property search alone
  std::string folder;             // what the night remembers of this kernel
  std::string corpus;             // of this kernel, a folder in it for each target
  std::string seeds;              // folder of the seeds, by target; empty = none
  int jobs = 1;
  uint64_t seed = 1;
  std::vector<const Property*> properties;
  DeskOptions desk;
  std::function<void(const NightProgress&)> progress;  // called twice a second; may be empty
};

class Night {
 public:
  using Clock = std::chrono::steady_clock;

  // Reads what the folder remembers. The error is one line: a folder that cannot be written, that another
  // run is using, or that is of another version of the kernel.
  static tl::expected<std::unique_ptr<Night>, std::string> Open(const std::string& kernel,
                                                                const Contract& contract,
                                                                KernelSession& session,
                                                                NightOptions options);
  ~Night();
  Night(const Night&) = delete;
  Night& operator=(const Night&) = delete;

  // Where the kernel is not the one that the findings are of: tries them again, so that findings() holds those that
  // it still shows; Report notes the others. Run does so too, if this has not.
  void CheckAgain();
  // Until `end` or until options.desk.run.stop; some seconds longer where a finding is being confirmed.
  void Run(Clock::time_point end);

  // Results, findings and notes of the night, this start and those before.
  void Report(KernelReport& kernel) const;
  // All findings so far, at first those of the starts before.
  const std::vector<ReportedFinding>& findings() const;
  // What its fuzz targets did.
  const FuzzFigures& figures() const;
  int64_t corpus_size() const;
  // Why something is left open although all that ran passed; "" = nothing is.
  std::string WhyInconclusive() const;
  // The first error met in writing; "" = none.
  const std::string& error() const;

 private:
  class Impl;
  explicit Night(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_NIGHT_H_
