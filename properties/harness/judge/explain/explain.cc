#include "properties/harness/judge/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/feature_faults.h"
#include "properties/harness/judge/explain/hypotheses.h"
#include "properties/harness/judge/explain/numerics_search.h"
#include "properties/harness/judge/explain/survey.h"
#include "properties/harness/judge/explain/symptoms.h"
#include "properties/harness/judge/outputs.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

// Multiplications that trying hypotheses may cost: some ten milliseconds.
constexpr int64_t kBudget = int64_t{1} << 23;
// The bounds of a row under two rules differ by the number of keys, and by a scale that is off; beside
// that not by more than this.
constexpr double kOtherOrder = 64;
constexpr double kInf = std::numeric_limits<double>::infinity();
// Rows on which a hypothesis that fits the witness is tried further, of each kind: the most, and in
// long cases at least.
constexpr int64_t kRowsTried = 16, kRowsTriedAtLeast = 2;
// Wrong rows that no rule gives by chance, be their errors as small as roundings.
constexpr size_t kRowsOfARule = 6;
// Rows that wider arithmetic is tried on.
constexpr int64_t kRowsWidened = 64;
// Wrong rows that a rule must give for each right row that it would have wrong.
constexpr size_t kRowsForOneAgainst = 4;
// Hypotheses that nothing tells apart are named together, up to so many.
constexpr size_t kNamedTogether = 3;

// Up to `most` of `rows`, evenly spread, in order.
std::vector<Row> Spread(const std::vector<Row>& rows, int64_t most) {
  std::vector<Row> some;
  const size_t count = std::min(rows.size(), static_cast<size_t>(most));
  for (size_t n = 0; n < count; ++n) some.push_back(rows[n * rows.size() / count]);
  return some;
}

// The range of the finite values; the largest of their sizes where all are alike.
double RangeOf(const Array& v) {
  double low = kInf, high = -kInf, largest = 0;
  for (const double x : v.values) {
    if (!std::isfinite(x)) continue;
    low = std::min(low, x);
    high = std::max(high, x);
    largest = std::max(largest, std::abs(x));
  }
  return high > low ? high - low : largest;
}

double At(const Array& array, const Row& row, size_t lane) {
  return array.At(row.batch, row.head, row.query, static_cast<int64_t>(lane));
}

// Whether the output of the row is what the truth makes it; `counts` picks the values to look at.
template <typename Counts>
bool OutputHolds(const Mismatch& m, const Row& row, const Output& output, Counts counts) {
  const Array& observed = m.outcome.*output.observed;
  if (observed.empty()) return true;
  const RowNumbers& bound = m.bound.WorstOf(row);
  for (int64_t lane = 0; lane < observed.shape[3]; ++lane) {
    const auto at = static_cast<size_t>(lane);
    const double value = At(observed, row, at);
    const double expected = At(m.reference.*output.expected, row, at);
    if (counts(value) && !WithinBound(value, expected, output.number(bound, lane))) return false;
  }
  return true;
}

bool OutputHolds(const Mismatch& m, const Row& row, const Output& output) {
  return OutputHolds(m, row, output, [](double) { return true; });
}

// A phrase without an example, and without the words for whose vectors are misread: whether keys, values or both does
// not make another fault of it.
std::string EssenceOf(std::string phrase) {
  phrase.erase(std::min(phrase.find(kSuchAs), phrase.size()));
  for (const std::string_view word : {"keys and values", "keys", "values"}) {
    for (size_t at; (at = phrase.find(word)) != phrase.npos;) phrase.erase(at, word.size());
  }
  return phrase;
}

// How well a hypothesis does on the rows tried; less is better, fields in order.
struct Score {
  size_t unexplained = 0;   // wrong rows that it does not give
  size_t contradicted = 0;  // right rows of the region that it would have wrong

  friend auto operator<=>(const Score&, const Score&) = default;
};

struct Fitting {
  const Hypothesis* hypothesis;
  Score score;
  size_t place = 0;
};

// The causes found, one a class, best first.
class Causes {
 public:
  explicit Causes(CausesWanted wanted) : wanted_(wanted) {}

