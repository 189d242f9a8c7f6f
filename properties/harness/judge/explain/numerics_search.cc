#include "properties/harness/judge/explain/numerics_search.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "impl/attention/contract_json.h"
#include "properties/harness/judge/explain/survey.h"
#include "properties/harness/judge/outputs.h"

namespace attest {
namespace {

constexpr std::string_view kBeforeDeclaration = "outside the declared numerics; \"numerics\": ";
constexpr std::string_view kBehindDeclaration = " would cover it";

// Errors up to so many times the declared bound may show in few rows; larger ones show in many.
constexpr double kFewTimes = 4;
constexpr size_t kManyRowsOneIn = 8;
// Wrong rows from which their place, and the direction of their errors, are evidence: six rows lie in
// one half of the tensor by chance once in 32 times, eight lean to one side once in 128.
constexpr size_t kRowsOfAPlace = 6, kRowsOfASide = 8;

// Wrong rows from which two changes are evidence: one row or two are covered by nearly any two.
constexpr size_t kRowsOfTwo = 3;

struct Widening {
  std::string key;  // of `numerics`
  std::string value;
  std::function<void(NumericsProfile&)> change;
  bool leans = false;  // its errors go to one side
};

// Ordered by how much they give away.
std::vector<Widening> Widenings(const NumericsProfile& declared, DType dtype) {
  std::vector<Widening> all;
  const auto add = [&](std::string key, std::string value,
                       std::function<void(NumericsProfile&)> change, bool leans = false) {
    NumericsProfile wider = declared;
    change(wider);
    if (wider == declared) return;
    all.push_back({std::move(key), std::move(value), std::move(change), leans});
  };
  using P = NumericsProfile;
  const auto type = [&](std::string key, DType P::*field, DType to) {
    if (TraitsOf(to).unit_roundoff <= TraitsOf(declared.*field).unit_roundoff) return;
    add(std::move(key), fmt::format("\"{}\"", Name(to)),
        [field, to](P& profile) { profile.*field = to; });
  };
  const auto exp_ulp = [&](double ulp) {
    add("exp_ulp", fmt::format("{}", ulp),
        [ulp](P& profile) { profile.exp_ulp = std::max(profile.exp_ulp, ulp); });
  };
  constexpr bool kLeans = true;
  add(
      "flush_to_zero", "true", [](P& profile) { profile.flush_to_zero = true; }, kLeans);
  exp_ulp(16);
  add("lse_of_rounded_weights", "true", [](P& profile) { profile.lse_of_rounded_weights = true; });
  add(
      "truncating_accumulators", "true", [](P& profile) { profile.truncating_accumulators = true; },
      kLeans);
  add(
      "output_rounding", "\"truncate\"",
      [](P& profile) { profile.output_rounding = OutputRounding::kTruncate; }, kLeans);
  exp_ulp(256);
  type("probability", &P::probability, DType::kF32);
  type("scores", &P::scores, DType::kF32);
  type("accumulate", &P::accumulate, DType::kF32);
  type("scores", &P::scores, DType::kF16);
  type("probability", &P::probability, DType::kF16);
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    add("scale_placement", "\"storage\"",
        [](P& profile) { profile.scale_placement = ScalePlacement::kStorage; });
  }
  exp_ulp(4096);
  type("scores", &P::scores, DType::kBF16);
  type("probability", &P::probability, DType::kBF16);
  type("accumulate", &P::accumulate, DType::kF16);
  type("accumulate", &P::accumulate, DType::kBF16);
  return all;
}

double LargestSize(const Array& array) {
  double largest = 0;
  for (const double x : array.values) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

class Search {
 public:
  Search(const Mismatch& mismatch, const Survey& survey, const std::vector<Row>& wrong)
      : m_(mismatch), survey_(survey), wrong_(wrong), dtype_(mismatch.problem.dtype) {}

  std::string Run() const {
    const std::vector<Widening> all = Widenings(m_.contract.NumericsOf(dtype_), dtype_);
    // Where all of them together do not cover the first row, no few of them will.
    std::vector<const Widening*> every;
    for (const Widening& one : all) every.push_back(&one);
    if (wrong_.empty() || !CoversRow(every, wrong_.front())) return {};
    if (!std::all_of(wrong_.begin(), wrong_.end(), [&](const Row& r) { return IsNear(r); })) {
      return {};
    }
    if (AreFew() || LieInOnePlace()) return {};
    const bool leans = LeanToOneSide();
    for (const Widening& one : all) {
      if (leans && !one.leans) continue;
      if (Covers({&one})) return Json({&one});
    }
    if (survey_.wrong.size() < kRowsOfTwo) return {};
    for (size_t n = 1; n < all.size(); ++n) {
      for (size_t i = 0; i < n; ++i) {
        if (all[i].key == all[n].key || (leans && !(all[i].leans && all[n].leans))) continue;
        if (Covers({&all[i], &all[n]})) return Json({&all[i], &all[n]});
      }
    }
    return {};
  }

 private:
  // Whether the row is near the truth, as the results of poor arithmetic are: within a tenth of the
  // largest |v|, of the sum of weights, of a weight of one. Beyond it a bound that covers the row
  // covers nearly anything. Where nothing is summed nothing cancels, and each value is near by itself
  // or lost.
  bool IsNear(const Row& row) const {
    const bool has_sums = HasSums(row);
    for (const Output& output : kOutputs) {
      const Array& observed = m_.outcome.*output.observed;
      if (observed.empty()) continue;
      double unit = 1;
      if (output.name == "out") unit = LargestSize(m_.inputs.v);
      for (int64_t lane = 0; lane < observed.shape[3]; ++lane) {
        const size_t at = observed.Index(row.batch, row.head, row.query, lane);
        const double expected = (m_.reference.*output.expected).values[at];
        const bool is_alone = output.name == "out" && !has_sums && observed.values[at] != 0;
        const double scale = output.name == "lse" ? std::max(1.0, std::abs(expected))
                             : is_alone           ? std::abs(expected)
                                                  : unit;
        if (!(std::abs(observed.values[at] - expected) <= 0.1 * scale)) return false;
      }
    }
    return true;
  }

  // Rows in which sums have something to round.
  bool HasSums(const Row& row) const { return CountVisibleKeys(m_.problem, row) > 1; }

  // Whether errors too large for it show in few of the rows that sum.
  bool AreFew() const {
    const auto sums = [&](const Row& row) { return HasSums(row); };
    const auto right = static_cast<size_t>(std::ranges::count_if(survey_.right, sums));
    const size_t all = survey_.wrong.size() + right;
    return survey_.wrong.size() * kManyRowsOneIn < all &&
           std::ranges::any_of(wrong_, [&](const Row& row) {
             return WorstRatio(m_, row, m_.bound.WorstOf(row)) > kFewTimes;
           });
  }

  // Whether the other parts of the tensor, of no fewer rows, are right.
  bool LieInOnePlace() const {
    if (survey_.wrong.size() < kRowsOfAPlace) return false;
    const auto elsewhere = std::ranges::count_if(survey_.right, [&](const Row& row) {
      return HasSums(row) && !survey_.region.contains(row);
    });
    return static_cast<size_t>(elsewhere) >= kRowsOfAPlace;
  }

  // 1 where the row's largest error of out is away from zero, -1 towards it, 0 without one.
  int SideOf(const Row& row) const {
    double largest = 0;
    int side = 0;
    for (int64_t d = 0; d < m_.problem.value_dim; ++d) {
      const double expected = m_.reference.out.At(row.batch, row.head, row.query, d);
      const double error = m_.outcome.out.At(row.batch, row.head, row.query, d) - expected;
      if (!(std::abs(error) > largest)) continue;
      largest = std::abs(error);
      side = (error > 0) == (expected > 0) ? 1 : -1;
    }
    return side;
  }

  bool LeanToOneSide() const {
    size_t away = 0, towards = 0;
    for (const Row& row : survey_.wrong) {
      const int side = SideOf(row);
      away += side > 0 ? 1 : 0;
      towards += side < 0 ? 1 : 0;
    }
    return std::max(away, towards) >= kRowsOfASide && std::min(away, towards) == 0;
  }

  Contract Widened(const std::vector<const Widening*>& changes) const {
    Contract wider = m_.contract;
    for (const Widening* change : changes) change->change(wider.numerics.at(dtype_));
    return wider;
  }

  bool CoversRow(const std::vector<const Widening*>& changes, const Row& row) const {
    const Contract wider = Widened(changes);
    ErrorBound bound(m_.problem, m_.inputs, m_.reference, wider);
    return RowHolds(m_, row, bound) && !bound.IsUnconstrained(row);
  }

  bool Covers(const std::vector<const Widening*>& changes) const {
    const Contract wider = Widened(changes);
    ErrorBound bound(m_.problem, m_.inputs, m_.reference, wider);
    return std::all_of(wrong_.begin(), wrong_.end(), [&](const Row& row) {
      return !IsEmptyRow(m_.problem, row) && RowHolds(m_, row, bound) &&
             bound.StateOf(row) == RowState::kInformative &&
             WorstRatio(m_, row, bound.ProbableOf(row)) <= 1;
    });
  }

  std::string Json(const std::vector<const Widening*>& changes) const {
    std::string keys;
    for (const Widening* change : changes) {
      if (!keys.empty()) keys += ", ";
      keys += fmt::format("\"{}\": {}", change->key, change->value);
    }
    return fmt::format("{{\"{}\": {{{}}}}}", Name(dtype_), keys);
  }

  const Mismatch& m_;
  const Survey& survey_;
  const std::vector<Row>& wrong_;
  const DType dtype_;
};

}  // namespace

std::string CoveringNumerics(const Mismatch& mismatch, const Survey& survey,
                             const std::vector<Row>& wrong) {
  return Search(mismatch, survey, wrong).Run();
}

std::string CoveringPhrase(const std::string& declaration) {
  return fmt::format("{}{}{}", kBeforeDeclaration, declaration, kBehindDeclaration);
}

std::optional<Contract> WidenedBy(const std::string& phrase, const Contract& contract) {
  if (!phrase.starts_with(kBeforeDeclaration) || !phrase.ends_with(kBehindDeclaration)) {
    return std::nullopt;
  }
  const size_t length = phrase.size() - kBeforeDeclaration.size() - kBehindDeclaration.size();
  auto json = nlohmann::json::parse(ContractJson(contract));
  json["numerics"].merge_patch(
      nlohmann::json::parse(phrase.substr(kBeforeDeclaration.size(), length)));
  auto widened = ParseContract(json.dump());
  if (!widened) return std::nullopt;
  return *std::move(widened);
}

}  // namespace attest
