// The forward error bound: how far a correct kernel may lie from the reference, per element of out,
// lse and weights, derived from the arithmetic that its contract declares. BOUND.md has the
// derivation. Four tiers, from the surest to the sharpest:
//   W        worst case. Beyond it a result is wrong (FAIL).
//   cheap W  never below W, O(1) a key.
//   floor    never above W, O(1) an element: settles nearly every row at once.
//   P        what roundings that err in either sense reach in practice. Beyond it: suspect.
//   spread   the deviation behind P, for statistics over a tensor (see statistics.h).
// Callers: the judge, the explainer, attest_bench.
#ifndef ATTEST_REFERENCE_BOUND_H_
#define ATTEST_REFERENCE_BOUND_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"
#include "impl/reference/reference.h"

namespace attest {

// What a row can be used for.
enum class RowState : uint8_t {
  kInformative,
  kUninformative,  // W exceeds a tenth of V's range in the row
  kUnconstrained,  // a score or sum may overflow: infinities and NaN are allowed
};

// One number per element of a row. In an unconstrained row all are infinite. Where a visible NaN
// has made the reference NaN, and in empty rows, they are 0: there the semantics decide.
struct RowNumbers {
  std::vector<double> out;  // [value_dim]
  double lse = 0;
  // [kv_len] where the problem wants weights, as such or as scores; else empty.
  std::vector<double> weights;
  // [kv_len] where the problem wants scores, else empty; of every row that is not unconstrained, empty
  // or not. 0 where -inf is due, infinite where nothing is claimed: a hidden key that is not finite, a
  // score that its type may not hold. P is W here, and there is no spread.
  std::vector<double> scores{};
};

// An error of at most this share of the floor is settled: it lies within W, and far enough for the
// finer tiers to be left to the sample.
constexpr double kSettledShare = 0.3;

// From below, W of an element is a straight line of the value's size, and what storing it costs; and
// so is P.
struct RowFloor {
  double out_slope = 0, out_offset = 0;
  double lse = 0;
  double weight_slope = 0, weight_offset = 0;
  double store_roundoff = 0, store_lost = 0;
  double probable_out_slope = 0, probable_weight_slope = 0;

  double Out(double out) const { return Line(out_slope, out_offset, out); }
  double Weight(double weight) const { return Line(weight_slope, weight_offset, weight); }

  // Errors up to here are settled: by their share of W, or because neither W nor P is below.
  double SettledOut(double out) const;
  double SettledLse() const { return kSettledShare * lse; }
  double SettledWeight(double weight) const;

 private:
  double Line(double slope, double offset, double value) const;
};

class ErrorBound {
 public:
  // All four must outlive the bound. `reference` must come from the same problem and inputs, in
  // extended precision where NeedsExtendedReference says so.
  ErrorBound(const Problem& problem, const Inputs& inputs, const Reference& reference,
             const Contract& contract);
  ~ErrorBound();
  ErrorBound(ErrorBound&&) noexcept;

  // Rows are computed when first asked for and kept.
  RowState StateOf(const Row& row);
  bool IsUnconstrained(const Row& row);  // the one state that costs next to nothing
  const RowNumbers& CheapOf(const Row& row);
  RowFloor FloorOf(const Row& row);
  const RowNumbers& WorstOf(const Row& row);
  const RowNumbers& ProbableOf(const Row& row);  // P; at most W
  const RowNumbers& SpreadOf(const Row& row);    // an error measured in these has RMS at most 1

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest

#endif  // ATTEST_REFERENCE_BOUND_H_
