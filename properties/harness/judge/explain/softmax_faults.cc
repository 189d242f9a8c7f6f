// Faults in the softmax itself: its scale, its division, its logarithm, and what it makes of rows that see nothing.
// online_faults.cc has those of its parts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/hypotheses.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// 10: scores of smaller sizes are common, and a round one says nothing.
constexpr double kLeastBound = 10;

int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

void AddScales(const Problem& p, HypothesisBank& bank) {
  const double scale = p.EffectiveScale();
  const double dim = static_cast<double>(std::max<int64_t>(p.head_dim, 1));
  const auto is = [&](std::string phrase, double wrong) {
    if (wrong == scale || !std::isfinite(wrong)) return;
    bank.AddRule("scale", std::move(phrase), [wrong](RowRule& rule) { rule.scale = wrong; });
  };
  is("the scale were left out", 1);
  is("the scale were applied twice", scale * scale);
  if (p.scale) is("the scale were 1/sqrt(head_dim) and not the one given", 1 / std::sqrt(dim));
  is("the scale were 1/head_dim", 1 / dim);
  is("the scale were its square root", std::sqrt(std::abs(scale)));
  is("the scale were inverted", 1 / scale);
  is("the scale were 1/sqrt(value_dim)",
     1 / std::sqrt(static_cast<double>(std::max<int64_t>(p.value_dim, 1))));
  for (const int64_t tile : {2, 4, 8, 16, 32, 64, 128}) {
    is(fmt::format("the scale were 1/sqrt(head_dim rounded up to a multiple of {})", tile),
       1 / std::sqrt(static_cast<double>(RoundUp(p.head_dim, tile))));
  }
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    is(fmt::format("the scale were rounded to {}", Name(dtype)), RoundTo(dtype, scale));
  }
  is("exponentials were to base 2 without a factor log2(e)", scale * std::numbers::ln2);
  is("the factor log2(e) were there and exponentials to base e", scale / std::numbers::ln2);
  is("the scale had the other sign", -scale);
  if (!p.bias) return;
  bank.AddRule("scale", "the scale multiplied the additive mask too", [](RowRule& rule) {
    for (Term& term : rule.terms) term.bias *= rule.scale;
  });
  bank.AddRule("scale", "the scale divided the additive mask", [](RowRule& rule) {
    for (Term& term : rule.terms) term.bias /= rule.scale;
  });
}

// Whether out of the row is wrong in some lane.
bool OutIsWrong(const Scene& scene, const Row& row) {
  const RowNumbers& bound = scene.bound().WorstOf(row);
  for (size_t d = 0; d < bound.out.size(); ++d) {
    const auto lane = static_cast<int64_t>(d);
    const double expected = scene.reference().out.At(row.batch, row.head, row.query, lane);
    const double observed = scene.outcome().out.At(row.batch, row.head, row.query, lane);
    if (!WithinBound(observed, expected, bound.out[d])) return true;
  }
  return false;
}

// The scale that would give the observed lse, found by bisection on a grid: one equation, one
// unknown, so that out, which has to be wrong too, and the other rows are what makes it evidence.
std::optional<double> FitScale(const Scene& scene, const Row& witness) {
  const Array& lse = scene.outcome().lse;
  RowRule rule = scene.TrueRule(witness);
  if (lse.empty() || rule.terms.size() < 2 || !OutIsWrong(scene, witness)) return std::nullopt;
  const double observed = lse.At(witness.batch, witness.head, witness.query, 0);
  RowRule plain = rule;
  plain.scale = 1;
  for (Term& term : plain.terms) term.bias = 0;
  const std::vector<double> dots = ScoresOf(scene.context(), plain, plain.terms);
  const auto excess = [&](double factor) {
    double max = -kInf, sum = 0;
    for (size_t n = 0; n < dots.size(); ++n) {
      max = std::max(max, factor * rule.scale * dots[n] + rule.terms[n].bias);
    }
    for (size_t n = 0; n < dots.size(); ++n) {
      sum += std::exp(factor * rule.scale * dots[n] + rule.terms[n].bias - max);
    }
    return max + std::log(sum) - observed;
  };
  // 2^(1/4): factors nearer to one another than that would be two roots in one step, which a convex
  // function has at its least value only.
  for (double low = 0x1p-6; low < 0x1p6; low *= 1.189207115002721) {
    double a = low, b = low * 1.189207115002721;
    if (!(excess(a) * excess(b) < 0)) continue;
    for (int step = 0; step < 60; ++step) {
      const double middle = (a + b) / 2;
      (excess(a) * excess(middle) <= 0 ? b : a) = middle;
    }
    return rule.scale * a;
  }
  return std::nullopt;
}

