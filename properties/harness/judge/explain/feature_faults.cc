#include "properties/harness/judge/explain/feature_faults.h"

#include <algorithm>
#include <string>

#include "impl/reference/extended_reference.h"
#include "properties/harness/judge/explain/feature_changes.h"
#include "properties/harness/judge/explain/hypotheses.h"
#include "properties/harness/judge/explain/survey.h"
#include "properties/harness/judge/outputs.h"

namespace attest {
namespace {

// Scores that the changes of one case may cost in all: the reference takes some ten milliseconds for 2^18, and there
// are a few dozen changes.
constexpr int64_t kMostScores = int64_t{1} << 21, kMostScoresOfOne = int64_t{1} << 18;

// Whether the change tells the truth from itself: not where its bound is so wide that the right values lie in it too,
// in most of the rows.
bool Distinguishes(const Mismatch& m, const Mismatch& changed, const std::vector<Row>& wrong) {
  Outcome truth;
  truth.status = m.outcome.status;
  for (const Output& output : kOutputs) {
    if (!(m.outcome.*output.observed).empty()) {
      truth.*output.observed = m.reference.*output.expected;
    }
  }
  const Mismatch right{changed.problem, changed.inputs,   changed.reference, changed.bound,
                       truth,           changed.contract, changed.storage};
  const auto differs = [&](const Row& row) { return !RowHolds(right, row, changed.bound); };
  return 2 * std::ranges::count_if(wrong, differs) >= std::ssize(wrong);
}

// Whether the outcome is what a right kernel makes of the changed problem, in the rows given.
bool Gives(const Mismatch& m, const FeatureChange& change, const std::vector<Row>& wrong,
           const std::vector<Row>& right) {
  Problem p = m.problem;
  Contract contract = m.contract;
  Inputs inputs = m.inputs;
  change.make(p, inputs, contract.semantics);
  if (!p.bias) inputs.bias = {};
  const Reference reference = ReferenceFor(p, inputs, contract);
  ErrorBound bound(p, inputs, reference, contract);
  const Mismatch changed{p, inputs, reference, bound, m.outcome, contract, m.storage};
  const auto holds = [&](const Row& row) { return RowHolds(changed, row, bound); };
  // Of a row that sees nothing, out and lse alone are looked at.
  const bool has_rows = !m.outcome.out.empty() || !m.outcome.lse.empty();
  const auto is_evidence = [&](const Row& row) {
    return RowIsJudged(changed, row) && (has_rows || !IsEmptyRow(p, row)) && holds(row);
  };
  return std::all_of(wrong.begin(), wrong.end(), is_evidence) &&
         std::all_of(right.begin(), right.end(), holds) && Distinguishes(m, changed, wrong);
}

// The first of the changes that gives the rows, or every one.
std::vector<Explanation> ThoseThatGive(const Mismatch& m, const FeatureChanges& changes,
                                       const std::vector<Row>& wrong, const std::vector<Row>& right,
                                       CausesWanted wanted) {
  std::vector<Explanation> found;
  const int64_t scores = ElementCount(m.problem.WeightsShape());
  int64_t spent = 0;
  for (const FeatureChange& change : changes) {
    if (scores > kMostScoresOfOne || spent > kMostScores) break;
    if (!change.applies(m.problem)) continue;
    spent += scores;
    if (!Gives(m, change, wrong, right)) continue;
    found.push_back({std::string(change.cause_class), "as if " + change.phrase});
    if (wanted == CausesWanted::kBest) break;
  }
  return found;
}

}  // namespace

std::vector<Explanation> FeatureFaults(const Mismatch& m, const std::vector<Row>& wrong,
                                       const std::vector<Row>& right, CausesWanted wanted) {
  FeatureChanges changes = IgnoredFeatures();
  Append(OtherScoreModes(), changes);
  Append(MistakenFeatures(), changes);
  Append(FeaturesOfTheFirst(), changes);
  Append(MisreadScales(m.problem), changes);
  // Rules of rows find these in a plain softmax, and no more beside a softcap, a sink or dropout.
  if (!HasPlainSoftmax(m.problem)) {
    Append(IgnoredVisibility(), changes);
    Append(HeadDimTails(m.problem), changes);
    Append(FittedChanges(m, wrong), changes);
  }
  return ThoseThatGive(m, changes, wrong, right, wanted);
}

std::vector<Explanation> MisreadFaults(const Mismatch& m, const std::vector<Row>& wrong,
                                       const std::vector<Row>& right, CausesWanted wanted) {
  FeatureChanges changes = MisreadInputs(m.problem);
  Append(FeaturesFromElsewhere(), changes);
  return ThoseThatGive(m, changes, wrong, right, wanted);
}

std::vector<Explanation> ScoresFaults(const Mismatch& m, const std::vector<Row>& wrong,
                                      const std::vector<Row>& right, CausesWanted wanted) {
  Outcome scores;
  scores.status = m.outcome.status;
  scores.scores = m.outcome.scores;
  const Mismatch alone{m.problem, m.inputs, m.reference, m.bound, scores, m.contract, m.storage};
  FeatureChanges changes = OtherScoreModes();
  Append(IgnoredFeatures(), changes);
  Append(MistakenFeatures(), changes);
  Append(FeaturesOfTheFirst(), changes);
  Append(IgnoredVisibility(), changes);
  Append(OtherScales(), changes);
  // What is hidden shows in scores alone, and rules of rows say nothing of them.
  Append(VisibilityOffByOne(), changes);
  Append(MisreadScales(m.problem), changes);
  Append(MisreadInputs(m.problem), changes);
  Append(FeaturesFromElsewhere(), changes);
  return ThoseThatGive(alone, changes, wrong, right, wanted);
}

}  // namespace attest
