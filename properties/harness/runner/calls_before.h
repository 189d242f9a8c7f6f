// Failures that need calls made before them: a kernel that keeps lengths, a mask or a plan from one call to the next
// fails on a case only behind another. Finds the shortest such sequence, so that the finding can be seen again.
// Private to the runner.
#ifndef ATTEST_HARNESS_RUNNER_CALLS_BEFORE_H_
#define ATTEST_HARNESS_RUNNER_CALLS_BEFORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "properties/harness/case/case.h"

namespace attest {

// A case that fails on a fresh kernel once the calls of `before` are made, in order.
struct CallSequence {
  std::vector<Case> before;
  Case c;
};

// Whether the sequence fails on a fresh kernel; false also where there is no time to ask.
using FailsFresh = std::function<bool(const CallSequence&)>;

// The shortest end of met.before behind which met.c still fails, perhaps none, its cases then made smaller, together
// and one by one; nullopt where even all of it is not enough. Calls `fails` at most `most_tries` times.
std::optional<CallSequence> SmallestSequence(const CallSequence& met, const FailsFresh& fails,
                                             int64_t most_tries);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_CALLS_BEFORE_H_
