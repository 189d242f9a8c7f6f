// Cost: what judging takes beside the double reference, over the cases that `--plan ci` draws.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "impl/reference/extended_reference.h"
#include "impl/reference/plain_precision.h"
#include "properties/bench/cpu_time.h"
#include "properties/bench/judging.h"
#include "properties/bench/oracle_tables.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/random.h"

namespace attest {
namespace {

constexpr size_t kTypes = kFloatTypes.size();

// The better of two runs: the first one may find its data and code cold.
template <typename Work>
double SecondsOf(const Work& work) {
  double best = 0;
  for (int run = 0; run < 2; ++run) {
    const double start = ThreadCpuSeconds();
    work();
    const double took = ThreadCpuSeconds() - start;
    best = run == 0 ? took : std::min(best, took);
  }
  return best;
}

// Seconds over all cases of a dtype.
struct Times {
  int64_t cases = 0, rows = 0, worst_rows = 0;
  double double_reference = 0, reference = 0, cheap = 0, judge = 0, all = 0;

  Times& operator+=(const Times& other) {
    cases += other.cases;
    rows += other.rows;
    worst_rows += other.worst_rows;
    double_reference += other.double_reference;
    reference += other.reference;
    cheap += other.cheap;
    judge += other.judge;
    all += other.all;
    return *this;
  }
};

// One case with the outcome of a correct kernel.
class CostOfCase {
 public:
  explicit CostOfCase(const Case& c) : p_(c.problem), inputs_(Materialise(c)) {
    ForEachRow(p_, [&](const Row& row) {
      if (!IsEmptyRow(p_, row)) rows_.push_back(row);
    });
    if (IsEmulated(p_)) {
      for (const Row& row : rows_) {
        observed_.push_back(EmulateRow(p_, inputs_, row, VariantNamed("online 64")));
      }
    } else {
      TakePlain();
    }
  }

  Times Measure() {
    const Contract& contract = BaseContract();
    Times times;
    times.cases = 1;
    times.rows = static_cast<int64_t>(rows_.size());
    times.double_reference = SecondsOf([&] { ComputeReference(p_, inputs_, contract.semantics); });
    times.reference = SecondsOf([&] { reference_ = ReferenceFor(p_, inputs_, contract); });
    times.cheap = SecondsOf([&] {
      ErrorBound bound(p_, inputs_, reference_, contract);
      for (const Row& row : rows_) {
        bound.CheapOf(row);
        bound.FloorOf(row);
      }
    });
    times.judge = SecondsOf([&] {
      ErrorBound bound(p_, inputs_, reference_, contract);
      times.worst_rows = 0;
      for (size_t i = 0; i < rows_.size(); ++i) times.worst_rows += JudgeInOrder(bound, i);
    });
    times.all = SecondsOf([&] {
      ErrorBound bound(p_, inputs_, reference_, contract);
      for (const Row& row : rows_) {
        bound.StateOf(row);
        bound.CheapOf(row);
        bound.SpreadOf(row);  // with it come W and P
      }
    });
    return times;
  }

 private:
  // The emulated kernels know the common features only.
  static bool IsEmulated(const Problem& p) {
    return p.softcap == 0 && !p.alibi_slopes && !p.sinks && !p.dropout && !p.prefix_lengths &&
           !p.documents && !p.block_mask && !p.fp8;
  }

  // The outcome of plain attention in the case's precision, with the reference's lse.
  void TakePlain() {
    const Array plain = ComputePlainPrecision(p_, inputs_, BaseNumerics(p_.dtype));
    const Reference reference = ReferenceFor(p_, inputs_, BaseContract());
    for (const Row& row : rows_) {
      EmulatedRow observed;
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        observed.out.push_back(plain.At(row.batch, row.head, row.query, d));
      }
      observed.lse = reference.lse.At(row.batch, row.head, row.query, 0);
      observed_.push_back(std::move(observed));
    }
  }

