#include "properties/hidden_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/judge/compare.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Keys of one (batch item, kv head).
struct HiddenKeys {
  int64_t batch = 0;
  int64_t kv_head = 0;
  std::vector<int64_t> keys;
};

// The keys that `reasons` hide from the first row, from a drawn one on, that has any.
HiddenKeys FindHiddenKeys(const Case& c, unsigned reasons) {
  const Problem& p = c.problem;
  std::vector<Row> rows;
  ForEachRow(p, [&](const Row& row) { rows.push_back(row); });
  if (rows.empty()) return {};
  const auto start =
      static_cast<size_t>(DrawFor(c, 0x41D).Below(static_cast<int64_t>(rows.size())));
  for (size_t n = 0; n < rows.size(); ++n) {
    const Row& row = rows[(start + n) % rows.size()];
    HiddenKeys hidden{row.batch, row.head / p.heads_per_kv_head(), {}};
    for (int64_t j = 0; j < p.kv_len; ++j) {
      if (WhyHidden(p, row, j) & reasons) hidden.keys.push_back(j);
    }
    if (!hidden.keys.empty()) return hidden;
  }
  return {};
}

// Whether the scores asked for are those of hidden keys too.
bool ShowsHiddenKeys(const Problem& p) {
  return p.want_scores == ScoreMode::kRaw || p.want_scores == ScoreMode::kCapped;
}

template <typename Value>
Case WithChanged(const Case& c, DataTensor tensor, const HiddenKeys& hidden, Value&& value) {
  Array array = c.literals.at(tensor);
  for (const int64_t j : hidden.keys) {
    for (int64_t d = 0; d < array.shape[3]; ++d) {
      array.At(hidden.batch, hidden.kv_head, j, d) = value();
    }
  }
  return WithData(c, tensor, std::move(array));
}

// A key element so large that the score is nearly out of range, and no larger: |scale| sum |q| |k|
// and its unscaled form stay below a quarter of the smaller of the dtype's and f32's range.
double LargeKey(const Case& c) {
  double largest_q = 1;
  for (const double q : c.literals.at(DataTensor::kQ).values) {
    if (std::isfinite(q)) largest_q = std::max(largest_q, std::abs(q));
  }
  const double range =
      std::min(TraitsOf(c.problem.dtype).max_finite, TraitsOf(DType::kF32).max_finite);
  const double dim = std::max<double>(1, static_cast<double>(c.problem.head_dim));
  return range / (8 * dim * largest_q * std::max(1.0, std::abs(c.problem.EffectiveScale())));
}

double LargeValue(const Case& c) {
  return std::min(TraitsOf(c.problem.dtype).max_finite, TraitsOf(DType::kF32).max_finite) / 8;
}

std::vector<Case> FiniteChanges(const Case& c, const HiddenKeys& hidden) {
  Draw draw = DrawFor(c, 0xF17);
  const auto small = [&] { return static_cast<double>(draw.Between(-32, 32)) / 8; };
  const Case keys_redrawn = WithChanged(c, DataTensor::kK, hidden, small);
  const Case keys_large = WithChanged(c, DataTensor::kK, hidden, [&] { return LargeKey(c); });
  return {WithChanged(keys_redrawn, DataTensor::kV, hidden, small),
          WithChanged(keys_large, DataTensor::kV, hidden, [&] { return LargeValue(c); })};
}

// Where two cases' K or V differ: (batch, kv head, key).
using KeySet = std::set<std::tuple<int64_t, int64_t, int64_t>>;

void AddDifferences(const Array& a, const Array& b, KeySet& changed) {
  for (int64_t i = 0; i < a.shape[0]; ++i)
    for (int64_t h = 0; h < a.shape[1]; ++h)
      for (int64_t j = 0; j < a.shape[2]; ++j)
        for (int64_t d = 0; d < a.shape[3]; ++d) {
          if (!SameBits(a.At(i, h, j, d), b.At(i, h, j, d))) changed.insert({i, h, j});
        }
}

bool SeesAny(const Problem& p, const Row& row, const KeySet& keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const auto& key) {
    const auto& [b, kv_head, j] = key;
    return b == row.batch && kv_head == row.head / p.heads_per_kv_head() && Visible(p, row, j);
  });
}

std::string_view WordFor(const Inputs& changed) {
  const auto finite = [](const Array& a) {
    return std::all_of(a.values.begin(), a.values.end(), [](double x) { return std::isfinite(x); });
  };
  if (!finite(changed.k)) return "a non-finite value in a hidden key came through";
  if (!finite(changed.v)) return "a non-finite value in a hidden value row came through";
  return "a hidden key or value takes part in the result";
}

}  // namespace

Derived DeriveHiddenChange(const Case& original, unsigned reasons, Change change) {
  const HiddenKeys hidden = FindHiddenKeys(original, reasons);
  if (hidden.keys.empty()) return NotApplicable("nothing is hidden in this way");
  Case c = AsLiteral(original);
  if (ShowsHiddenKeys(c.problem)) c = WithoutScoresOutput(std::move(c));
  std::vector<Case> cases = {c};
  if (change == Change::kFinite) {
    for (Case& changed : FiniteChanges(c, hidden)) cases.push_back(std::move(changed));
    return Of(std::move(cases));
  }
  const DataTensor tensor = change == Change::kPoisonKeys ? DataTensor::kK : DataTensor::kV;
  for (const double poison : {kNaN, kInf, -kInf}) {
    cases.push_back(WithChanged(c, tensor, hidden, [&] { return poison; }));
  }
  return Of(std::move(cases));
}

Verdict JudgeHiddenChange(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  Verdict verdict;
  for (size_t i = 1; i < evidence.cases.size(); ++i) {
    const Inputs& before = evidence.oracle.InputsOf(0);
    const Inputs& after = evidence.oracle.InputsOf(i);
    KeySet changed;
    AddDifferences(before.k, after.k, changed);
    AddDifferences(before.v, after.v, changed);
    RelationOptions options;
    options.exact = evidence.contract.Promises(Invariance::kHiddenValues);
    options.rows = [&](const Row& row) { return !SeesAny(p, row, changed); };
    verdict = Worst(verdict, SameResult(evidence, 0, i, WordFor(after), options));
  }
  return verdict;
}

}  // namespace attest
