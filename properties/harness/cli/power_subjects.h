// The kernels that `attest power` and the mutation gate run: seeded faults, null kernels and misdeeds, each to be
// caught, and correct kernels, to be passed.
#ifndef ATTEST_HARNESS_CLI_POWER_SUBJECTS_H_
#define ATTEST_HARNESS_CLI_POWER_SUBJECTS_H_

#include <vector>

#include "impl/mutants/mutants.h"
#include "properties/harness/power/kill.h"

namespace attest {

Subject SubjectOf(const Mutant& mutant);

// Mutants first, in their table's order; then misdeeds; then what is correct. Of the misdeeds those done to
// the call's tensors: a kernel that dies or hangs fails whatever is asked, and says nothing of a property.
std::vector<Subject> PowerSubjects();

// Every faulty Transformer, whose kind is the model it is made of, and the right ones.
std::vector<Subject> ModelSubjects();

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_POWER_SUBJECTS_H_
