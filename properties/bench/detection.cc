// Detection: what the oracle and the rules of other suites find of each seeded fault, in the cases in
// which it changes any bit of out. All tiers on every row.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "properties/bench/fault_table.h"
#include "properties/bench/judging.h"
#include "properties/bench/oracle_tables.h"

namespace attest {
namespace {

constexpr int64_t kRowsOfCase = 6;
constexpr size_t kTypes = kFloatTypes.size();

// Cases of one fault and dtype.
struct Tally {
  int64_t changed = 0, worst = 0, lse = 0, probable = 0, rms = 0, fail = 0, any = 0;
  int64_t ruled = 0, allclose = 0, twice = 0, twice_plus = 0, nmse = 0;

  void Add(const Rejections& r) {
    ++changed;
    worst += r.fail;
    lse += r.fail_lse;
    probable += r.probable;
    rms += r.rms;
    fail += r.fail || r.fail_lse;
    any += r.fail || r.fail_lse || r.probable || r.rms;
    if (!r.is_constrained) return;
    ++ruled;
    allclose += r.allclose;
    twice += r.twice;
    twice_plus += r.twice_plus;
    nmse += r.nmse;
  }
};

using StudyOf = std::optional<StudyFigures> FaultRow::*;

// One detection table: its cases, and which faults it has.
struct Experiment {
  std::string title;
  Stream stream;
  StudyOf study;
  int64_t cases;
  std::function<Sample(DType, int64_t, Random&)> draw;  // the case of that number
  bool in_blocks = false;  // the kernel sums by tiles of 64 and declares it
};

KernelVariant VariantOf(const FaultRow& row, const Experiment& experiment) {
  return experiment.in_blocks ? VariantNamed("blocks of 64") : VariantNamed(row.variant);
}

bool SameOut(const std::vector<EmulatedRow>& a, const std::vector<EmulatedRow>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const EmulatedRow& x, const EmulatedRow& y) { return x.out == y.out; });
}

bool HasMeaning(const FaultRow& row, DType dtype) {
  return !row.half_only || dtype == DType::kF16 || dtype == DType::kBF16;
}

class Detection {
 public:
  Detection(const OracleOptions& options, const Experiment& experiment)
      : options_(options), experiment_(experiment) {
    for (const FaultRow& row : FaultTable()) {
      if (row.*(experiment.study)) rows_.push_back(&row);
    }
    tallies_.resize(rows_.size());
  }

  void Run() {
    const auto all = static_cast<int64_t>(kTypes) * experiment_.cases;
    for (int64_t number = 0; number < all; ++number) {
      ShowProgress("detection", number, all);
      const size_t type = static_cast<size_t>(number) % kTypes;
      const uint64_t seed = SeedOf(options_, experiment_.stream, number);
      Random random(seed);
      JudgedSample sample(
          experiment_.draw(kFloatTypes[type], number / static_cast<int64_t>(kTypes), random));
      RunCase(sample, type, seed);
    }
    ShowProgress("detection", 1, 1);
  }

  void Print() const;

 private:
  void RunCase(JudgedSample& sample, size_t type, uint64_t seed) {
    const OtherRules rules(sample);
    std::map<std::string_view, std::vector<EmulatedRow>> correct;
    const DType dtype = kFloatTypes[type];
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (!HasMeaning(*rows_[i], dtype)) continue;
      const KernelVariant variant = VariantOf(*rows_[i], experiment_);
      Fault fault = rows_[i]->fault;
      fault.seed = seed + i;
      const std::vector<EmulatedRow> observed = sample.Emulate(variant, fault);
      auto& base = correct[variant.name];
      if (base.empty()) base = sample.Emulate(variant);
      if (fault.kind != FaultKind::kNone && SameOut(observed, base)) continue;
      const NumericsProfile profile = DeclaredBy(variant, dtype, BaseNumerics(dtype));
      Rejections rejections = JudgeTensor(sample, profile, observed);
      rules.Apply(observed, rejections);
      tallies_[i][type].Add(rejections);
    }
  }

  const OracleOptions& options_;
  const Experiment& experiment_;
  std::vector<const FaultRow*> rows_;
  std::vector<std::array<Tally, kTypes>> tallies_;
};

std::string Fraction(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.2f}", static_cast<double>(part) / static_cast<double>(whole));
}

std::string StudyFraction(const std::array<double, 3>& figures, DType dtype) {
  const size_t column = dtype == DType::kF16 ? 1 : dtype == DType::kBF16 ? 2 : 0;
  if (dtype == DType::kF64 || figures[column] == kNotMeasured) return "-";
  return fmt::format("{:.2f}", figures[column]);
}

