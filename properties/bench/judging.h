// The oracle applied to emulated kernels: all tiers on every row, and beside them the rules that
// other test suites judge attention by. Callers: the tables of attest_bench.
#ifndef ATTEST_BENCH_JUDGING_H_
#define ATTEST_BENCH_JUDGING_H_

#include <memory>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/reference/bound.h"
#include "impl/reference/reference.h"
#include "impl/reference/statistics.h"
#include "properties/bench/distributions.h"
#include "properties/bench/emulated_kernel.h"

namespace attest {

// The contract attest-1, the strictest there is, and its arithmetic for `dtype`.
const Contract& BaseContract();
const NumericsProfile& BaseNumerics(DType dtype);

// A sample with its reference, and one bound for every profile that has been asked for.
class JudgedSample {
 public:
  explicit JudgedSample(Sample sample);
  JudgedSample(const JudgedSample&) = delete;  // the bounds refer to its members
  JudgedSample& operator=(const JudgedSample&) = delete;

  const Problem& problem() const { return sample_.problem; }
  const Inputs& inputs() const { return sample_.inputs; }
  const Reference& reference() const { return reference_; }
  ErrorBound& BoundFor(const NumericsProfile& profile);
  // The rows that see a key, each of [batch, head, query].
  const std::vector<Row>& rows() const { return rows_; }
  // Every row of rows() under a variant and fault.
  std::vector<EmulatedRow> Emulate(const KernelVariant& variant, const Fault& fault = {}) const;

 private:
  struct Judge {
    NumericsProfile profile;
    Contract contract;
    std::unique_ptr<ErrorBound> bound;
  };

  const Sample sample_;
  const Reference reference_;
  std::vector<Row> rows_;
  std::vector<std::unique_ptr<Judge>> judges_;
};

// error / bound of a row, the largest of its elements. Infinite where an error is NaN or a bound of
// 0 is missed; 0 where the row is unconstrained. More than 1 is an alarm.
struct RowFigures {
  RowState state = RowState::kInformative;
  double worst = 0, cheap = 0, probable = 0;  // of out
  double worst_lse = 0, probable_lse = 0;
  double disorder = 0;  // W / cheap W and floor / W, the largest; above 1 is a fault of the bound
};
// Adds the row's errors to `statistics` as well.
RowFigures JudgeRow(const JudgedSample& sample, ErrorBound& bound, const Row& row,
                    const EmulatedRow& observed, ErrorStatistics& statistics);

// error / bound with the conventions of RowFigures.
double RatioOf(double error, double bound);

// Which rules reject a tensor. The first four are other suites'.
struct Rejections {
  bool allclose = false;    // torch's default tolerances
  bool twice = false;       // error above twice that of plain same-precision attention
  bool twice_plus = false;  // and above FlashAttention's absolute allowance on top
  bool nmse = false;        // sum of squared errors above 5e-4 of the reference's squares
  bool fail = false;        // W, of out
  bool fail_lse = false;    // W, of lse
  bool probable = false;    // P, of out or lse
  bool rms = false;
  bool is_constrained = true;  // no row may overflow; the other suites' rules suppose so
};

// Judges a tensor, row i of which is observed[i] (sample.rows()), under `profile`.
Rejections JudgeTensor(JudgedSample& sample, const NumericsProfile& profile,
                       const std::vector<EmulatedRow>& observed);

// What the other suites' rules need once a sample.
class OtherRules {
 public:
  explicit OtherRules(const JudgedSample& sample);
  // Sets the first four of `rejections`.
  void Apply(const std::vector<EmulatedRow>& observed, Rejections& rejections) const;

 private:
  const JudgedSample& sample_;
  double plain_error_ = 0;  // the largest of plain attention
  double allowance_ = 0;    // 2 max |ref + 0.3 - 0.3 - ref| in the element type
};

}  // namespace attest

#endif  // ATTEST_BENCH_JUDGING_H_
