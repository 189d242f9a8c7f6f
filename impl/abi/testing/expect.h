// Comparisons that the kernels' unit tests share: against the double reference, and bit for bit.
#ifndef ATTEST_ABI_TESTING_EXPECT_H_
#define ATTEST_ABI_TESTING_EXPECT_H_

#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "impl/abi/testing/direct_call.h"
#include "impl/attention/contract.h"
#include "impl/reference/bound.h"
#include "impl/reference/extended_reference.h"
#include "impl/reference/gradient.h"
#include "impl/reference/testing.h"

namespace attest {

// The first element beyond the bound, or success. NaN must meet NaN, an infinity the same infinity.
inline testing::AssertionResult WithinBound(const std::string& name, const Array& actual,
                                            const Array& expected, const Array& bound) {
  if (actual.shape != expected.shape) return testing::AssertionFailure() << name << ": shape";
  for (size_t n = 0; n < actual.values.size(); ++n) {
    const double a = actual.values[n];
    const double e = expected.values[n];
    if (a == e || (std::isnan(a) && std::isnan(e)) || std::isinf(bound.values[n])) continue;
    if (std::abs(a - e) <= bound.values[n]) continue;
    return testing::AssertionFailure() << name << "[" << n << "] is " << a << ", expected " << e
                                       << " within " << bound.values[n];
  }
  return testing::AssertionSuccess();
}

// W of the scores that the problem asks for; zeros elsewhere.
inline Array ScoreBoundOf(const Problem& p, ErrorBound& bound) {
  Array scores(p.WeightsShape());
  ForEachRow(p, [&](const Row& row) {
    const std::vector<double>& numbers = bound.WorstOf(row).scores;
    for (size_t j = 0; j < numbers.size(); ++j) {
      scores.At(row.batch, row.head, row.query, static_cast<int64_t>(j)) = numbers[j];
    }
  });
  return scores;
}

// A result (out, and what else the problem wants) against the reference within the worst-case bound,
// under contract attest-1.
inline testing::AssertionResult MatchesReference(const Problem& p, const Inputs& inputs,
                                                 const DirectResult& result) {
  static const Contract kContract = *ParseContract(R"({"contract": "attest-1"})");
  if (result.status != ATTEST_OK) return testing::AssertionFailure() << result.message;
  const Reference reference = ReferenceFor(p, inputs, kContract);
  ErrorBound error_bound(p, inputs, reference, kContract);
  const BoundArrays bound = ArraysOf(p, error_bound, &ErrorBound::WorstOf);
  auto match = WithinBound("out", result.out, reference.out, bound.out);
  if (match && p.want_lse) match = WithinBound("lse", result.lse, reference.lse, bound.lse);
  if (match && p.want_weights) {
    match = WithinBound("weights", result.weights, reference.weights, bound.weights);
  }
  if (match && p.want_scores) {
    match =
        WithinBound("scores", result.scores, reference.asked_scores, ScoreBoundOf(p, error_bound));
  }
  return match;
}

// The same of the gradients of a problem that wants them.
inline testing::AssertionResult MatchesGradient(const Problem& p, const Inputs& inputs,
                                                const DirectResult& result) {
  static const Contract kContract = *ParseContract(R"({"contract": "attest-1"})");
  if (result.status != ATTEST_OK) return testing::AssertionFailure() << result.message;
  const Reference reference = ReferenceFor(p, inputs, kContract);
  ErrorBound error_bound(p, inputs, reference, kContract);
  const Gradient due = ComputeGradient(p, inputs, reference, kContract.semantics);
  const Gradient bound = BoundGradient(p, inputs, reference, due, error_bound, kContract);
  auto match = WithinBound("dq", result.dq, due.dq, bound.dq);
  if (match) match = WithinBound("dk", result.dk, due.dk, bound.dk);
  if (match) match = WithinBound("dv", result.dv, due.dv, bound.dv);
  if (match && p.bias && !result.dbias.empty()) {
    match = WithinBound("dbias", result.dbias, due.dbias, bound.dbias);
  }
  if (match && p.sinks && !result.dsink.empty()) {
    match = WithinBound("dsink", result.dsink, due.dsink, bound.dsink);
  }
  return match;
}

// Equal values, NaN equal to NaN and 0 to -0: what "the same bits" means in this project.
inline bool SameBits(const Array& a, const Array& b) {
  if (a.shape != b.shape) return false;
  for (size_t n = 0; n < a.values.size(); ++n) {
    if (a.values[n] != b.values[n] && !(std::isnan(a.values[n]) && std::isnan(b.values[n]))) {
      return false;
    }
  }
  return true;
}

inline bool SameBits(const DirectResult& a, const DirectResult& b) {
  return a.status == b.status && SameBits(a.out, b.out) && SameBits(a.lse, b.lse) &&
         SameBits(a.weights, b.weights) && SameBits(a.scores, b.scores) &&
         SameBits(a.present_k, b.present_k) && SameBits(a.present_v, b.present_v) &&
         SameBits(a.dq, b.dq) && SameBits(a.dk, b.dk) && SameBits(a.dv, b.dv) &&
         SameBits(a.dbias, b.dbias) && SameBits(a.dsink, b.dsink);
}

}  // namespace attest

#endif  // ATTEST_ABI_TESTING_EXPECT_H_