void Detection::Print() const {
  fmt::print("\nDetection, {} ({} cases a dtype of {} rows)\n\n", experiment_.title,
             experiment_.cases, kRowsOfCase);
  fmt::print("{:25} {:5} {:>5} | {:>9} {:>9} | {:>13} | {:>23}\n", "", "", "", "FAIL", "MARGINAL",
             "study: W  any", "other rules");
  fmt::print(
      "{:25} {:5} {:>5} | {:>4} {:>4} | {:>4} {:>4} | {:>4} {:>4} | {:>6} {:>6} | {:>8} {:>4} "
      "{:>4} {:>4}\n",
      "fault", "dtype", "cases", "W", "LSE", "P", "RMS", "FAIL", "any", "W", "any", "allclose",
      "2x", "2x+", "NMSE");
  for (size_t i = 0; i < rows_.size(); ++i) {
    const StudyFigures& study = *(rows_[i]->*(experiment_.study));
    for (size_t t = 0; t < kTypes; ++t) {
      if (!HasMeaning(*rows_[i], kFloatTypes[t])) continue;
      const Tally& tally = tallies_[i][t];
      const auto of = [&](int64_t n) { return Fraction(n, tally.changed); };
      const auto ruled = [&](int64_t n) { return Fraction(n, tally.ruled); };
      fmt::print(
          "{:25} {:5} {:5} | {:>4} {:>4} | {:>4} {:>4} | {:>4} {:>4} | {:>6} {:>6} | {:>8} "
          "{:>4} {:>4} {:>4}\n",
          t == 0 || rows_[i]->half_only ? rows_[i]->name : "", Name(kFloatTypes[t]), tally.changed,
          of(tally.worst), of(tally.lse), of(tally.probable), of(tally.rms), of(tally.fail),
          of(tally.any), StudyFraction(study.worst, kFloatTypes[t]),
          StudyFraction(study.any, kFloatTypes[t]), ruled(tally.allclose), ruled(tally.twice),
          ruled(tally.twice_plus), ruled(tally.nmse));
    }
  }
}

void PrintBias(const OracleOptions& options) {
  const int64_t tensors = options.small ? 1 : 12, len = options.small ? 128 : 1000;
  fmt::print("\nSign bias, {} tensors of 16 x 64, {} normal keys: share above {}, largest\n\n",
             tensors, len, kBiasLimit);
  for (const BiasRow& row : BiasTable()) {
    const KernelVariant& variant = VariantNamed(row.variant);
    int64_t above = 0;
    double largest = 0;
    for (int64_t number = 0; number < tensors; ++number) {
      Random random(SeedOf(options, Stream::kBias, number));
      JudgedSample sample(DrawNormalSample(row.dtype, 16, len, 64, random));
      ErrorBound& bound = sample.BoundFor(BaseNumerics(row.dtype));
      ErrorStatistics statistics;
      const std::vector<EmulatedRow> observed = sample.Emulate(variant, row.fault);
      for (size_t i = 0; i < observed.size(); ++i) {
        JudgeRow(sample, bound, sample.rows()[i], observed[i], statistics);
      }
      above += std::abs(statistics.bias()) > kBiasLimit;
      largest = std::max(largest, std::abs(statistics.bias()));
    }
    fmt::print("{:25} {:5} {:>5} {:6.1f}\n", row.name, Name(row.dtype), Fraction(above, tensors),
               largest);
  }
}

// The distributions of the study, which are the first ones.
constexpr int64_t kStudyDistributions = static_cast<int64_t>(Distribution::kNearTies) + 1;

auto Mixed(const SampleShape& shape) {
  return [=](DType dtype, int64_t number, Random& random) {
    const auto distribution = static_cast<Distribution>(number % kStudyDistributions);
    return DrawSample(distribution, dtype, shape, random);
  };
}

auto Normal(int64_t len, int64_t dim) {
  return [=](DType dtype, int64_t, Random& random) {
    return DrawNormalSample(dtype, kRowsOfCase, len, dim, random);
  };
}

}  // namespace

bool PrintDetection(const OracleOptions& options) {
  const bool small = options.small;
  const int64_t mixed = small ? kStudyDistributions : 25 * kStudyDistributions;
  const Experiment experiments[] = {
      {"1000 keys of 64 lanes, normal data", Stream::kDetectionNormal, &FaultRow::normal,
       small ? 1 : 48, Normal(1000, 64)},
      {"mixed problems of 1 to 2048 keys and 1 to 256 lanes", Stream::kDetectionMixed,
       &FaultRow::mixed, mixed, Mixed({kRowsOfCase, small ? 256 : 2048, 256})},
      {"16384 keys of 64 lanes, summed in declared blocks of 64", Stream::kDetectionLong,
       &FaultRow::long_rows, small ? 0 : 12, Normal(16384, 64), true},
  };
  for (const Experiment& experiment : experiments) {
    if (experiment.cases == 0) continue;
    Detection detection(options, experiment);
    detection.Run();
    detection.Print();
  }
  fmt::print(
      "\nstudy: feasibility study of 2026-11, section 5.3, which the oracle must match; its mix "
      "of problems is its own.\n");
  PrintBias(options);
  return true;
}

}  // namespace attest
