#include "properties/harness/cli/power_subjects.h"

#include <algorithm>
#include <string>

#include "impl/mutants/hostile.h"

namespace attest {
namespace {

// The plain kernels of the mutants, and kernels that share no code with them. A tile of 1 has a seam at every
// key, one of 5 divides none of the usual sizes.
constexpr const char* kCorrect[] = {"mutant",       "mutant:blocked", "tiled",    "tiled?tile=1",
                                    "tiled?tile=5", "tiled:fast",     "reference"};

constexpr std::string_view kDoneToTensors[] = {"value",     "input_changed", "stray_write",
                                               "unwritten", "read_fault",    "write_fault",
                                               "late_write"};

bool IsDoneToTensors(const Misdeed& misdeed) {
  return std::ranges::any_of(kDoneToTensors,
                             [&](std::string_view cause) { return IsAmong(cause, misdeed.cause); });
}

}  // namespace

Subject SubjectOf(const Mutant& mutant) {
  Subject subject;
  subject.kernel = "mutant:" + std::string(mutant.id);
  subject.id = mutant.id;
  subject.sort = mutant.is_null() ? SubjectSort::kNull : SubjectSort::kFault;
  subject.kind = mutant.kind;
  subject.causes = mutant.cause;
  return subject;
}

std::vector<Subject> PowerSubjects() {
  std::vector<Subject> subjects;
  for (const Mutant& mutant : Mutants()) subjects.push_back(SubjectOf(mutant));
  for (const Misdeed& misdeed : Misdeeds()) {
    if (!IsDoneToTensors(misdeed)) continue;
    const std::string kernel = "hostile:" + std::string(misdeed.id);
    subjects.push_back({kernel, kernel, SubjectSort::kHostile, "", std::string(misdeed.cause)});
  }
  for (const char* kernel : kCorrect) {
    subjects.push_back({kernel, kernel, SubjectSort::kCorrect, "", ""});
  }
  return subjects;
}

}  // namespace attest
