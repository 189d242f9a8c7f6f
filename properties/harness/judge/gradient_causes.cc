#include "properties/harness/judge/gradient_causes.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "impl/attention/visibility.h"
#include "impl/reference/gradient_row.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/feature_changes.h"
#include "properties/harness/judge/gradients.h"

namespace attest {
namespace {

// Pairs and lanes of a case whose gradients rules may compute, and of all that they compute together: some tenth of a
// second.
constexpr double kMostProducts = 1 << 18, kMostProductsInAll = 1 << 23;
// The bounds of an element under two rules differ by the number of terms and by a scale that is off.
constexpr double kOtherOrder = 64;
// Roundings of the element's type that a rule's own value may be off by.
constexpr double kOwnRoundings = 8;

// A faulty backward pass.
struct Rule {
  std::string_view cause_class, phrase;
  // What it makes of one row.
  void (*row)(const Problem&, const Row&, GradientRow&) = nullptr;
  bool keeps_rows = false;  // dq, dbias and dsink are right all the same
  bool drops_scale = false, drops_key_scale = false;
};

bool IsLastRow(const Problem& p, const Row& row) {
  const int64_t rows =
      p.query_lengths ? (*p.query_lengths)[static_cast<size_t>(row.batch)] : p.q_len;
  return row.query == rows - 1;
}

void OmitDelta(const Problem&, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.SetScores(pair.weight * pair.dweight);
  row.dsink = 0;
}

void OmitDeltaOfLastRow(const Problem& p, const Row& at, GradientRow& row) {
  if (IsLastRow(p, at)) OmitDelta(p, at, row);
}

void OmitSlope(const Problem&, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) {
    pair.slope = 1;
    pair.SetScores(pair.weight * (pair.dweight - row.delta));
  }
}

void OmitDropoutScale(const Problem&, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) {
    if (pair.kept == 0) continue;
    pair.dweight /= pair.kept;
    pair.kept = 1;
    pair.SetScores(pair.weight * (pair.dweight - row.delta));
  }
}

void DropLastRow(const Problem& p, const Row& at, GradientRow& row) {
  if (IsLastRow(p, at)) row.pairs.clear();
}

void DropFirstHeads(const Problem& p, const Row& at, GradientRow& row) {
  const int64_t ratio = p.heads_per_kv_head();
  if (at.head % ratio != ratio - 1) row.pairs.clear();
}

void LeaveOut(GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.dbias = 0;
}

void BiasOfLastHead(const Problem& p, const Row& at, GradientRow& row) {
  if (p.bias && p.bias->shape[1] == 1 && at.head != p.q_heads - 1) LeaveOut(row);
}

void BiasOfLastItem(const Problem& p, const Row& at, GradientRow& row) {
  if (p.bias && p.bias->shape[0] == 1 && at.batch != p.batch - 1) LeaveOut(row);
}

void BiasOfLastRow(const Problem& p, const Row& at, GradientRow& row) {
  if (p.bias && p.bias->shape[2] == 1 && at.query != p.q_len - 1) LeaveOut(row);
}

void ScaleBias(const Problem& p, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.dbias *= Wide{p.EffectiveScale()};
}

void NegateSink(const Problem&, const Row&, GradientRow& row) {
  row.dsink = -row.dsink;
}

constexpr Rule kRules[] = {
    // First the rules that leave more as it is: where q is 0, dk says nothing of the scale.
    {"gradient-scale", "as if the scale were left out of dq", nullptr, false, true},
    {"gradient-scale", "as if the scale were left out of dk", nullptr, false, false, true},
    {"gradient-scale", "as if the scale were left out of dq and dk", nullptr, false, true, true},
    {"gradient-delta", "as if D = dout . out were left out", OmitDelta},
    {"gradient-delta", "as if D = dout . out were left out in the last row", OmitDeltaOfLastRow},
    {"gradient-softcap", "as if the softcap had no slope of its own", OmitSlope},
    {"dropout-unscaled", "as if the backward pass did not scale what dropout keeps",
     OmitDropoutScale},
    {"gradient-row-lost", "as if the last row added nothing to dk and dv", DropLastRow, true},
    {"gradient-of-one-head", "as if a kv head got the gradient of its last query head alone",
     DropFirstHeads, true},
    {"gradient-of-shared-bias",
     "as if dbias were that of the last of the heads that share the bias", BiasOfLastHead},
    {"gradient-of-shared-bias",
     "as if dbias were that of the last of the batch items that share the bias", BiasOfLastItem},
    {"gradient-of-shared-bias", "as if dbias were that of the last of the rows that share the bias",
     BiasOfLastRow},
    {"gradient-bias-scaled", "as if dbias were multiplied by the scale", ScaleBias},
    {"gradient-sink-sign", "as if dsink had the wrong sign", NegateSink},
};

