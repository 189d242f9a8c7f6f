// Whether a kernel computes the problem without one of its features, or with one taken otherwise:
// "as if the sinks were ignored". Each is a whole problem of its own, for which the reference and its
// bound are computed anew. Private to the explainer.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_FEATURE_FAULTS_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_FEATURE_FAULTS_H_

#include <vector>

#include "properties/harness/judge/explain/explain.h"

namespace attest {

// The features whose absence gives every row of `wrong` and of `right`, best first: the first, or every one. Empty
// where none does, and in cases too large to be computed again. Neither list need be whole.
std::vector<Explanation> FeatureFaults(const Mismatch& mismatch, const std::vector<Row>& wrong,
                                       const std::vector<Row>& right, CausesWanted wanted);

// The same of inputs that are misread, and of features of another head, item or query: where rules of rows explain
// nothing, for a rule that fits says more.
std::vector<Explanation> MisreadFaults(const Mismatch& mismatch, const std::vector<Row>& wrong,
                                       const std::vector<Row>& right, CausesWanted wanted);

// The same of the scores output alone, where it is wrong beside rows that are right.
std::vector<Explanation> ScoresFaults(const Mismatch& mismatch, const std::vector<Row>& wrong,
                                      const std::vector<Row>& right, CausesWanted wanted);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_FEATURE_FAULTS_H_