void AddFittedScale(HypothesisBank& bank) {
  const auto fitted = FitScale(bank.scene(), bank.witness());
  if (!fitted) return;
  const double factor = *fitted / bank.problem().EffectiveScale();
  const bool is_close = fmt::format("{:.6g}", factor) == "1";
  bank.AddRule("scale",
               fmt::format("the scale were off by a factor of {:.{}g}", factor, is_close ? 12 : 6),
               [scale = *fitted](RowRule& rule) { rule.scale = scale; });
}

void AddDivisions(const Problem& p, HypothesisBank& bank) {
  const Scene* scene = &bank.scene();
  bank.AddRule("not-normalised", "the sum of values were not divided by the sum of weights",
               [](RowRule& rule) { rule.is_divided = false; });
  // The sum runs over hidden keys, whose weights are then put to zero.
  const auto over = [&](std::string phrase, auto loosen) {
    bank.AddRule("hidden-keys-in-sum", std::move(phrase), [scene, loosen](RowRule& rule) {
      RowCase c = scene->CaseOf(rule.query);
      loosen(c.problem);
      rule.divisor = scene->RuleOf(c).terms;
    });
  };
  if (p.causal || p.key_lengths || p.mask || p.window.active()) {
    over("the sum of weights ran over hidden keys too", [](Problem& row) {
      row.causal = false;
      row.window = {};
      row.mask.reset();
      row.key_lengths.reset();
    });
  }
  if (p.causal) {
    over("the sum of weights ran past the diagonal", [](Problem& row) { row.causal = false; });
  }
  if (p.mask) {
    over("the sum of weights ran over masked keys", [](Problem& row) { row.mask.reset(); });
  }
  if (p.key_lengths) {
    over("the sum of weights ran past the key length",
         [](Problem& row) { row.key_lengths.reset(); });
  }
}

void AddLogarithms(HypothesisBank& bank) {
  const auto add = [&](std::string_view id, std::string phrase, double factor, LsePart part) {
    bank.AddRule(id, std::move(phrase), [factor, part](RowRule& rule) {
      rule.lse_factor = factor;
      rule.lse_part = part;
    });
  };
  add("lse-base", "the lse were to base 2", 1 / std::numbers::ln2, LsePart::kWhole);
  add("lse-base", "a natural lse were taken for one to base 2", std::numbers::ln2, LsePart::kWhole);
  add("lse-part", "the lse left out the maximum", 1, LsePart::kSum);
  add("lse-part", "the lse were the maximum alone", 1, LsePart::kMax);
  add("lse-part", "the lse had the other sign", -1, LsePart::kWhole);
}

// Keys from which their mean is taken, for the sake of few bits: no weight changes, but the lse does.
void AddCentredKeys(HypothesisBank& bank) {
  const Scene* scene = &bank.scene();
  bank.AddRule("keys-centred",
               "the mean of all keys were taken from each, and the lse not put right",
               [scene](RowRule& rule) {
                 if (rule.terms.empty()) return;
                 const Source& k = rule.terms.front().k;
                 const std::vector<double>& dots = scene->context().dots.DotsOf(
                     scene->problem(), scene->inputs(), rule.query, k.batch, k.kv_head);
                 double sum = 0;
                 for (const double dot : dots) sum += dot;
                 rule.lse_offset = -rule.scale * sum / static_cast<double>(dots.size());
               });
}

// Rows that see nothing, whose contract knows what is due.
void AddEmptyRows(HypothesisBank& bank) {
  if (!IsEmptyRow(bank.problem(), bank.witness())) return;
  const auto add = [&](std::string phrase, bool in_length, bool uniform) {
    bank.Add("empty-row", std::move(phrase),
             [scene = &bank.scene(), in_length, uniform](const Row& row) {
               RowRule rule = scene->TrueRule(row);
               if (!rule.terms.empty()) return rule;
               const RowCase c = scene->CaseOf(row);
               const auto& lengths = c.problem.key_lengths;
               const int64_t end = in_length && lengths ? lengths->front() : c.problem.kv_len;
               for (int64_t j = 0; j < end; ++j) rule.terms.push_back(scene->TermOf(c, j));
               if (uniform) {
                 rule.scale = 0;
                 for (Term& term : rule.terms) term.bias = 0;
               }
               rule.lse_part = LsePart::kFree;
               return rule;
             });
  };
  add("an empty row were the softmax over all keys, as if a finite number were added to hidden "
      "scores",
      false, false);
  add("an empty row were the mean of all values, which one finite score for hidden keys makes of "
      "it",
      false, true);
  add("an empty row were the softmax over the keys within the length", true, false);
  add("an empty row were the mean of the values within the length", true, true);
}