  bool wants_more() const { return wanted_ == CausesWanted::kEvery || found_.empty(); }
  bool empty() const { return found_.empty(); }
  void Add(const Explanation& cause) {
    const bool is_new = std::ranges::none_of(
        found_, [&](const OtherCause& one) { return one.cause_class == cause.cause_class; });
    if (is_new && !cause.phrase.empty()) found_.push_back({cause.cause_class, cause.phrase});
  }
  void Add(const std::vector<Explanation>& causes) {
    for (const Explanation& cause : causes) Add(cause);
  }
  std::string first_class() const { return empty() ? "" : found_.front().cause_class; }
  // Puts the cause, which may be among them, before all others.
  void Lead(const Explanation& cause) {
    std::erase_if(found_,
                  [&](const OtherCause& one) { return one.cause_class == cause.cause_class; });
    if (!cause.phrase.empty()) found_.insert(found_.begin(), {cause.cause_class, cause.phrase});
  }
  Explanation Take(const std::string& reach) {
    if (found_.empty()) return {};
    for (OtherCause& one : found_) one.phrase += reach.empty() ? "" : "; " + reach;
    return {found_.front().cause_class, found_.front().phrase, {found_.begin() + 1, found_.end()}};
  }

 private:
  const CausesWanted wanted_;
  std::vector<OtherCause> found_;
};

class Explainer {
 public:
  // Weights may come by a path of their own: they are looked at where they alone are wrong.
  Explainer(const Mismatch& mismatch, const Row& witness, std::string_view output,
            CausesWanted wanted)
      : m_(mismatch),
        scene_(mismatch, output == kOutputs[2].name &&
                             OutputHolds(mismatch, witness, kOutputs[0]) &&
                             OutputHolds(mismatch, witness, kOutputs[1])),
        witness_(witness),
        output_(output),
        wanted_(wanted),
        causes_(wanted) {}

  Explanation Run() {
    survey_ = TakeSurvey(m_);
    // Where the truth fits too the fault shows elsewhere, and every hypothesis would be idle.
    if (std::find(survey_.wrong.begin(), survey_.wrong.end(), witness_) == survey_.wrong.end()) {
      return {};
    }
    ChooseRows();
    value_range_ = RangeOf(m_.inputs.v);
    AreScoresAloneWrong() ? OfScores() : OfTheRow();
    if (!IsOfRoundings(causes_.first_class()) && ErrorsAreOfRoundings()) {
      if (const Explanation numerics = ByNumerics(); !numerics.phrase.empty())
        causes_.Lead(numerics);
    }
    return causes_.Take(survey_.reach);
  }

 private:
  // Scores come by a path of their own, and no rule of rows says anything of them.
  bool AreScoresAloneWrong() const {
    return std::all_of(kOutputs.begin(), kOutputs.end(), [&](const Output& output) {
      return (output.name == "scores") != OutputHolds(m_, witness_, output);
    });
  }

  void OfScores() {
    causes_.Add(ScoresFaults(m_, some_wrong_, some_right_, wanted_));
    if (causes_.wants_more()) causes_.Add(ByNumerics());
  }

  // Arithmetic, which explains much, comes after every rule that gives half of the wrong rows.
  void OfTheRow() {
    causes_.Add(StrongSymptoms(scene_, survey_, witness_, output_, wanted_));
    if (causes_.wants_more() && !IsWrongAndANumber()) {
      causes_.Add(LooseLeak(scene_, survey_, witness_));
    }
    if (causes_.wants_more()) {
      causes_.Add(FeatureFaults(m_, some_wrong_, some_right_, wanted_));
    }
    std::vector<Fitting> fitting;
    HypothesisBank bank(scene_, witness_), single_keys(scene_, witness_);
    if (causes_.wants_more()) {
      fitting = FittingRules(bank);
      if (GivesAll(fitting)) AddRules(fitting);
    }
    if (causes_.wants_more()) causes_.Add(MisreadFaults(m_, some_wrong_, some_right_, wanted_));
    if (causes_.wants_more() && !GivesAll(fitting)) {
      AddSingleKeys(single_keys, fitting);
      if (!LeavesMostOver(fitting)) AddRules(fitting);
    }
    if (causes_.wants_more()) causes_.Add(ByNumerics());
    if (causes_.empty()) causes_.Add(Phrase(fitting));
    if (causes_.wants_more()) causes_.Add(WeakSymptom(scene_, survey_, witness_, output_));
    if (wanted_ == CausesWanted::kEvery && !causes_.empty()) {
      causes_.Add(PossibleSymptoms(scene_, survey_, witness_, output_));
    }
  }

  // The best of the rules, with its equals; and by class those that give every wrong row too.
  void AddRules(const std::vector<Fitting>& fitting) {
    causes_.Add(Phrase(fitting));
    if (wanted_ == CausesWanted::kBest) return;
    for (const Fitting& fit : fitting) {
      if (fit.score.unexplained > 0) continue;
      causes_.Add({std::string(fit.hypothesis->cause_class), "as if " + fit.hypothesis->phrase});
    }
  }

