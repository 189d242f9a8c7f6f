// Guided search for error / W above 1: by hill climbing on correct kernels, where one would be a
// fault of the bound, and on subtle faults, to show that the search can climb.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "properties/bench/judging.h"
#include "properties/bench/mutations.h"
#include "properties/bench/oracle_tables.h"

namespace attest {
namespace {

constexpr int64_t kRestarts = 4;
constexpr SampleShape kShape{1, 96, 64};

struct Target {
  KernelVariant variant;
  Fault fault;
  DType dtype;
  bool with_lse;  // the lse counts too
};

struct Fitness {
  double ratio = 0;    // error / W
  double climbed = 0;  // the same, less where the bound is wide: there is nothing to find there
};

struct SearchResult {
  double random = 0, guided = 0;       // the largest error / W
  std::optional<int64_t> first_above;  // guided evaluations until it exceeded 1
  std::optional<Sample> witness;       // the sample with the largest, where that exceeds 1
};

// What an investigation of a violation starts from: sizes, and the worst element.
void PrintWitness(const Target& target, const Sample& drawn) {
  JudgedSample sample(drawn);
  const Problem& p = sample.problem();
  ErrorBound& bound =
      sample.BoundFor(DeclaredBy(target.variant, target.dtype, BaseNumerics(target.dtype)));
  const Row& row = sample.rows().front();
  const EmulatedRow observed = EmulateRow(p, sample.inputs(), row, target.variant, target.fault);
  fmt::print("  above 1: {} {}: {} of {} keys visible, {} and {} lanes, scale {:.3g}\n",
             Name(target.dtype), target.variant.name, VisibleKeys(p, row).size(), p.kv_len,
             p.head_dim, p.value_dim, p.EffectiveScale());
  const auto print = [](std::string_view what, double seen, double expected, double allowed) {
    if (std::abs(seen - expected) <= allowed) return;
    fmt::print("    {} {:.17g}, reference {:.17g}, error {:.3g}, W {:.3g}\n", what, seen, expected,
               std::abs(seen - expected), allowed);
  };
  const RowNumbers& worst = bound.WorstOf(row);
  for (size_t d = 0; d < observed.out.size(); ++d) {
    print("out", observed.out[d],
          sample.reference().out.At(0, 0, row.query, static_cast<int64_t>(d)), worst.out[d]);
  }
  print("lse", observed.lse, sample.reference().lse.At(0, 0, row.query, 0), worst.lse);
}

class Search {
 public:
  Search(const Target& target, int64_t evaluations, uint64_t seed)
      : target_(target), evaluations_(evaluations), random_(seed) {}

  SearchResult Run() {
    for (int64_t n = 0; n < evaluations_; ++n) {
      const Sample sample = Draw();
      const double ratio = FitnessOf(sample).ratio;
      KeepWitness(sample, ratio);
      result_.random = std::max(result_.random, ratio);
    }
    for (int64_t restart = 0; restart < kRestarts; ++restart) Climb(evaluations_ / kRestarts);
    return result_;
  }

 private:
  Sample Draw() {
    const auto distribution = static_cast<Distribution>(random_() % kDistributionCount);
    return DrawSample(distribution, target_.dtype, kShape, random_);
  }

  void Climb(int64_t evaluations) {
    Sample best = Draw();
    double height = Guided(best).climbed;
    for (int64_t n = 1; n < evaluations; ++n) {
      Sample next = best;
      for (uint64_t changes = 1 + random_() % 3; changes > 0; --changes) Mutate(next, random_);
      const double climbed = Guided(next).climbed;
      if (climbed < height) continue;
      height = climbed;
      best = std::move(next);
    }
  }

  void KeepWitness(const Sample& sample, double ratio) {
    if (ratio > std::max({1.0, result_.random, result_.guided})) result_.witness = sample;
  }

  Fitness Guided(const Sample& sample) {
    const Fitness fitness = FitnessOf(sample);
    ++guided_;
    KeepWitness(sample, fitness.ratio);
    result_.guided = std::max(result_.guided, fitness.ratio);
    if (fitness.ratio > 1 && !result_.first_above) result_.first_above = guided_;
    return fitness;
  }

