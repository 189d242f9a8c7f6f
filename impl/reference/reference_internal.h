// What the double and the extended reference have in common: the way from a product q.k to what is
// exponentiated, and empty rows whose value the contract states as a number. For this folder only.
#ifndef ATTEST_REFERENCE_REFERENCE_INTERNAL_H_
#define ATTEST_REFERENCE_REFERENCE_INTERNAL_H_

#include <cmath>
#include <limits>
#include <optional>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"
#include "impl/reference/double_double.h"

namespace attest {

inline double Tanh(double x) {
  return std::tanh(x);
}

// The steps of a score after scale * q.k. Real is double or DoubleDouble. All must outlive it.
template <typename Real>
class ScoreSteps {
 public:
  ScoreSteps(const Problem& p, const Inputs& inputs, const Semantics& semantics)
      : p_(p),
        inputs_(inputs),
        caps_first_(p.softcap > 0 && semantics.softcap_order == SoftcapOrder::kBeforeBias),
        caps_last_(p.softcap > 0 && semantics.softcap_order == SoftcapOrder::kAfterBias) {}

  // After the softcap, of any key; bias and ALiBi are in it where they come first. `scaled` itself
  // without a softcap.
  Real Capped(const Row& row, int64_t key, const Real& scaled) const {
    if (caps_last_) {
      // An additive -inf is none of double-double's numbers. It does not undo a NaN.
      if (HidesByBias(row, key)) return IsNan(scaled) ? scaled : Real{-p_.softcap};
      return Cap(Added(row, key, scaled, /*biased=*/true));
    }
    return caps_first_ ? Cap(scaled) : scaled;
  }

  // What is exponentiated. Not `biased`: as if no additive mask were there.
  Real Final(const Row& row, int64_t key, const Real& scaled, bool biased) const {
    const Real sum = Added(row, key, caps_first_ ? Cap(scaled) : scaled, biased);
    return caps_last_ ? Cap(sum) : sum;
  }

 private:
  static bool IsNan(double x) { return std::isnan(x); }
  static bool IsNan(const DoubleDouble& x) { return std::isnan(x.high); }

  bool HidesByBias(const Row& row, int64_t key) const {
    return p_.bias && !p_.bias->At(row.batch, row.head, row.query, key);
  }

  Real Cap(const Real& x) const { return Tanh(x / Real{p_.softcap}) * p_.softcap; }

  Real Added(const Row& row, int64_t key, Real score, bool biased) const {
    if (biased && p_.bias) {
      score = score + inputs_.bias.Broadcast(row.batch, row.head, row.query, key);
    }
    if (p_.alibi_slopes) {
      const int64_t ahead = key - row.query - p_.DiagonalOffset(row.batch);
      const auto distance = static_cast<double>(ahead < 0 ? -ahead : ahead);
      score = score + Real{-(*p_.alibi_slopes)[static_cast<size_t>(row.head)]} * distance;
    }
    return score;
  }

  const Problem& p_;
  const Inputs& inputs_;
  const bool caps_first_, caps_last_;
};

// The sink of a query head, if there is one.
inline std::optional<double> SinkOf(const Problem& p, int64_t head) {
  if (!p.sinks) return std::nullopt;
  return (*p.sinks)[static_cast<size_t>(head)];
}

inline double LseOfEmptyRow(LseEmptyRow what) {
  switch (what) {
    case LseEmptyRow::kPlusInf:
      return std::numeric_limits<double>::infinity();
    case LseEmptyRow::kNan:
      return std::numeric_limits<double>::quiet_NaN();
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

// The number that every lane of an empty row holds; nullopt where the row is to be computed:
// kUnmasked is the softmax over all keys as if nothing were hidden, and there were no additive mask;
// kMeanValue their plain mean.
inline std::optional<double> ConstantOfEmptyRow(EmptyRow what, const Problem& p) {
  if (what == EmptyRow::kNan) return std::numeric_limits<double>::quiet_NaN();
  const bool computed = what == EmptyRow::kMeanValue || what == EmptyRow::kUnmasked;
  if (computed && p.kv_len > 0) return std::nullopt;
  return 0.0;
}

}  // namespace attest

#endif  // ATTEST_REFERENCE_REFERENCE_INTERNAL_H_
