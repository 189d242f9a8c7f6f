// How one faulty kernel was caught: by which properties, how soon, with how small a case, and whether the
// report names the cause. Read off the report of an `attest check`. Callers: `attest power` and the
// mutation gate, which both run that program.
#ifndef ATTEST_HARNESS_POWER_KILL_H_
#define ATTEST_HARNESS_POWER_KILL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "impl/attention/problem.h"
#include "properties/harness/report/run_report.h"

namespace attest {

enum class SubjectSort {
  kFault,    // correct but for one fault
  kNull,     // computes no attention
  kHostile,  // computes attention, and does a misdeed
  kCorrect,  // to be passed
};

// A kernel whose faults, or whose correctness, are known beforehand.
struct Subject {
  std::string kernel;  // as on the command line
  std::string id;      // "kv-head-modulo"; of hostile and correct kernels as `kernel`
  SubjectSort sort = SubjectSort::kFault;
  std::string kind;  // of bug: "HEADS"
  std::string
      causes;  // the classes and causes that name the fault rightly, separated by |; empty = not asked
  bool is_model = false;  // for check-model
};

// A property that failed on the kernel.
struct PropertyKill {
  std::string property;
  Cause cause = Cause::kNone;
  int64_t cases =
      0;  // of this property, up to the first that failed; 0: another property's case did
};

// The finding that came first.
struct FirstKill {
  std::string property;  // that failed
  int64_t cases = 0;     // run on the kernel until then, over all properties in their order
  double seconds = 0;    // likewise
};

struct Kill {
  Subject subject;
  std::string not_run;             // why there is no verdict; empty = there is one
  std::optional<FirstKill> first;  // nullopt = not caught
  std::vector<PropertyKill> by;    // in the order of the run
  Problem smallest;  // of all findings' smallest cases, not of models; these five where caught
  bool is_confirmed = false;     // its case failed in every rerun
  std::string shown;             // the signature that the report shows first
  std::string named;             // the cause it names: a class, or a plain cause without one
  bool named_rightly = false;    // by what is shown first
  bool named_somewhere = false;  // by some finding
  double seconds = 0;            // of the whole run
};

// From the report of a run on the one kernel, as json_read.h gives it.
Kill KillOf(const Subject& subject, const KernelReport& kernel);

// Whether failing so is a kill by what the property claims. A kernel that crashes or leaves its output
// unwritten fails whatever is claimed; that counts for the properties that are about memory and nothing
// else.
bool IsOwnKill(const PropertyKill& kill);

// The property that would have caught it with the fewest of its own cases; nullptr = none.
const PropertyKill* Quickest(const Kill& kill);

// How much there is to read in a case: elements of q, k and v, over all batch items and heads.
int64_t Elements(const Problem& problem);

// Whether `word` is one of `words`, which are separated by |.
bool IsAmong(std::string_view word, std::string_view words);

}  // namespace attest

#endif  // ATTEST_HARNESS_POWER_KILL_H_
