// Does a batcher give the answer away? Documents of independent uniform tokens go through it, a small learner is
// trained on the rows, and on fresh rows its loss is looked at. Without a leak no learner, however good, can do
// better than chance. Caller: teacher_forcing.loss_cannot_beat_chance.
//
// The bound. Let the alphabet have V tokens, and let q be what the learner, frozen before a fresh set of documents,
// gives the target at a position, from the inputs of its row up to that position. If the target is the next token
// and nothing of it has been seen, it is uniform given all that, so that E[V q] = 1; over a row the products of
// V q are a martingale from 1, whatever q is. The mean over the rows of a set, which may depend on each other as
// they like, therefore has expectation 1, too; so has the product of these means over sets that are drawn
// independently, each by the learner as it was before. It is never negative: by Markov's inequality it exceeds
// 1e9 with a probability of at most 1e-9. Its logarithm is the evidence. Targets that are marks or padding are left out.
#ifndef ATTEST_PROPERTIES_TRANSFORMER_LEAK_TRIAL_H_
#define ATTEST_PROPERTIES_TRANSFORMER_LEAK_TRIAL_H_

#include <cstdint>
#include <string>

#include <tl/expected.hpp>

#include "properties/harness/model/lab.h"

namespace attest {

// log(1e9): an honest batcher passes it once in 1e9 trials.
inline constexpr double kLeakEvidence = 20.72;

struct LeakTrial {
  int64_t alphabet = 0;     // V
  int64_t targets = 0;      // that counted, in all sets
  double log_evidence = 0;  // nats
  double loss = 0;          // mean -log q over the last half of the sets, nats
  std::string how;          // what predicts best: "is the input at the same position"
};

// Draws the documents from the case's seed, rows as long as the case's.
tl::expected<LeakTrial, Verdict> RunLeakTrial(const ModelCase& c, ModelLab& lab);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_TRANSFORMER_LEAK_TRIAL_H_
