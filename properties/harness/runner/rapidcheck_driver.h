// The two loops that RapidCheck runs for us: look for a failing case, and walk from a failing case
// to a small one. RapidCheck's headers cost seconds to compile, its shorter entry points read a
// global configuration, and its shrinking has no bound, so all of it stays behind these two
// functions.
#ifndef ATTEST_HARNESS_RUNNER_RAPIDCHECK_DRIVER_H_
#define ATTEST_HARNESS_RUNNER_RAPIDCHECK_DRIVER_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "properties/harness/case/case.h"

namespace attest {

// The seed of a property's cases: the properties of a run must not see the same stream of them.
uint64_t PropertySeed(uint64_t run_seed, std::string_view id);

// What running one case tells the search.
enum class Answer {
  kHolds,
  kSaysNothing,  // outside the claim, or not supported: draw another in its place
  kStop,         // a failure to look into, or no time left
};

enum class SearchEnd {
  kDone,    // `wanted` cases held
  kGaveUp,  // more than ten cases said nothing for each one wanted
  kStopped,
};

// Tests drawn cases until `wanted` of them held, or `test` says stop. Both are called from this
// thread, alternately.
SearchEnd SearchCases(int64_t wanted, const std::function<Case()>& draw,
                      const std::function<Answer(const Case&)>& test);

struct ShrunkCase {
  Case smallest;      // the case given, where nothing smaller fails
  int64_t tries = 0;  // calls of still_fails
};

// Walks down ShrinkCandidates from `failing`, which is taken to fail, to a case none of whose
// candidates fails. After `budget` calls of `still_fails`, or once `out_of_time` says so, the
// smallest case met so far is returned.
ShrunkCase ShrinkCase(const Case& failing, const std::function<bool(const Case&)>& still_fails,
                      int64_t budget, const std::function<bool()>& out_of_time);

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_RAPIDCHECK_DRIVER_H_