// Where a backward pass that takes its problem for another one has its weights from.
enum class Softmax {
  kOfForward,       // from the lse that the forward pass gave
  kOwn,             // from a sum of its own, beside the out that the forward pass gave
  kOwnAndItsValue,  // likewise, and out is its own, too
};

// The problem that the backward pass takes for its own.
struct SeenProblem {
  Problem problem;
  Inputs inputs;
  Semantics semantics;
};

SeenProblem Changed(const FeatureChange& change, const Evidence& evidence, size_t index) {
  SeenProblem seen{evidence.cases[index].problem, evidence.oracle.InputsOf(index),
                   evidence.contract.semantics};
  change.make(seen.problem, seen.inputs, seen.semantics);
  if (!seen.problem.bias) seen.inputs.bias = {};
  return seen;
}

// The reference of the problem that the backward pass takes for its own. Weights that follow from the true lse are 0 in
// rows that have none.
Reference SeenReference(const SeenProblem& seen, const Reference& truth, Softmax softmax) {
  Reference reference = ComputeReference(seen.problem, seen.inputs, seen.semantics);
  if (softmax != Softmax::kOwnAndItsValue) reference.out = truth.out;
  if (softmax != Softmax::kOfForward) return reference;
  ForEachRow(seen.problem, [&](const Row& row) {
    const double lse = truth.lse.At(row.batch, row.head, row.query, 0);
    for (int64_t j = 0; j < seen.problem.kv_len; ++j) {
      double& weight = reference.weights.At(row.batch, row.head, row.query, j);
      const double s = reference.scores.At(row.batch, row.head, row.query, j);
      weight = std::isfinite(lse) ? std::exp(s - lse) : 0;
    }
  });
  reference.lse = truth.lse;
  return reference;
}

// What the kernel would give that takes its problem for another one.
Gradient GradientOf(const SeenProblem& seen, const Problem& p, const Reference& truth,
                    Softmax softmax) {
  Gradient gradient = ComputeGradient(seen.problem, seen.inputs,
                                      SeenReference(seen, truth, softmax), seen.semantics);
  // Of a bias that is spread out over rows and heads nothing is said.
  if (gradient.dbias.shape != BiasGradientShape(p)) gradient.dbias = {};
  return gradient;
}

// What the kernel would give by the rule.
Gradient GradientOf(const Rule& rule, const Evidence& evidence, size_t index) {
  const Problem& p = evidence.cases[index].problem;
  Gradient gradient =
      ComputeChangedGradient(p, evidence.oracle.InputsOf(index), evidence.oracle.ReferenceOf(index),
                             evidence.contract.semantics, [&](const Row& at, GradientRow& row) {
                               if (rule.row != nullptr) rule.row(p, at, row);
                             });
  if (rule.keeps_rows) {
    const Gradient& due = evidence.oracle.GradientOf(index);
    gradient.dq = due.dq;
    gradient.dbias = due.dbias;
    gradient.dsink = due.dsink;
  }
  const double scale = p.EffectiveScale();
  if (scale == 0) return gradient;
  for (double& x : gradient.dq.values) x /= rule.drops_scale ? scale : 1;
  for (double& x : gradient.dk.values) x /= rule.drops_key_scale ? scale : 1;
  return gradient;
}

