// Findings of one kernel that are most likely one fault, put together: who reads a report wants the
// faults, not every claim that each of them breaks. Most findings fit several causes; the one that most of a kernel's
// findings name is most likely the right one of all that it fits. The writers of this folder show one finding of each
// group whole.
#ifndef ATTEST_HARNESS_REPORT_FINDING_GROUPS_H_
#define ATTEST_HARNESS_REPORT_FINDING_GROUPS_H_

#include <string>
#include <vector>

#include "properties/harness/report/run_report.h"

namespace attest {

struct FindingGroup {
  // The class of the cause that all of `findings` fit; "" = none is known, or none is needed.
  std::string kind;
  // Never empty. The one that shows best comes first, and names that cause as its own best.
  std::vector<const ReportedFinding*> findings;
  // Wrong values for which no cause is known, or none that is sure, and that may be of this fault: what it is a fault of
  // is in their cases.
  std::vector<const ReportedFinding*> unexplained{};
  // Where the results depend on other calls, or change from rerun to rerun: wrong values that do not come each time the
  // case is run by itself.
  std::vector<const ReportedFinding*> not_alone{};

  const ReportedFinding& shown() const { return *findings.front(); }
};

// A kernel's findings in groups, the most telling first; waived ones apart from those that count. Faults of other kinds
// than wrong values (crashes, refusals, unwritten outputs) go by cause and output. They point into `kernel`. Wrong values
// are pooled:
//   1. The cause that most of them name as their best, or another that gives all that it gives and more, takes all that
//      fit it, then so on with the rest; what reruns have shown (call-before, rerun-differs) comes before every guess. A
//      cause of a feature that not all have, where they share another, is heard last.
//   2. What names no cause, or a weak one beside a stronger, goes to the first strong group whose fault may show in its
//      calls (MayShowIn), as `unexplained`.
//   3. What is left can be of no such fault, and stands by itself: a weaker fault beside a stronger one is seen.
std::vector<FindingGroup> GroupsOf(const KernelReport& kernel);

// Of findings shown but once: "heads.labels_come_back (2), memory.strides"; each property once.
std::string PropertiesText(const std::vector<const ReportedFinding*>& findings);

// What a group has beside the finding that is shown, a sentence each; empty where there is nothing:
// "the same cause explains 3 more findings: ..." "2 more findings name no sure cause and may be of the same fault: ...".
std::vector<std::string> RestOf(const FindingGroup& group);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_FINDING_GROUPS_H_