  Fitness FitnessOf(const Sample& drawn) const {
    JudgedSample sample(drawn);
    Fitness fitness;
    ErrorStatistics unused;
    ErrorBound& bound =
        sample.BoundFor(DeclaredBy(target_.variant, target_.dtype, BaseNumerics(target_.dtype)));
    for (const Row& row : sample.rows()) {
      const EmulatedRow observed =
          EmulateRow(sample.problem(), sample.inputs(), row, target_.variant, target_.fault);
      const RowFigures figures = JudgeRow(sample, bound, row, observed, unused);
      const double ratio =
          target_.with_lse ? std::max(figures.worst, figures.worst_lse) : figures.worst;
      const double worth = figures.state == RowState::kInformative ? 1 : 0.5;
      fitness.ratio = std::max(fitness.ratio, ratio);
      fitness.climbed = std::max(fitness.climbed, worth * ratio);
    }
    return fitness;
  }

  const Target& target_;
  const int64_t evaluations_;
  int64_t guided_ = 0;  // evaluations
  SearchResult result_;
  Random random_;
};

struct Best {
  double random = 0, guided = 0;
  std::string_view random_variant, guided_variant;
  int64_t above = 0;
};

Best SearchVariants(const OracleOptions& options, DType dtype, int64_t evaluations, size_t step) {
  Best best;
  const auto& variants = CorrectVariants();
  for (size_t v = 0; v < variants.size(); v += step) {
    ShowProgress("search", static_cast<int64_t>(v), static_cast<int64_t>(variants.size()));
    const Target target{variants[v], {}, dtype, true};
    const int64_t number = static_cast<int64_t>(v) * 16 + static_cast<int64_t>(dtype);
    const SearchResult found =
        Search(target, evaluations, SeedOf(options, Stream::kSearch, number)).Run();
    if (found.random > best.random) {
      best.random = found.random;
      best.random_variant = variants[v].name;
    }
    if (found.guided > best.guided) {
      best.guided = found.guided;
      best.guided_variant = variants[v].name;
    }
    const bool is_above = found.random > 1 || found.guided > 1;
    if (found.witness) PrintWitness(target, *found.witness);
    best.above += is_above;
  }
  ShowProgress("search", 1, 1);
  return best;
}

bool PrintCorrect(const OracleOptions& options) {
  const int64_t evaluations = options.small ? 120 : 4000;
  const size_t step = options.small ? 4 : 1;
  fmt::print(
      "\nSearch for error/W > 1 on correct kernels, out and lse: {} random and {} guided "
      "evaluations a variant and dtype, {} restarts\n\n",
      evaluations, evaluations, kRestarts);
  fmt::print("{:5} {:>8} {:27} {:>8} {:27} {:>7}\n", "dtype", "random", "of", "guided", "of",
             "above 1");
  int64_t above = 0;
  for (const DType dtype : kFloatTypes) {
    const Best best = SearchVariants(options, dtype, evaluations, step);
    fmt::print("{:5} {:8.3g} {:27} {:8.3g} {:27} {:7}\n", Name(dtype), best.random,
               best.random_variant, best.guided, best.guided_variant, best.above);
    above += best.above;
  }
  return above == 0;
}

void PrintFaults(const OracleOptions& options) {
  const int64_t evaluations = options.small ? 400 : 8000;
  struct Row {
    std::string_view name;
    Fault fault;
    DType dtype;
  };
  const Row rows[] = {{"exp off by 1e-5", {FaultKind::kExpError, 1e-5}, DType::kF32},
                      {"scale +0.01 %", {FaultKind::kScale, 1e-4}, DType::kF16},
                      {"P truncated", {FaultKind::kTruncatedWeights}, DType::kF16},
                      {"S in 16 bits", {FaultKind::kCoarseScores}, DType::kBF16},
                      {"a row of V off by 1 %", {FaultKind::kValueRowOff, 1e-2}, DType::kBF16}};
  fmt::print("\nThe same search on subtle faults, out only, {} evaluations\n\n", evaluations);
  fmt::print("{:25} {:5} {:>8} {:>8} {:>18}\n", "fault", "dtype", "random", "guided",
             "evaluations to > 1");
  int64_t number = 0;
  for (const Row& row : rows) {
    const Target target{VariantNamed("online 16"), row.fault, row.dtype, false};
    const SearchResult found =
        Search(target, evaluations, SeedOf(options, Stream::kSearch, 1000 + number++)).Run();
    fmt::print("{:25} {:5} {:8.3g} {:8.3g} {:>18}\n", row.name, Name(row.dtype), found.random,
               found.guided, found.first_above ? fmt::format("{}", *found.first_above) : "never");
  }
}

}  // namespace

bool PrintSearch(const OracleOptions& options) {
  const bool holds = PrintCorrect(options);
  PrintFaults(options);
  return holds;
}

}  // namespace attest
