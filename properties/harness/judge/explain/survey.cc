#include "properties/harness/judge/explain/survey.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/outputs.h"
#include "properties/harness/judge/tally.h"

namespace attest {
namespace {

bool HoldsConstant(const Array& observed, const Row& row, std::optional<double> promised) {
  if (!promised || observed.empty()) return true;
  for (int64_t lane = 0; lane < observed.shape[3]; ++lane) {
    if (!SameBits(observed.At(row.batch, row.head, row.query, lane), *promised)) return false;
  }
  return true;
}

bool EmptyRowHolds(const Mismatch& m, const Row& row) {
  const Semantics& s = m.contract.semantics;
  return HoldsConstant(m.outcome.out, row, PromisedOut(s.empty_row)) &&
         HoldsConstant(m.outcome.lse, row, PromisedLse(s.lse_empty_row));
}

bool ExpectsNan(const Mismatch& m, const Row& row) {
  if (std::isnan(m.reference.lse.At(row.batch, row.head, row.query, 0))) return true;
  for (int64_t d = 0; d < m.problem.value_dim; ++d) {
    if (std::isnan(m.reference.out.At(row.batch, row.head, row.query, d))) return true;
  }
  return false;
}

void Add(std::vector<Region>& all, std::string phrase, std::function<bool(const Row&)> contains) {
  all.push_back({std::move(phrase), std::move(contains)});
}

// Regions that kernels have code paths for.
std::vector<Region> Paths(const Problem& p) {
  std::vector<Region> all;
  const int64_t group = p.heads_per_kv_head();
  Add(all, "in batch items above 0", [](const Row& r) { return r.batch > 0; });
  Add(all, "in heads of kv heads above 0", [group](const Row& r) { return r.head >= group; });
  Add(all, "in heads above 0", [](const Row& r) { return r.head > 0; });
  for (int64_t tile = 2; tile <= 128 && tile < p.q_len; tile *= 2) {
    if (p.q_len % tile == 0) continue;
    Add(all, fmt::format("in the last {} query rows, a partial tile of {}", p.q_len % tile, tile),
        [first = p.q_len / tile * tile](const Row& r) { return r.query >= first; });
  }
  return all;
}

// Places, of which `row` is one.
std::vector<Region> PlacesOf(const Row& row) {
  std::vector<Region> all;
  Add(all, fmt::format("in batch item {}", row.batch),
      [b = row.batch](const Row& r) { return r.batch == b; });
  Add(all, fmt::format("in head {}", row.head),
      [h = row.head](const Row& r) { return r.head == h; });
  Add(all, fmt::format("in query row {}", row.query),
      [i = row.query](const Row& r) { return r.query == i; });
  return all;
}

size_t CountRight(const Survey& survey, const Region& region) {
  return static_cast<size_t>(
      std::count_if(survey.right.begin(), survey.right.end(), region.contains));
}

// The candidate with the fewest right rows that holds all wrong ones; `best` if none has fewer.
Region Smallest(const Survey& survey, Region best, std::vector<Region> candidates) {
  size_t fewest = CountRight(survey, best);
  for (Region& region : candidates) {
    if (!std::all_of(survey.wrong.begin(), survey.wrong.end(), region.contains)) continue;
    const size_t right = CountRight(survey, region);
    if (right >= fewest) continue;
    fewest = right;
    best = std::move(region);
  }
  return best;
}

std::string DescribeReach(const Survey& survey) {
  if (survey.wrong.empty()) return {};
  if (survey.right.empty()) return survey.wrong.size() == 1 ? "" : "in every row";
  const Region place = Smallest(survey, survey.region, PlacesOf(survey.wrong.front()));
  const size_t right = CountRight(survey, place);
  // "in query row 0" is of all heads and items.
  if (right == 0) {
    return (place.phrase.starts_with("in query row") ? "in every head " : "in every row ") +
           place.phrase;
  }
  const std::string count =
      fmt::format("in {} of {} rows", survey.wrong.size(), survey.wrong.size() + right);
  return place.phrase.empty() ? count : count + " " + place.phrase;
}

}  // namespace

double WorstRatio(const Mismatch& m, const Row& row, const RowNumbers& numbers) {
  double worst = 0;
  for (const Output& output : kOutputs) {
    const Array& observed = m.outcome.*output.observed;
    if (observed.empty()) continue;
    const Array& expected = m.reference.*output.expected;
    for (int64_t lane = 0; lane < observed.shape[3]; ++lane) {
      const size_t at = expected.Index(row.batch, row.head, row.query, lane);
      worst = std::max(
          worst, Ratio(observed.values[at], expected.values[at], output.number(numbers, lane)));
    }
  }
  return worst;
}

bool RowIsJudged(const Mismatch& m, const Row& row) {
  if (IsPaddedQuery(m.problem, row)) return false;  // a claim of its own
  if (m.bound.IsUnconstrained(row)) return false;
  return IsEmptyRow(m.problem, row) || m.contract.visible_nan_propagates || !ExpectsNan(m, row);
}

bool RowHolds(const Mismatch& m, const Row& row, ErrorBound& bound) {
  if (!RowIsJudged(m, row)) return true;
  if (IsEmptyRow(m.problem, row)) return EmptyRowHolds(m, row);
  if (IsSettledRow(m.outcome, m.reference, bound, row)) return true;
  return WorstRatio(m, row, bound.WorstOf(row)) <= 1;
}

Survey TakeSurvey(const Mismatch& m) {
  Survey survey;
  ForEachRow(m.problem, [&](const Row& row) {
    if (!RowIsJudged(m, row)) return;
    (RowHolds(m, row, m.bound) ? survey.right : survey.wrong).push_back(row);
  });
  survey.region = Region{"", [](const Row&) { return true; }};
  survey.region = Smallest(survey, survey.region, Paths(m.problem));
  survey.reach = DescribeReach(survey);
  return survey;
}

}  // namespace attest
