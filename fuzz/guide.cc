#include "fuzz/guide.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unordered_set>

#include "fuzz/kernels.h"
#include "fuzz/status.h"
#include "impl/attention/visibility.h"
#include "properties/harness/case/bins.h"

namespace attest {
namespace {

// Some hundred bins; in 2048 counters few of them collide.
constexpr size_t kBinCounters = 2048;
// libFuzzer tells eight sizes of a counter apart.
constexpr std::array<uint8_t, 8> kSizes = {1, 2, 3, 4, 8, 16, 32, 128};
constexpr int kMaxLevel = 24;
constexpr size_t kCountersAnOutput = kMaxLevel / kSizes.size() + 1;
constexpr size_t kDTypes = 4;
constexpr size_t kErrorCounters = 2 * kDTypes * kCountersAnOutput;

// Read and cleared by libFuzzer at each input. `used`, or a compiler that only sees writes drops it.
[[gnu::used,
  gnu::section("__libfuzzer_extra_counters")]] std::array<uint8_t, kBinCounters + kErrorCounters>
    counters;

void CountError(size_t output, DType dtype, double ratio) {
  const int level = ErrorLevel(ratio);
  if (level == 0) return;
  const auto place = static_cast<size_t>(level - 1);
  const size_t group =
      (output * kDTypes + static_cast<size_t>(dtype) % kDTypes) * kCountersAnOutput;
  uint8_t& counter = counters[kBinCounters + group + place / kSizes.size()];
  counter = std::max(counter, kSizes[place % kSizes.size()]);
}

// The largest errors over their bounds in one row; what has no bound counts nothing.
struct RowRatios {
  double out = 0, lse = 0;

  static void Raise(double& ratio, double observed, double expected, double bound) {
    const double error = std::abs(observed - expected);
    if (bound > 0 && std::isfinite(bound) && std::isfinite(error)) {
      ratio = std::max(ratio, error / bound);
    }
  }
};

// Whether the row can raise a ratio: none is larger than that of its error and the floor of its bound,
// which is quickly had.
bool MayRaise(const Evidence& evidence, const Row& row, const RowRatios& ratios) {
  const Outcome& outcome = evidence.outcomes[0];
  const Reference& reference = evidence.oracle.ReferenceOf(0);
  const RowFloor floor = evidence.oracle.BoundOf(0).FloorOf(row);
  const auto error = [&](const Array& observed, const Array& expected, int64_t d) {
    const size_t at = observed.Index(row.batch, row.head, row.query, d);
    return std::abs(observed.values[at] - expected.values[at]);
  };
  for (int64_t d = 0; d < evidence.cases[0].problem.value_dim; ++d) {
    const double expected = reference.out.At(row.batch, row.head, row.query, d);
    if (error(outcome.out, reference.out, d) > ratios.out * floor.Out(expected)) return true;
  }
  return !outcome.lse.empty() && error(outcome.lse, reference.lse, 0) > ratios.lse * floor.lse;
}

void Raise(const Evidence& evidence, const Row& row, RowRatios& ratios) {
  const Outcome& outcome = evidence.outcomes[0];
  const Reference& reference = evidence.oracle.ReferenceOf(0);
  const RowNumbers& bound = evidence.oracle.BoundOf(0).WorstOf(row);
  for (int64_t d = 0; d < evidence.cases[0].problem.value_dim; ++d) {
    RowRatios::Raise(ratios.out, outcome.out.At(row.batch, row.head, row.query, d),
                     reference.out.At(row.batch, row.head, row.query, d),
                     bound.out[static_cast<size_t>(d)]);
  }
  if (outcome.lse.empty()) return;
  RowRatios::Raise(ratios.lse, outcome.lse.At(row.batch, row.head, row.query, 0),
                   reference.lse.At(row.batch, row.head, row.query, 0), bound.lse);
}

}  // namespace

Guidance GuidanceInForce() {
  static const Guidance kGuidance = [] {
    const char* text = std::getenv("ATTEST_FUZZ_GUIDE");
    const std::string_view word = text == nullptr ? "all" : text;
    if (word == "none") return Guidance::kNone;
    if (word == "bins") return Guidance::kBins;
    if (word == "all") return Guidance::kAll;
    GiveUp("ATTEST_FUZZ_GUIDE is neither none nor bins nor all");
  }();
  return kGuidance;
}

void GuideByBins(const Case& c) {
  static std::unordered_set<std::string> seen;
  const bool counts = GuidanceInForce() != Guidance::kNone;
  for (std::string& bin : BinsOf(c)) {
    if (counts) counters[std::hash<std::string>{}(bin) % kBinCounters] = 1;
    seen.insert(std::move(bin));
  }
  Figures().bins = static_cast<int64_t>(seen.size());
}

void GuideByError(const Evidence& evidence) {
  if (GuidanceInForce() != Guidance::kAll) return;
  constexpr int64_t kMostRows = 16;  // bounds cost more than the kernel
  const Case& c = evidence.cases[0];
  const Problem& p = c.problem;
  const int64_t rows = p.batch * p.q_heads * p.q_len;
  const int64_t step = std::max<int64_t>(1, rows / kMostRows);
  RowRatios ratios;
  int64_t number = 0;
  ForEachRow(p, [&](const Row& row) {
    if (number++ % step != 0 || IsPaddedQuery(p, row) || IsEmptyRow(p, row)) return;
    if (evidence.oracle.BoundOf(0).IsUnconstrained(row)) return;
    if (MayRaise(evidence, row, ratios)) Raise(evidence, row, ratios);
  });
  CountError(0, p.dtype, ratios.out);
  CountError(1, p.dtype, ratios.lse);
  Figures().worst_ratio = std::max(Figures().worst_ratio, ratios.out);
  Figures().worst_lse_ratio = std::max(Figures().worst_lse_ratio, ratios.lse);
}

int ErrorLevel(double ratio) {
  if (!(ratio > 0)) return 0;
  return static_cast<int>(std::clamp(std::floor(2 * std::log2(ratio)) + kMaxLevel, 0.0,
                                     static_cast<double>(kMaxLevel)));
}

}  // namespace attest