  // Whether the class says itself what is rounded or computed coarsely.
  static bool IsOfRoundings(std::string_view cause_class) {
    constexpr std::string_view kOfRoundings[] = {"numerics",    "scale",           "input-rounded",
                                                 "lse-rounded", "output-rounding", "keys-centred",
                                                 "nan-lost"};
    return std::ranges::find(kOfRoundings, cause_class) != std::end(kOfRoundings);
  }

  // Whether all errors are as small as those of the arithmetic that kernels of the type may well have, and in few rows:
  // nearly any rule has some row of so small an effect, and which one is chance.
  bool ErrorsAreOfRoundings() const {
    const DType dtype = m_.problem.dtype;
    const FormatTraits traits = TraitsOf(dtype);
    const double of_size = dtype == DType::kF64 ? 0x1p-20 : dtype == DType::kF32 ? 0x1p-9 : 0x1p-5;
    constexpr double kLostAddends = 16;  // where what is below the least normal number is lost
    const auto are_small = [&](const Row& row) {
      return std::ranges::all_of(kOutputs, [&](const Output& output) {
        const Array& observed = m_.outcome.*output.observed;
        const Array& due = m_.reference.*output.expected;
        for (int64_t lane = 0; !observed.empty() && lane < observed.shape[3]; ++lane) {
          const auto at = static_cast<size_t>(lane);
          double size = 1;
          if (output.name == "out")
            size = std::max(value_range_, kLostAddends * traits.min_normal / of_size);
          if (output.name == "lse") size = std::max(1.0, std::abs(At(due, row, at)));
          if (SameBits(At(observed, row, at), At(due, row, at))) continue;
          const double error = std::abs(At(observed, row, at) - At(due, row, at));
          if (!(error <= of_size * size)) return false;
        }
        return true;
      });
    };
    return survey_.wrong.size() < kRowsOfARule && std::ranges::all_of(survey_.wrong, are_small);
  }

  // Whether the best rule gives every row that it was tried on.
  static bool GivesAll(const std::vector<Fitting>& fitting) {
    return !fitting.empty() && fitting.front().score == Score{};
  }

  // Whether the best rule gives fewer than half of the wrong rows that it was tried on.
  bool LeavesMostOver(const std::vector<Fitting>& fitting) const {
    return !fitting.empty() && 2 * fitting.front().score.unexplained > some_wrong_.size();
  }

  void ChooseRows() {
    const Problem& p = m_.problem;
    const int64_t cost = (p.kv_len + 1) * (p.head_dim + p.value_dim + 8);
    const int64_t most = std::clamp(kBudget / 8 / cost, kRowsTriedAtLeast, kRowsTried);
    std::vector<Row> inside;
    std::copy_if(survey_.right.begin(), survey_.right.end(), std::back_inserter(inside),
                 survey_.region.contains);
    some_wrong_ = Spread(survey_.wrong, most);
    some_right_ = Spread(inside, most);
  }

  // The faulty rules that fit, best first; the hypotheses lie in the bank.
  std::vector<Fitting> FittingRules(HypothesisBank& bank) {
    true_rule_ = scene_.TrueRule(witness_);
    AddRoundedLse(bank);
    AddFiniteFills(/*outweighing=*/true, bank);
    AddVisibilityFaults(bank);
    AddFiniteFills(/*outweighing=*/false, bank);
    AddSourceFaults(bank);
    AddSoftmaxFaults(bank);
    AddTileFaults(bank);
    return FittingOf(bank);
  }

  // One key is a cause of its own only where nothing says more.
  void AddSingleKeys(HypothesisBank& single_keys, std::vector<Fitting>& fitting) {
    if (!fitting.empty() && fitting.front().score.unexplained == 0) return;
    AddSingleKeyFaults(single_keys);
    const std::vector<Fitting> more = FittingOf(single_keys);
    fitting.insert(fitting.end(), more.begin(), more.end());
    SortByScore(fitting);
  }

  // Equals stay in the order of the bank. (std::stable_sort is deprecated inside, says clang of g++'s.)
  static void SortByScore(std::vector<Fitting>& fitting) {
    size_t place = 0;
    for (Fitting& fit : fitting) fit.place = place++;
    std::sort(fitting.begin(), fitting.end(), [](const Fitting& a, const Fitting& b) {
      return std::tie(a.score, a.place) < std::tie(b.score, b.place);
    });
  }

