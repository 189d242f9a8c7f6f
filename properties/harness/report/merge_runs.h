// Joins the reports of runs into one: the shards of one run, or the parts of a night. `attest merge` and
// `attest fuzz` call it.
#ifndef ATTEST_HARNESS_REPORT_MERGE_RUNS_H_
#define ATTEST_HARNESS_REPORT_MERGE_RUNS_H_

#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/report/json_read.h"
#include "properties/harness/report/run_report.h"

namespace attest {

// The plan that a night's report names.
inline constexpr std::string_view kNightPlan = "night";

struct MergedRuns {
  RunReport report;
  bool complete = true;  // every shard is there, once, and came to its end
  std::vector<std::string>
      amiss;  // a line for each reason why it is not, and for each that was left out
};

// Shards of one run: the same plan, seed, properties, kernels and versions of them and of attest. Or
// nights: any seeds, the same kernels and versions. The error is one line that names the two files and what
// they differ in. Findings with one signature become one, the smaller case of them.
tl::expected<MergedRuns, std::string> MergeRuns(std::vector<ReadRun> runs);

// Adds the counts of `part` to `whole`, and decides the verdict anew from all of them, as RunProperty
// does from its own. A part that did not come to its end leaves the whole INCONCLUSIVE, unless it fails;
// `name` ("shard 1/3") then begins the reason. Findings are put together and not compared.
void MergeResult(const PropertyResult& part, const std::string& name, PropertyResult& whole);

// Adds a finding unless one with its signature is there, both waived or both not; of two the one that
// shows better is kept.
void AddFinding(ReportedFinding reported, std::vector<ReportedFinding>& findings);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_MERGE_RUNS_H_