  // What the judge asks of a row (properties/harness/judge/match.cc). Returns whether the floor of W
  // left it open.
  bool JudgeInOrder(ErrorBound& bound, size_t i) const {
    const Row& row = rows_[i];
    if (bound.IsUnconstrained(row)) return false;
    bound.StateOf(row);
    const bool settled = Settled(bound, row, observed_[i]);
    if (!settled) bound.WorstOf(row);
    if (!settled || i % 8 == 0) {
      bound.ProbableOf(row);
      bound.SpreadOf(row);
    }
    return !settled;
  }

  bool Settled(ErrorBound& bound, const Row& row, const EmulatedRow& observed) const {
    const RowFloor floor = bound.FloorOf(row);
    const double lse = reference_.lse.At(row.batch, row.head, row.query, 0);
    if (!(std::abs(observed.lse - lse) <= floor.SettledLse())) return false;
    for (size_t d = 0; d < observed.out.size(); ++d) {
      const double expected =
          reference_.out.At(row.batch, row.head, row.query, static_cast<int64_t>(d));
      const double error = std::abs(observed.out[d] - expected);
      if (!(error <= floor.SettledOut(expected))) return false;
    }
    return true;
  }

  const Problem p_;
  const Inputs inputs_;
  Reference reference_;
  std::vector<Row> rows_;
  std::vector<EmulatedRow> observed_;
};

void PrintTimes(std::string_view type, const Times& t) {
  if (t.rows == 0) return;
  const auto micros = [&](double seconds) { return 1e6 * seconds / static_cast<double>(t.rows); };
  const auto tiers = [&](double seconds) {
    return fmt::format("{:8.2f} {:5.2f}x {:5.2f}x", micros(seconds), seconds / t.double_reference,
                       (t.reference + seconds) / t.double_reference);
  };
  fmt::print("{:5} {:6} {:8} {:8.2f} {:8.2f} | {} | {} {:5.1f} % | {}\n", type, t.cases, t.rows,
             micros(t.double_reference), micros(t.reference), tiers(t.cheap), tiers(t.judge),
             100 * static_cast<double>(t.worst_rows) / static_cast<double>(t.rows), tiers(t.all));
}

}  // namespace

bool PrintCost(const OracleOptions& options) {
  const int64_t cases = options.small ? 300 : 3000;
  std::array<Times, kTypes> times;
  for (int64_t number = 0; number < cases; ++number) {
    ShowProgress("cost", number, cases);
    // As the runner draws them: sizes of 0 to 100 in turn.
    const Case c = DrawCase(SeedOf(options, Stream::kCost, number),
                            static_cast<int>(number * 37 % 101), BaseContract());
    if (!(c.problem.EffectiveScale() > 0)) continue;  // the emulated kernel asks for it
    const auto type = std::find(kFloatTypes.begin(), kFloatTypes.end(), c.problem.dtype);
    times[static_cast<size_t>(type - kFloatTypes.begin())] += CostOfCase(c).Measure();
  }
  ShowProgress("cost", 1, 1);
  fmt::print(
      "\nCost over the cases of --plan ci, microseconds of CPU time a row; the factors are the "
      "tiers "
      "over the double\nreference, and with the reference used (extended for f64). Cheap: cheap W "
      "on all rows. Judge: the floor of W on all rows,\nW and P where it leaves the error of a "
      "correct kernel open (percent of rows) and on one row in eight. All: all\ntiers on all "
      "rows.\n\n");
  fmt::print("{:5} {:>6} {:>8} {:>8} {:>8} | {:>22} | {:>30} | {:>22}\n", "dtype", "cases", "rows",
             "double", "used", "cheap", "judge", "all");
  Times all;
  for (size_t t = 0; t < kTypes; ++t) {
    PrintTimes(Name(kFloatTypes[t]), times[t]);
    all += times[t];
  }
  PrintTimes("all", all);
  return true;
}

}  // namespace attest