  // What fits the witness's row, best first.
  std::vector<Fitting> FittingOf(const HypothesisBank& bank) {
    std::vector<Fitting> fitting;
    for (const Hypothesis& hypothesis : bank.all()) {
      if (spent_ > kBudget) break;
      const auto rule = hypothesis.rule(witness_);
      if (rule && !LeavesNothing(*rule) && FitsWitness(*rule)) fitting.push_back({&hypothesis, {}});
    }
    for (Fitting& fit : fitting) fit.score = ScoreOf(*fit.hypothesis);
    std::erase_if(fitting, [&](const Fitting& fit) { return !IsBetterThanTruth(fit.score); });
    SortByScore(fitting);
    return fitting;
  }

  // Whether the rule would have the row see no key, beside a softcap, sink or dropout: any rule that hides can do that
  // there, and that the row looks empty says as much.
  bool LeavesNothing(const RowRule& rule) const {
    return !HasPlainSoftmax(m_.problem) && rule.terms.empty() && !true_rule_.terms.empty();
  }

  // The truth explains no wrong row and contradicts no right one. A right row that a rule would have wrong speaks louder
  // against it than a wrong row that it gives speaks for it: in few rows many rules do.
  bool IsBetterThanTruth(const Score& score) const {
    return some_wrong_.size() - score.unexplained >= kRowsForOneAgainst * score.contradicted;
  }

  bool FitsWitness(const RowRule& rule) {
    if (rule == true_rule_) return false;
    const auto known = std::find_if(tried_.begin(), tried_.end(),
                                    [&](const auto& entry) { return entry.first == rule; });
    if (known != tried_.end()) return known->second;
    // Where any lse will do, out has to be the evidence.
    const bool is_evidence =
        rule.lse_part != LsePart::kFree || !OutputHolds(m_, witness_, kOutputs[0]);
    const bool fits = is_evidence && Fits(rule, witness_) && DiffersFromTruth(rule);
    // 512: beyond that keeping rules costs more than trying them again.
    if (rule.terms.size() <= 512) tried_.emplace_back(rule, fits);
    return fits;
  }

  // Not where the rule's bound is so wide that the truth lies in it too: what fits it then fits by chance.
  bool DiffersFromTruth(const RowRule& rule) const {
    const RowAnswer answer = ComputedRule(scene_.context(), rule).Answer(Precision::kWorst);
    return RatioOf(answer, witness_, m_.reference.out, m_.reference.lse, m_.reference.weights) > 1;
  }

  // Whether something of the witness's row is wrong and not NaN.
  bool IsWrongAndANumber() const {
    return std::any_of(kOutputs.begin(), kOutputs.end(), [&](const Output& output) {
      return !OutputHolds(m_, witness_, output, [](double value) { return !std::isnan(value); });
    });
  }

  // Whether the kernel's row lies within the bound of a kernel that follows the rule.
  bool Fits(const RowRule& rule, const Row& row) {
    // Parts of a sum tell nothing of one that has a sink in it.
    const bool is_in_parts = !rule.is_divided || rule.lse_part == LsePart::kMax;
    if (is_in_parts && m_.problem.sinks) return false;
    if (IsFarOff(rule, row)) return false;
    spent_ += CostOf(scene_.context(), rule);
    const ComputedRule computed(scene_.context(), rule);
    return Ratio(computed.Answer(Precision::kCheap), row) <= 1 &&
           Ratio(computed.Answer(Precision::kWorst), row) <= 1;
  }

  // Whether the row is further from what the rule makes of it than any bound that would be evidence:
  // one beyond a tenth of V's range is not (kUninformative), nor is one beyond a tenth of the lse or
  // of the sum that it is the logarithm of, nor one of another order than the truth's own. Spares
  // computing the bound; a rule passed over for it costs a sentence and never a verdict.
  bool IsFarOff(const RowRule& rule, const Row& row) {
    spent_ += static_cast<int64_t>(rule.terms.size());
    if (rule.terms.empty()) return false;
    const PlainRow plain(scene_.context(), rule);
    const RowNumbers& truth = m_.bound.WorstOf(row);
    const double more_keys = static_cast<double>(rule.terms.size()) /
                             static_cast<double>(std::max<size_t>(1, CountTerms(row)));
    // Empty rows have no bound to compare with; rows whose own values are 0, or all of one key, have next to none.
    const auto far = [&](double bound, double size) {
      return bound > 0 ? kOtherOrder * (1 + more_keys) * std::max(bound, Roundoff() * size) : kInf;
    };
    if (!m_.outcome.lse.empty() && rule.lse_part != LsePart::kFree) {
      const double error = std::abs(plain.lse() - At(m_.outcome.lse, row, 0));
      const double size = std::max(1.0, std::abs(plain.lse()));
      if (error > std::min(0.1 * size, size * far(truth.lse, 1))) return true;
    }
    const double stretch = std::max(1.0, plain.stretch());
    for (size_t d = 0; d < truth.out.size(); ++d) {
      spent_ += static_cast<int64_t>(rule.terms.size());
      const double error =
          std::abs(plain.Out(static_cast<int64_t>(d)) - At(m_.outcome.out, row, d));
      if (error > stretch * std::min(0.1 * value_range_, far(truth.out[d], value_range_)))
        return true;
    }
    return false;
  }

