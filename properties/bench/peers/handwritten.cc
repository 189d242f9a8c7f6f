// The test that a repository of one kernel typically has: a few shapes, normal data, causal or not,
// allclose with 1e-3 against an attention of plain operations.
#include "properties/bench/peers/suites.h"

namespace attest {

PeerSuite HandwrittenSuite() {
  PeerSuite suite{.name = "hand-written", .published = "6"};
  for (const Sizes& sizes : {Sizes{1, 2, 2, 64, 64, 32, 32}, Sizes{2, 4, 4, 128, 128, 64, 64},
                             Sizes{1, 2, 2, 256, 256, 64, 64}}) {
    for (const bool causal : {false, true}) {
      PeerCase& added = suite.cases.emplace_back();
      added.problem = ProblemOf(sizes, DType::kF32);
      added.problem.causal = causal;
      added.rule = ToleranceRule(1e-3, 1e-3);
      added.seed = suite.cases.size();
    }
  }
  suite.points = static_cast<int64_t>(suite.cases.size());
  return suite;
}

}  // namespace attest
