// Faults of features as whole problems: the problem that a kernel solves which ignores the sinks, reads the mask of
// another head, or takes bits for those of another type. The explainer computes the reference of such a problem and
// looks whether that is what came out; of a backward pass it asks the same of the gradients. Private to the judge.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_FEATURE_CHANGES_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_FEATURE_CHANGES_H_

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"
#include "properties/harness/judge/explain/explain.h"

namespace attest {

struct FeatureChange {
  std::string_view cause_class;
  std::string phrase;  // goes on after "as if"
  std::function<bool(const Problem&)> applies;
  std::function<void(Problem&, Inputs&, Semantics&)> make;
};
using FeatureChanges = std::vector<FeatureChange>;

inline void Append(FeatureChanges more, FeatureChanges& changes) {
  for (FeatureChange& change : more) changes.push_back(std::move(change));
}

// Features that are not applied.
FeatureChanges IgnoredFeatures();
// Likewise the causal flag, the window, lengths and masks; and the diagonal slid by one.
FeatureChanges IgnoredVisibility();
// Ends of windows and lengths off by one, masks inverted.
FeatureChanges VisibilityOffByOne();
// Features applied otherwise than asked for: by other slopes, before another step, from another corner.
FeatureChanges MistakenFeatures();
// Features of the first head, batch item or query, where no rule of rows knows of them; and features of any other.
FeatureChanges FeaturesOfTheFirst();
FeatureChanges FeaturesFromElsewhere();
// 8-bit inputs without their scale, or with another's.
FeatureChanges MisreadScales(const Problem& problem);
// Inputs whose bits or lanes are taken for others.
FeatureChanges MisreadInputs(const Problem& problem);
// The scores output is that of another step.
FeatureChanges OtherScoreModes();
// The scale left out, or applied twice.
FeatureChanges OtherScales();
// Products over the leading multiple of a tile of the head dimension alone.
FeatureChanges HeadDimTails(const Problem& problem);
// Changes by a number that the wrong rows suggest. They come last: a number that is free explains more than a word.
FeatureChanges FittedChanges(const Mismatch& mismatch, const std::vector<Row>& wrong);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_FEATURE_CHANGES_H_