bool Fits(const Gradient& gradient, const Evidence& evidence, size_t index) {
  const Problem& p = evidence.cases[index].problem;
  const Gradient& bounds = evidence.oracle.GradientBoundOf(index);
  const double own = kOwnRoundings * TraitsOf(p.dtype).unit_roundoff;
  bool fits = true;
  ForEachGradient(evidence, index, [&](const GradientOutput& output, const GradientIndex& i) {
    if ((gradient.*output.due).empty()) return true;  // a rule without a bias says nothing of dbias
    const auto at = [&](const Array& array) { return array.At(i[0], i[1], i[2], i[3]); };
    const double due = at(gradient.*output.due), bound = at(bounds.*output.due);
    fits = WithinBound(at(evidence.outcomes[index].*output.observed), due,
                       kOtherOrder * bound + own * std::abs(due));
    return fits;
  });
  return fits;
}

double ProductsOf(const Problem& p) {
  return static_cast<double>(p.batch * p.q_heads * p.q_len * p.kv_len) *
         static_cast<double>(p.head_dim + p.value_dim + 8);
}

// What a backward pass may take for its problem.
FeatureChanges ChangesOf(const Problem& p) {
  FeatureChanges changes = IgnoredFeatures();
  Append(IgnoredVisibility(), changes);
  Append(MistakenFeatures(), changes);
  Append(VisibilityOffByOne(), changes);
  Append(FeaturesFromElsewhere(), changes);
  std::erase_if(changes, [&](const FeatureChange& change) {
    return IsSymptom(change.cause_class) || !change.applies(p);
  });
  return changes;
}

// The rules that give every element, one a class, best first; those that leave more as it is come first.
class GradientCauses {
 public:
  GradientCauses(const Evidence& evidence, size_t index)
      : evidence_(evidence), index_(index), p_(evidence.cases[index].problem) {}

  std::vector<OtherCause> Run(CausesWanted wanted) {
    most_ = wanted == CausesWanted::kEvery ? kEveryCause : 1;
    for (const Rule& rule : kRules) {
      Try(rule.cause_class, rule.phrase, [&] { return GradientOf(rule, evidence_, index_); });
    }
    const FeatureChanges changes = ChangesOf(p_);
    TrySeen(changes, Softmax::kOfForward, "");
    TrySeen(changes, Softmax::kOwn, ", with a softmax of its own");
    TrySeen(changes, Softmax::kOwnAndItsValue, ", with a softmax and an out of its own");
    return std::move(found_);
  }

 private:
  static constexpr size_t kEveryCause = 1000;

  void TrySeen(const FeatureChanges& changes, Softmax softmax, std::string_view how) {
    const Reference& truth = evidence_.oracle.ReferenceOf(index_);
    for (const FeatureChange& change : changes) {
      Try(change.cause_class, fmt::format("as if in the backward pass {}{}", change.phrase, how),
          [&] { return GradientOf(Changed(change, evidence_, index_), p_, truth, softmax); });
    }
  }

  template <typename Make>
  void Try(std::string_view cause_class, std::string_view phrase, Make make) {
    const bool is_known = std::ranges::any_of(
        found_, [&](const OtherCause& one) { return one.cause_class == cause_class; });
    if (is_known || found_.size() >= most_ || spent_ > kMostProductsInAll) return;
    spent_ += ProductsOf(p_);
    if (!Fits(make(), evidence_, index_)) return;
    found_.push_back({std::string(cause_class), std::string(phrase)});
  }

  const Evidence& evidence_;
  const size_t index_;
  const Problem& p_;
  size_t most_ = 1;
  double spent_ = 0;
  std::vector<OtherCause> found_;
};

}  // namespace

bool CanExplainGradient(const Problem& p) {
  return ProductsOf(p) <= kMostProducts;
}

Explanation ExplainGradient(const Evidence& evidence, size_t index, CausesWanted wanted) {
  // An error that the wider tolerance takes for none says nothing of rules.
  if (!CanExplainGradient(evidence.cases[index].problem) ||
      Fits(evidence.oracle.GradientOf(index), evidence, index)) {
    return {};
  }
  std::vector<OtherCause> found = GradientCauses(evidence, index).Run(wanted);
  if (found.empty()) return {};
  return {found.front().cause_class, found.front().phrase, {found.begin() + 1, found.end()}};
}

}  // namespace attest
