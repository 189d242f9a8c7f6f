// Are two computations of the same logits the same? Bit for bit where the contract promises bits; where it does
// not, they may differ as two roundings of one number do. Callers: the model's properties.
//
// The line between a rounding and a fault. Nothing is known of a model's arithmetic but the format that it computes
// in (the contract's precision, else that of its logits), with 2u the distance of 1 to the next number. Two orders of summation of n terms differ by at most
// 2 (n - 1) u sum|terms| (Higham, Accuracy and Stability, 4.2); layers magnify that by the model's condition.
// A row's logits come out of such sums, so that with k for n times the condition and all of |terms| over |logits|,
// their difference is at most k 2u max|logit|. The line is drawn at
//
//     |a - b| <= sqrt(2u) max|logit|,        k <= 1 / sqrt(2u)
//
// half of the digits: 2896 for f32, 6.7e7 for f64, 32 for f16, 11 for bf16. A model that loses more than half of the
// digits that it returns to the order of its sums has no use for the other half, and is called wrong. What a real
// dependency changes by less than that share of the largest logit passes: that is the price of not promising
// bits, and such a difference is shown as MARGINAL (`bits`). No chance is involved: the same differences come
// every time, so that there is no false-alarm rate but that of the assumption, k.
#ifndef ATTEST_HARNESS_MODEL_COMPARE_LOGITS_H_
#define ATTEST_HARNESS_MODEL_COMPARE_LOGITS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "properties/harness/judge/verdict.h"
#include "properties/harness/model/contract.h"
#include "properties/harness/model/lab.h"

namespace attest {

// Whether all numbers are the same: signed zeros are, and any NaN is any other.
bool SameLogits(std::span<const double> a, std::span<const double> b);

// The largest difference that two roundings of a row of logits may have, computed in `precision`.
double RoundingOf(std::span<const double> a, std::span<const double> b, DType precision);

// Collects comparisons of rows that ought to be the same into one verdict.
class LogitsComparison {
 public:
  // `promised`: whether the contract promises bits here.
  LogitsComparison(const ModelContract& contract, bool promised)
      : contract_(contract), promised_(promised) {}

  // `item` and `token` name the row; `what` what has been done to it: "fed to the cache in chunks".
  // The first failing row is kept, in the trace of the answers too. True where the rows are fine.
  bool Row(const LogitsRow& expected, const LogitsRow& observed, size_t item, size_t token,
           const std::string& what);

  // Allows a further share of a row's largest logit, where something beside the order of sums rounds.
  void Allow(double share) { more_ = share; }

  bool has_failed() const { return verdict_.kind == VerdictKind::kFail; }
  Verdict& verdict() { return verdict_; }
  Verdict Finish() { return std::move(verdict_); }

 private:
  const ModelContract& contract_;
  const bool promised_;
  double more_ = 0;
  Verdict verdict_;
};

// "the logits at token 3 of item 0".
std::string RowName(size_t item, size_t token);

// A failure that is no comparison: the claim's own sentence.
Verdict ModelFailure(Cause cause, std::string output, std::string sentence);
// INCONCLUSIVE with a reason that means: the case says nothing of the claim.
Verdict SaysNothing(std::string reason);

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_COMPARE_LOGITS_H_
