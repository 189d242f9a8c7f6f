// Soundness and tightness: every correct variant on problems of every distribution and dtype.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/bench/judging.h"
#include "properties/bench/oracle_tables.h"

namespace attest {
namespace {

constexpr size_t kTypes = kFloatTypes.size();

// Cheap W, W and its floor are each a sum over up to 2048 keys in double: they may differ by so many
// roundings where they are equal.
constexpr double kOrderTolerance = 1 + 2 * 2048 * 0x1p-53;

// One line of the soundness table. A tensor is one sample under one variant.
struct Counts {
  int64_t tensors = 0, rows = 0, outputs = 0;
  int64_t worst = 0, cheap = 0, disorder = 0, lse = 0, probable = 0, rms = 0, bias = 0;
  int64_t uninformative = 0, unconstrained = 0, unrepresentable = 0;
  int64_t ruled = 0, allclose = 0, twice = 0, twice_plus = 0, nmse = 0;  // tensors

  Counts& operator+=(const Counts& other);
};

Counts& Counts::operator+=(const Counts& other) {
  for (auto field :
       {&Counts::tensors, &Counts::rows, &Counts::outputs, &Counts::worst, &Counts::cheap,
        &Counts::disorder, &Counts::lse, &Counts::probable, &Counts::rms, &Counts::bias,
        &Counts::uninformative, &Counts::unconstrained, &Counts::unrepresentable, &Counts::ruled,
        &Counts::allclose, &Counts::twice, &Counts::twice_plus, &Counts::nmse}) {
    this->*field += other.*field;
  }
  return *this;
}

// The rows of one sample that a correct kernel should not have shown, and the worst of each figure.
struct Alarm {
  int64_t sample;
  size_t type;
  Distribution distribution;
  std::string_view variant;  // the first
  int64_t rows = 0;
  RowFigures worst = {};

  void Add(const RowFigures& row) {
    ++rows;
    for (auto figure : {&RowFigures::worst, &RowFigures::probable, &RowFigures::worst_lse,
                        &RowFigures::probable_lse, &RowFigures::disorder}) {
      worst.*figure = std::max(worst.*figure, row.*figure);
    }
  }
};

bool IsAlarm(const RowFigures& row) {
  return row.worst > 1 || row.worst_lse > 1 || row.probable > 1 || row.probable_lse > 1 ||
         row.disorder > kOrderTolerance;
}

// Errors of sums that drop bits, and of outputs cut, lean towards zero; that much is declared.
bool LeansByDeclaration(const KernelVariant& variant) {
  return variant.truncates_sums || variant.truncates_output ||
         variant.summation == Summation::kBlockUnit;
}

struct Ratios {
  std::vector<float> worst, probable, lse;
};

class Sweep {
 public:
  explicit Sweep(const OracleOptions& options) : options_(options) {
    lean_.assign(kTypes, std::vector<ErrorStatistics>(CorrectVariants().size()));
  }

  void Run() {
    for (int64_t number = 0; rows_ < options_.rows; ++number) {
      const auto type = static_cast<size_t>(number) % kTypes;
      const auto distribution =
          static_cast<Distribution>(static_cast<size_t>(number) / kTypes % kDistributionCount);
      JudgeSample(number, type, distribution);
      ShowProgress("soundness", rows_, options_.rows);
    }
    ShowProgress("soundness", 1, 1);
  }

  const Counts& At(size_t type, size_t distribution) const { return counts_[type][distribution]; }
  const std::vector<Alarm>& alarms() const { return alarms_; }
  Ratios& ratios(size_t type) { return ratios_[type]; }
  double largest_rms(size_t type) const { return largest_rms_[type]; }
  double largest_bias(size_t type, bool is_declared) const {
    return largest_bias_[is_declared][type];
  }

 private:
  void JudgeSample(int64_t number, size_t type, Distribution distribution) {
    Random random(SeedOf(options_, Stream::kSoundness, number));
    // One sample in eight is long; the others are small, since many small ones reach more.
    const SampleShape shape{4, random() % 8 == 0 ? 2048 : 256, 256};
    JudgedSample sample(DrawSample(distribution, kFloatTypes[type], shape, random));
    const OtherRules rules(sample);
    for (size_t v = 0; v < CorrectVariants().size(); ++v) {
      const KernelVariant& variant = CorrectVariants()[v];
      JudgeVariant(sample, rules, variant, Alarm{number, type, distribution, variant.name},
                   lean_[type][v]);
    }
  }