  // The largest of the call's arithmetic.
  double Roundoff() const {
    const DType dtype = m_.problem.dtype;
    return std::max(TraitsOf(dtype).unit_roundoff,
                    AccumulationRoundoff(m_.contract.NumericsOf(dtype)));
  }

  // Of the truth.
  size_t CountTerms(const Row& row) const {
    return row == witness_ ? true_rule_.terms.size() : scene_.TrueRule(row).terms.size();
  }

  // The largest error of the row in units of the answer's bound; infinite where it is no evidence.
  double Ratio(const RowAnswer& answer, const Row& row) const {
    return RatioOf(answer, row, m_.outcome.out, m_.outcome.lse, m_.outcome.weights);
  }

  // Likewise of the values given, as far as the kernel gave such.
  double RatioOf(const RowAnswer& answer, const Row& row, const Array& out, const Array& lse,
                 const Array& weights) const {
    if (!answer.is_evidence) return kInf;
    double worst = 0;
    const auto see = [&](const Array& given, const Array& observed,
                         const std::vector<double>& expected, const std::vector<double>& bound) {
      for (size_t d = 0; d < expected.size() && !given.empty(); ++d) {
        worst = std::max(worst, attest::Ratio(At(observed, row, d), expected[d], bound[d]));
      }
    };
    see(m_.outcome.out, out, answer.out, answer.out_bound);
    see(m_.outcome.lse, lse, {answer.lse}, {answer.lse_bound});
    see(m_.outcome.weights, weights, answer.weights, answer.weights_bound);
    return worst;
  }

  Score ScoreOf(const Hypothesis& hypothesis) {
    Score score;
    for (const Row& row : some_wrong_) {
      const auto rule = hypothesis.rule(row);
      if (!rule || !Fits(*rule, row)) ++score.unexplained;
    }
    for (const Row& row : some_right_) {
      const auto rule = hypothesis.rule(row);
      if (!rule || *rule == scene_.TrueRule(row) || Fits(*rule, row)) continue;
      ++score.contradicted;
    }
    return score;
  }

  static Explanation Phrase(const std::vector<Fitting>& fitting) {
    if (fitting.empty()) return {};
    Explanation found{std::string(fitting.front().hypothesis->cause_class), {}};
    std::set<std::string> named;
    for (const Fitting& fit : fitting) {
      if (fit.score != fitting.front().score || named.size() == kNamedTogether) break;
      const bool is_first = named.empty();
      if (!named.insert(EssenceOf(fit.hypothesis->phrase)).second) continue;
      found.phrase += (is_first ? "as if " : ", or ") + fit.hypothesis->phrase;
    }
    const Score& score = fitting.front().score;
    if (score.contradicted > 0) {
      found.phrase += fmt::format(", but by that {} right row{} would be wrong", score.contradicted,
                                  score.contradicted == 1 ? "" : "s");
    }
    return found;
  }

  Explanation ByNumerics() const {
    std::vector<Row> wrong = Spread(survey_.wrong, kRowsWidened);
    wrong.insert(wrong.begin(), witness_);
    const std::string json = CoveringNumerics(m_, survey_, wrong);
    if (json.empty()) return {};
    return {std::string(kNumerics), CoveringPhrase(json)};
  }

  const Mismatch& m_;
  const Scene scene_;
  const Row witness_;
  const std::string_view output_;  // in which it shows
  const CausesWanted wanted_;
  Causes causes_;
  Survey survey_;
  std::vector<Row> some_wrong_, some_right_;  // to try hypotheses on; the right ones of the region
  double value_range_ = 0;                    // of V, or the largest |v| where all are alike
  RowRule true_rule_;
  std::vector<std::pair<RowRule, bool>> tried_;  // on the witness's row
  int64_t spent_ = 0;
};

}  // namespace

bool HasPlainSoftmax(const Problem& p) {
  return p.softcap == 0 && !p.sinks && !p.dropout;
}

Explanation ExplainMismatch(const Mismatch& mismatch, const Row& witness, std::string_view output,
                            CausesWanted wanted) {
  return Explainer(mismatch, witness, output, wanted).Run();
}

}  // namespace attest