// A bound on scores that the lse of a row suggests, where all or one of its scores lie beyond it; to two digits, or the
// number would be no evidence.
std::vector<double> BoundsOnScores(const Scene& scene, const Row& witness) {
  const Array& lse = scene.outcome().lse;
  const size_t terms = scene.TrueRule(witness).terms.size();
  if (lse.empty() || terms == 0) return {};
  std::vector<double> bounds;
  for (const double lost : {0.0, std::log(static_cast<double>(terms))}) {
    const double bound = lse.At(witness.batch, witness.head, witness.query, 0) - lost;
    if (!(std::abs(bound) >= kLeastBound) || !std::isfinite(bound)) continue;
    const double unit = std::pow(10, std::floor(std::log10(std::abs(bound))) - 1);
    const double round = std::round(bound / unit) * unit;
    if (std::abs(bound - round) <= 1e-5 * std::abs(bound)) bounds.push_back(round);
  }
  return bounds;
}

void AddClampedScores(HypothesisBank& bank) {
  const RuleContext* context = &bank.scene().context();
  for (const double bound : BoundsOnScores(bank.scene(), bank.witness())) {
    for (const bool above : {true, false}) {
      bank.AddRule(
          "scores-clamped",
          fmt::format("scores {} {:.6g} were taken for it", above ? "above" : "below", bound),
          [bound, above, context](RowRule& rule) {
            const std::vector<double> scores = ScoresOf(*context, rule, rule.terms);
            for (size_t n = 0; n < scores.size(); ++n) {
              const bool is_beyond = above ? scores[n] > bound : scores[n] < bound;
              if (is_beyond) rule.terms[n].bias += bound - scores[n];
            }
          });
    }
  }
}

// A factor on out that one element suggests; the other lanes and rows are the evidence.
void AddFactor(HypothesisBank& bank) {
  const Row& witness = bank.witness();
  const Scene& scene = bank.scene();
  double expected = 0, observed = 0;
  for (int64_t d = 0; d < scene.problem().value_dim; ++d) {
    const double due = scene.reference().out.At(witness.batch, witness.head, witness.query, d);
    if (!(std::abs(due) > std::abs(expected)) || !std::isfinite(due)) continue;
    expected = due;
    observed = scene.outcome().out.At(witness.batch, witness.head, witness.query, d);
  }
  // One lane alone fits any factor.
  if (scene.problem().value_dim < 2 || expected == 0 || observed == 0) return;
  const double factor = observed / expected;
  if (!std::isfinite(factor)) return;
  bank.AddRule("out-factor", fmt::format("out were multiplied by {:.6g}", factor),
               [factor](RowRule& rule) { rule.out_factor = factor; });
}

}  // namespace

void AddRoundedLse(HypothesisBank& bank) {
  const DType due = bank.problem().LseDType();
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    if (TraitsOf(dtype).unit_roundoff <= TraitsOf(due).unit_roundoff) continue;
    bank.AddRule("lse-rounded", fmt::format("the lse were rounded to {}", Name(dtype)),
                 [dtype](RowRule& rule) { rule.lse_rounding = dtype; });
  }
}

void AddSoftmaxFaults(HypothesisBank& bank) {
  AddEmptyRows(bank);
  const Problem& p = bank.problem();
  if (p.kv_len == 0) return;
  AddLogarithms(bank);
  if (p.softcap == 0 && !p.sinks) AddCentredKeys(bank);
  AddClampedScores(bank);
  AddScales(p, bank);
  AddRescaleFaults(bank);
  AddDivisions(p, bank);
  bank.AddRule("scores-ignored", "every visible key weighed the same", [](RowRule& rule) {
    rule.scale = 0;
    for (Term& term : rule.terms) term.bias = 0;
  });
  AddMergeFaults(bank);
  AddFactor(bank);
  AddFittedScale(bank);
}

}  // namespace attest