  void JudgeVariant(JudgedSample& sample, const OtherRules& rules, const KernelVariant& variant,
                    const Alarm& where, ErrorStatistics& lean) {
    const DType dtype = sample.problem().dtype;
    ErrorBound& bound = sample.BoundFor(DeclaredBy(variant, dtype, BaseNumerics(dtype)));
    const std::vector<EmulatedRow> observed = sample.Emulate(variant);
    Counts& counts = counts_[where.type][static_cast<size_t>(where.distribution)];
    ErrorStatistics statistics;
    const int64_t unconstrained = counts.unconstrained;
    for (size_t i = 0; i < observed.size(); ++i) {
      Count(JudgeRow(sample, bound, sample.rows()[i], observed[i], statistics), where, counts);
      CountOutputs(dtype, observed[i], counts);
      if (where.distribution == Distribution::kNormal) {
        JudgeRow(sample, bound, sample.rows()[i], observed[i], lean);
      }
    }
    rows_ += static_cast<int64_t>(observed.size());
    ++counts.tensors;
    CountStatistics(statistics, lean, LeansByDeclaration(variant), where.type, counts);
    if (counts.unconstrained == unconstrained) CountRules(rules, observed, counts);
  }

  void Count(const RowFigures& row, const Alarm& where, Counts& counts) {
    ++counts.rows;
    counts.unconstrained += row.state == RowState::kUnconstrained;
    counts.uninformative += row.state == RowState::kUninformative;
    counts.worst += row.worst > 1;
    counts.cheap += row.cheap > 1;
    counts.disorder += row.disorder > kOrderTolerance;
    counts.lse += row.worst_lse > 1;
    counts.probable += row.probable > 1 || row.probable_lse > 1;
    if (IsAlarm(row)) {
      if (alarms_.empty() || alarms_.back().sample != where.sample) alarms_.push_back(where);
      alarms_.back().Add(row);
    }
    if (row.state == RowState::kUnconstrained) return;
    Ratios& ratios = ratios_[where.type];
    ratios.worst.push_back(static_cast<float>(row.worst));
    ratios.probable.push_back(static_cast<float>(row.probable));
    ratios.lse.push_back(static_cast<float>(row.worst_lse));
  }

  static void CountOutputs(DType dtype, const EmulatedRow& observed, Counts& counts) {
    counts.outputs += static_cast<int64_t>(observed.out.size());
    for (const double x : observed.out)
      counts.unrepresentable += RoundTo(dtype, x) < x || RoundTo(dtype, x) > x;
  }

  void CountStatistics(const ErrorStatistics& statistics, ErrorStatistics& lean, bool is_declared,
                       size_t type, Counts& counts) {
    if (statistics.count() >= kRmsLeastCount) {
      counts.rms += statistics.rms() > kRmsLimit;
      largest_rms_[type] = std::max(largest_rms_[type], statistics.rms());
    }
    // The lean of a variant is asked for once a thousand outputs, over as many samples as it takes.
    if (lean.count() < kBiasLeastCount) return;
    counts.bias += !is_declared && std::abs(lean.bias()) > kBiasLimit;
    double& largest = largest_bias_[is_declared][type];
    largest = std::max(largest, std::abs(lean.bias()));
    lean = {};
  }

  static void CountRules(const OtherRules& rules, const std::vector<EmulatedRow>& observed,
                         Counts& counts) {
    Rejections rejections;
    rules.Apply(observed, rejections);
    ++counts.ruled;
    counts.allclose += rejections.allclose;
    counts.twice += rejections.twice;
    counts.twice_plus += rejections.twice_plus;
    counts.nmse += rejections.nmse;
  }

