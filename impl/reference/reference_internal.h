// What the double and the extended reference have in common: empty rows whose value the contract
// states as a number. For this folder only.
#ifndef ATTEST_REFERENCE_REFERENCE_INTERNAL_H_
#define ATTEST_REFERENCE_REFERENCE_INTERNAL_H_

#include <limits>
#include <optional>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"

namespace attest {

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
// kUnmasked is the softmax over all keys as if nothing were hidden, kMeanValue their plain mean.
inline std::optional<double> ConstantOfEmptyRow(EmptyRow what, const Problem& p) {
  if (what == EmptyRow::kNan) return std::numeric_limits<double>::quiet_NaN();
  const bool computed = what == EmptyRow::kMeanValue || what == EmptyRow::kUnmasked;
  if (computed && p.kv_len > 0) return std::nullopt;
  return 0.0;
}

}  // namespace attest

#endif  // ATTEST_REFERENCE_REFERENCE_INTERNAL_H_
