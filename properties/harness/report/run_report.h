// What one run of `attest check`, `vectors`, `fuzz` or `merge` has to say, as plain data: the writers of this
// folder (terminal, page, Markdown, JSON lines, JUnit) each turn it into their own form, and the exit code is read
// off it.
#ifndef ATTEST_HARNESS_REPORT_RUN_REPORT_H_
#define ATTEST_HARNESS_REPORT_RUN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/report/case_view.h"
#include "properties/harness/runner/run_property.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

// The version of the program, as the build has it.
std::string_view Version();

// How the run was asked for.
struct RunInfo {
  std::string program;  // as the user called it: begins every replay command
  std::string command;  // the whole command line
  std::string plan;
  int64_t cases_per_property = 0;
  uint64_t seed = 0;
  int64_t shard_index = 0;
  int64_t shard_count = 1;
  std::string held_to{};  // --contract; empty = each kernel's own
  bool strict = false;
  std::string open_options{};  // of --deadline, --threads, --contract, --strict: " --threads 3"
  std::vector<std::string> properties{};  // --property; empty = all
  std::string joined{};     // by attest merge, from what: "shards 0, 2 of 3"; empty = one run
  bool incomplete = false;  // of what was joined something is missing: this cannot pass
};

// Which part of a run this is, or of what parts it is made: "shard 0/3", "joined from all 3 shards"; empty = it is
// one run.
std::string PartText(const RunInfo& info);

// A finding with what a person needs to see it again.
struct ReportedFinding {
  Finding finding;
  std::string file;                // the case file; empty where it could not be written
  std::string command;             // replays it
  std::string waived{};            // why it does not count; empty = it does
  std::optional<CaseView> view{};  // of the case that the value is from, where there is one
  // When it was met: in the run of which property, and after how many cases and seconds of the kernel's,
  // over all properties so far.
  std::string found_by{};
  int64_t kernel_cases = 0;
  double kernel_seconds = 0;
  // Of a model, whose case is none of a kernel: the text of its case file, and lines to look at.
  std::string case_text{}, picture{};
};

struct KernelReport {
  std::string kernel;     // as the user named it
  bool is_model = false;  // it has no ladder, and no kinds of case are counted
  bool optional = false;  // shown, but does not decide the exit code
  std::string skipped;    // why an optional kernel was not run; empty = it was
  KernelIdentity identity;
  Contract contract;
  std::vector<PropertyResult> results;
  std::vector<ReportedFinding> findings;
  std::vector<std::string> idle_waivers;  // a line each: waived, and did not happen
  std::vector<std::string> notes;         // a line each: what a night's fuzzing did, what is amiss
  SessionStats stats;
  double seconds = 0;
};

struct RunReport {
  RunInfo info;
  std::vector<KernelReport> kernels;
};

// Cases that ran and said something, over all properties.
int64_t CasesRun(const KernelReport& kernel);
// "attest-1"; "of its own" where it has no name.
std::string ContractNameOf(const KernelReport& kernel);
int64_t CountWaived(const KernelReport& kernel);  // of its findings

// nullptr where the property was not run.
const PropertyResult* ResultOf(const KernelReport& kernel, const std::string& property);

// Every property that some kernel has a result for, in the order of the run.
std::vector<std::string> PropertiesOf(const RunReport& report);

// Drops each finding whose fault has no class where another finding shares all else of its
// signature and has one, both or neither being waived: it is most likely the same fault, seen where nothing gives it away.
void FoldFindings(KernelReport& kernel);

// A finding made under another property's name (a derived case that differs from the reference)
// makes that property fail too, where it was run.
void AttributeFindings(KernelReport& kernel);

// 1 where a kernel that counts has a failing finding or property that is not waived; else 2 where something is
// inconclusive, or nothing at all was decided; else 0. The exit codes of design.md section 1.
int ExitCode(const RunReport& report);

// Likewise for one kernel by itself, optional or not. A skipped one is 2.
int ExitCodeOf(const KernelReport& kernel);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_RUN_REPORT_H_
