// Whether anything of a row may overflow in a correct kernel: then infinities and NaN are allowed,
// and no bound holds. Private to the bound.
#ifndef ATTEST_REFERENCE_BOUND_RANGE_H_
#define ATTEST_REFERENCE_BOUND_RANGE_H_

#include "impl/attention/contract.h"
#include "impl/reference/bound_row.h"
#include "impl/reference/reference_internal.h"

namespace attest {

class RangeCheck {
 public:
  // All must outlive the check.
  RangeCheck(const Problem& problem, const Inputs& inputs, const Reference& reference,
             const Contract& contract, const Roundings& roundings);

  // Before rounding is looked at: may a score or a sum of the row leave the range of the types it is
  // computed in? Hidden keys count too, unless the contract is poison-safe where they are hidden.
  bool MayOverflow(HeadFacts& head, const Row& row) const;

  // May a finite stand-in for minus infinity give a hidden key a weight that matters? Not asked of rows
  // without a visible key or a sink.
  bool HiddenMayOutweigh(HeadFacts& head, const Row& row) const;

 private:
  RangeOfHead RangeOf(const HeadFacts& head, int64_t number) const;
  bool HeadIsSafe(const HeadFacts& head) const;
  bool SinkOrDropoutMayOverflow(const HeadFacts& head) const;
  double LeastLargestScore(const ScoreErrors& errors, const Row& row) const;
  double LargestFiller(const ScoreErrors& errors, const Row& row, int64_t key) const;
  bool ScoreMayOverflow(HeadFacts& head, const Row& row, int64_t key) const;
  bool HiddenMayOverflow(HeadFacts& head, const Row& row) const;
  bool VisibleMayOverflow(HeadFacts& head, const Row& row) const;
  double HiddenValueSum(const Row& row, int64_t lane) const;
  bool QueryMayOverflow(const Row& row) const;

  const Problem& p_;
  const Inputs& inputs_;
  const Reference& reference_;
  const Roundings& r_;
  const ScoreSteps<double> steps_;
  const std::optional<MaskingValue> filler_;
  const unsigned safe_keys_, safe_values_;  // mechanisms whose hidden data are never looked at
};

}  // namespace attest

#endif  // ATTEST_REFERENCE_BOUND_RANGE_H_
