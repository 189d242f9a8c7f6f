#include "properties/harness/judge/gradient_causes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "impl/attention/visibility.h"
#include "impl/reference/gradient_row.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/feature_changes.h"
#include "properties/harness/judge/gradient_rules.h"
#include "properties/harness/judge/gradient_symptoms.h"
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

// What the kernel would give that changes each row's part so.
Gradient ChangedGradient(const Evidence& evidence, size_t index, const RowChange& change) {
  return ComputeChangedGradient(evidence.cases[index].problem, evidence.oracle.InputsOf(index),
                                evidence.oracle.ReferenceOf(index), evidence.contract.semantics,
                                change);
}

// What the kernel would give by the rule.
Gradient GradientOf(const GradientRule& rule, const Evidence& evidence, size_t index) {
  const Problem& p = evidence.cases[index].problem;
  Gradient gradient = ChangedGradient(evidence, index, rule.row);
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

// Which of the rule, the truth and zero all elements of an output fit that the bound does not leave open.
struct OutputFit {
  bool rule = true, truth = true, zero = true, is_finite = true;
  bool lost = true;  // each fits the truth, or is 0
};
// By output, in the order of kGradientOutputs.
using Fit = std::array<OutputFit, kGradientOutputs.size()>;

Fit FitOf(const Gradient& gradient, const Evidence& evidence, size_t index) {
  const Problem& p = evidence.cases[index].problem;
  const Gradient &bounds = evidence.oracle.GradientBoundOf(index),
                 &truth = evidence.oracle.GradientOf(index);
  const double own = kOwnRoundings * TraitsOf(p.dtype).unit_roundoff;
  Fit fit;
  ForEachGradient(evidence, index, [&](const GradientOutput& output, const GradientIndex& i) {
    OutputFit& one = fit[static_cast<size_t>(&output - kGradientOutputs.data())];
    const auto at = [&](const Array& array) { return array.At(i[0], i[1], i[2], i[3]); };
    const double observed = at(evidence.outcomes[index].*output.observed);
    const double bound = kOtherOrder * at(bounds.*output.due);
    const auto fits = [&](double due) {
      return WithinBound(observed, due, bound + own * std::abs(due));
    };
    const bool is_true = fits(at(truth.*output.due));
    one.truth = one.truth && is_true;
    one.lost = one.lost && (is_true || observed == 0);
    one.zero = one.zero && (std::isinf(bound) || observed == 0);
    one.is_finite = one.is_finite && (std::isinf(bound) || std::isfinite(observed));
    // A rule without a bias, or sinks, leaves their gradients at 0, or says nothing of them where they are right.
    const Array& by_rule = gradient.*output.due;
    one.rule = one.rule && (by_rule.empty() ? observed == 0 || is_true : fits(at(by_rule)));
    return true;
  });
  return fit;
}

bool FollowsRule(const Fit& fit) {
  return std::ranges::all_of(fit, &OutputFit::rule);
}

bool IsTrue(const Fit& fit) {
  return std::ranges::all_of(fit, &OutputFit::truth);
}

// The outputs for which `is_it` holds: "dq and dk"; empty where there is none.
template <typename Predicate>
std::string OutputsWhere(const Fit& fit, Predicate is_it) {
  std::vector<std::string_view> names;
  for (size_t n = 0; n < fit.size(); ++n) {
    if (is_it(fit[n])) names.push_back(kGradientOutputs[n].name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

// What there is to add to a rule that some outputs alone follow while the others are right or 0; nullopt where it is not
// so, or no output follows it. Many rules give NaN: that is too little for a part.
std::optional<std::string> PartOf(const Fit& fit) {
  // Zeros are what many rules come to.
  const auto follows = [](const OutputFit& one) { return one.rule && !one.truth && !one.zero; };
  const auto is_lost = [](const OutputFit& one) { return !one.truth && one.zero; };
  for (const OutputFit& one : fit) {
    if (!one.is_finite || (!one.rule && !one.truth && !one.zero)) return std::nullopt;
  }
  const std::string some = OutputsWhere(fit, follows), none = OutputsWhere(fit, is_lost);
  if (some.empty()) return std::nullopt;
  const bool is_part =
      std::ranges::any_of(fit, [](const OutputFit& one) { return !one.rule && one.truth; });
  return (is_part ? fmt::format(", for {} alone", some) : "") +
         (none.empty() ? "" : fmt::format("; {} is 0 everywhere", none));
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

// The rules that give every element, one a class, best first; those that leave more as it is come first. What gives some
// outputs alone comes behind them, then numbers that fit.
class GradientCauses {
 public:
  GradientCauses(const Evidence& evidence, size_t index)
      : evidence_(evidence), index_(index), p_(evidence.cases[index].problem) {}

  std::vector<OtherCause> Run(CausesWanted wanted) {
    most_ = wanted == CausesWanted::kEvery ? kEveryCause : 1;
    const auto rules =
        GradientRules(p_, evidence_.oracle.InputsOf(index_), evidence_.oracle.ReferenceOf(index_));
    for (const GradientRule& rule : rules) {
      Try(rule.cause_class, rule.phrase, [&] { return GradientOf(rule, evidence_, index_); });
    }
    const FeatureChanges changes = ChangesOf(p_);
    TrySeen(changes, Softmax::kOfForward, "");
    TrySeen(changes, Softmax::kOwn, ", with a softmax of its own");
    TrySeen(changes, Softmax::kOwnAndItsValue, ", with a softmax and an out of its own");
    Add(LostOutputs());
    for (OtherCause& cause : of_parts_) Add(std::move(cause));
    for (const FreeGradientRule& rule : FreeGradientRules(p_)) TryFree(rule);
    Add(FactorOfOutputs());
    return std::move(found_);
  }

 private:
  static constexpr size_t kEveryCause = 1000;

  void Add(OtherCause cause) {
    const bool is_known = std::ranges::any_of(
        found_, [&](const OtherCause& one) { return one.cause_class == cause.cause_class; });
    if (!cause.cause_class.empty() && !is_known && found_.size() < most_) {
      found_.push_back(std::move(cause));
    }
  }

  bool IsOver() const { return found_.size() >= most_ || spent_ > kMostProductsInAll; }

  void TrySeen(const FeatureChanges& changes, Softmax softmax, std::string_view how) {
    const Reference& truth = evidence_.oracle.ReferenceOf(index_);
    for (const FeatureChange& change : changes) {
      Try(change.cause_class, fmt::format("as if in the backward pass {}{}", change.phrase, how),
          [&] { return GradientOf(Changed(change, evidence_, index_), p_, truth, softmax); });
    }
  }

  template <typename Make>
  void Try(std::string_view cause_class, const std::string& phrase, Make make) {
    if (IsOver()) return;
    spent_ += ProductsOf(p_);
    const Fit fit = FitOf(make(), evidence_, index_);
    if (FollowsRule(fit)) return Add({std::string(cause_class), phrase});
    if (const auto part = PartOf(fit)) {
      of_parts_.push_back({std::string(cause_class), phrase + *part});
    }
  }

  // The number that fits dq best, and then everything must.
  void TryFree(const FreeGradientRule& rule) {
    if (IsOver()) return;
    spent_ += 2 * ProductsOf(p_);
    const auto with = [&](double number) {
      return ChangedGradient(evidence_, index_,
                             [&](const Row&, GradientRow& row) { rule.row(number, row); });
    };
    Gradient at_0 = with(0);
    const Gradient at_1 = with(1);
    const double factor = FittingNumber(at_0.dq, at_1.dq, evidence_.outcomes[index_].dq);
    if (!std::isfinite(factor)) return;
    const std::string phrase =
        fmt::format("{} multiplied by {}", rule.phrase, NameFactor(p_, factor));
    Try(rule.cause_class, phrase, [&] { return with(factor); });
    for (OtherCause& cause : std::exchange(of_parts_, {})) Add(std::move(cause));
  }

  // The x for which a + x (b - a) is nearest to what is observed.
  static double FittingNumber(const Array& a, const Array& b, const Array& observed) {
    double products = 0, squares = 0;
    for (size_t n = 0; n < a.values.size(); ++n) {
      const double step = b.values[n] - a.values[n];
      products += step * (observed.values[n] - a.values[n]);
      squares += step * step;
    }
    return products / squares;
  }

  // Outputs that are 0 wherever they are wrong.
  OtherCause LostOutputs() const {
    const Fit fit = FitOf(evidence_.oracle.GradientOf(index_), evidence_, index_);
    if (!std::ranges::all_of(fit, &OutputFit::lost)) return {};
    const auto is_wrong = [](const OutputFit& one) { return !one.truth; };
    const bool is_all =
        std::ranges::all_of(fit, [&](const OutputFit& one) { return !is_wrong(one) || one.zero; });
    return {"gradient-zero", fmt::format("{} is 0 {}", OutputsWhere(fit, is_wrong),
                                         is_all ? "everywhere" : "wherever it is wrong")};
  }

  // One output, all of whose elements are off by one factor, while the others are right.
  OtherCause FactorOfOutputs() const {
    const Outcome& outcome = evidence_.outcomes[index_];
    for (const GradientOutput& output : kGradientOutputs) {
      Gradient scaled = evidence_.oracle.GradientOf(index_);
      Array& due = scaled.*output.due;
      if (due.empty() || (outcome.*output.observed).empty()) continue;
      const Array zeros(due.shape, 0);
      const double factor = FittingNumber(zeros, due, outcome.*output.observed);
      if (!std::isfinite(factor) || std::ranges::count_if(due.values, IsNotZero) < 2) continue;
      for (double& x : due.values) x *= factor;
      const Fit fit = FitOf(scaled, evidence_, index_);
      if (!FollowsRule(fit) || IsTrue(fit)) continue;
      return {"gradient-factor",
              fmt::format("as if {} were multiplied by {}", output.name, NameFactor(p_, factor))};
    }
    return {};
  }

  static bool IsNotZero(double x) { return x != 0; }

  const Evidence& evidence_;
  const size_t index_;
  const Problem& p_;
  size_t most_ = 1;
  double spent_ = 0;
  std::vector<OtherCause> found_;
  std::vector<OtherCause> of_parts_;
};

}  // namespace

bool CanExplainGradient(const Problem& p) {
  return ProductsOf(p) <= kMostProducts;
}

Explanation ExplainGradient(const Evidence& evidence, size_t index, CausesWanted wanted) {
  // An error that the wider tolerance takes for none says nothing of rules.
  if (!CanExplainGradient(evidence.cases[index].problem) ||
      IsTrue(FitOf(evidence.oracle.GradientOf(index), evidence, index))) {
    return {};
  }
  std::vector<OtherCause> found = GradientCauses(evidence, index).Run(wanted);
  if (found.empty()) return GradientSymptom(evidence, index);
  return {found.front().cause_class, found.front().phrase, {found.begin() + 1, found.end()}};
}

}  // namespace attest