  const OracleOptions& options_;
  int64_t rows_ = 0;
  std::array<std::array<Counts, kDistributionCount>, kTypes> counts_{};
  std::array<Ratios, kTypes> ratios_;
  std::array<double, kTypes> largest_rms_{};
  std::array<std::array<double, kTypes>, 2> largest_bias_{};  // [is declared]
  std::vector<std::vector<ErrorStatistics>> lean_;            // [type][variant]
  std::vector<Alarm> alarms_;
};

void PrintLine(std::string_view type, std::string_view distribution, const Counts& c) {
  const auto percent = [&](int64_t n) {
    return c.ruled == 0 ? 0.0 : 100.0 * static_cast<double>(n) / static_cast<double>(c.ruled);
  };
  fmt::print(
      "{:5} {:15} {:8} {:10} {:3} {:5} {:5} {:3} {:5} {:4} {:4} {:7} {:7} | {:8.1f} {:5.1f} "
      "{:5.1f} {:5.1f}\n",
      type, distribution, c.rows, c.outputs, c.worst, c.cheap, c.disorder, c.lse, c.probable, c.rms,
      c.bias, c.uninformative, c.unconstrained, percent(c.allclose), percent(c.twice),
      percent(c.twice_plus), percent(c.nmse));
}

void PrintCounts(const Sweep& sweep) {
  fmt::print(
      "\nSoundness: alarms on {} correct kernels (rows; RMS: tensors, bias: runs of a thousand "
      "outputs, normal data only),\nand percent of tensors that other rules reject\n\n",
      CorrectVariants().size());
  fmt::print(
      "{:5} {:15} {:>8} {:>10} {:>3} {:>5} {:>5} {:>3} {:>5} {:>4} {:>4} {:>7} {:>7} | "
      "{:>8} {:>5} {:>5} {:>5}\n",
      "dtype", "distribution", "rows", "outputs", "W", "cheap", "order", "LSE", "P", "RMS", "bias",
      "uninf.", "unconstr", "allclose", "2x", "2x+", "NMSE");
  Counts all;
  for (size_t t = 0; t < kTypes; ++t) {
    Counts of_type;
    for (size_t d = 0; d < kDistributionCount; ++d) {
      const Counts& counts = sweep.At(t, d);
      PrintLine(Name(kFloatTypes[t]), Name(static_cast<Distribution>(d)), counts);
      of_type += counts;
    }
    PrintLine(Name(kFloatTypes[t]), "all", of_type);
    fmt::print(
        "      largest RMS {:.2f}; largest bias {:.1f}, of kernels that declare to truncate "
        "{:.1f}\n",
        sweep.largest_rms(t), sweep.largest_bias(t, false), sweep.largest_bias(t, true));
    all += of_type;
  }
  PrintLine("all", "all", all);
}

void PrintAlarms(const Sweep& sweep) {
  constexpr size_t kMost = 40;
  for (size_t i = 0; i < std::min(kMost, sweep.alarms().size()); ++i) {
    const Alarm& alarm = sweep.alarms()[i];
    const RowFigures& f = alarm.worst;
    fmt::print(
        "  sample {} {} {}: {} rows from \"{}\" on; at most error/W {:.3f}, /P {:.3f}, lse "
        "error/W {:.3f}, /P {:.3f}, disorder of W {:.3g}\n",
        alarm.sample, Name(kFloatTypes[alarm.type]), Name(alarm.distribution), alarm.rows,
        alarm.variant, f.worst, f.probable, f.worst_lse, f.probable_lse, f.disorder);
  }
  if (sweep.alarms().size() > kMost) {
    fmt::print("  ... and {} more\n", sweep.alarms().size() - kMost);
  }
}

void PrintQuantiles(std::string_view type, std::string_view tier, std::vector<float>& ratios) {
  if (ratios.empty()) return;
  std::sort(ratios.begin(), ratios.end());
  const auto quantile = [&](double q) {
    return ratios[static_cast<size_t>(q * static_cast<double>(ratios.size() - 1))];
  };
  fmt::print("{:5} {:5} {:9.2g} {:9.2g} {:9.2g} {:9.2g} {:9.3g}\n", type, tier, quantile(0.1),
             quantile(0.5), quantile(0.9), quantile(0.99), quantile(1));
}

void PrintTightness(Sweep& sweep) {
  fmt::print(
      "\nTightness: a row's largest error/bound on correct kernels (1 = bound attained)\n\n");
  fmt::print("{:5} {:5} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "dtype", "tier", "10 %", "median", "90 %",
             "99 %", "max");
  for (size_t t = 0; t < kTypes; ++t) {
    Ratios& ratios = sweep.ratios(t);
    PrintQuantiles(Name(kFloatTypes[t]), "W", ratios.worst);
    PrintQuantiles(Name(kFloatTypes[t]), "P", ratios.probable);
    PrintQuantiles(Name(kFloatTypes[t]), "LSE", ratios.lse);
  }
}

}  // namespace

bool PrintSoundness(const OracleOptions& options, bool with_soundness, bool with_tightness) {
  const auto start = std::chrono::steady_clock::now();
  Sweep sweep(options);
  sweep.Run();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Counts all;
  for (size_t t = 0; t < kTypes; ++t) {
    for (size_t d = 0; d < kDistributionCount; ++d) all += sweep.At(t, d);
  }
  if (with_soundness) PrintCounts(sweep);
  PrintAlarms(sweep);
  if (with_tightness) PrintTightness(sweep);
  fmt::print(
      "\n{} row checks, {:.0f} a second; {} W alarms, {} LSE alarms, {} rows with floor, W and "
      "cheap W out of order, "
      "{} outputs not representable\n",
      all.rows, static_cast<double>(all.rows) / took.count(), all.worst, all.lse, all.disorder,
      all.unrepresentable);
  return all.worst == 0 && all.lse == 0 && all.disorder == 0 && all.unrepresentable == 0;
}

}  // namespace attest
