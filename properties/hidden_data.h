// The claim that several families share: what is hidden from a row takes no part in it. Derive
// changes K, V or both at keys that one row may not see; Judge holds every row that sees none of
// the changed keys to its old result. Families differ only in what hides the keys.
#ifndef ATTEST_PROPERTIES_HIDDEN_DATA_H_
#define ATTEST_PROPERTIES_HIDDEN_DATA_H_

#include "properties/property.h"

namespace attest {

enum class Change {
  kFinite,        // K and V redrawn, then large but unable to overflow a score
  kPoisonKeys,    // K set to NaN, +Inf, -Inf
  kPoisonValues,  // V likewise
};

// Changes keys of `c` that the mechanisms `reasons` (bits of HiddenBy) hide from some row. Not
// applicable where they hide none.
Derived DeriveHiddenChange(const Case& c, unsigned reasons, Change change);

// Bit for bit where the contract promises it (hidden_values), else within the bounds.
Verdict JudgeHiddenChange(const Evidence& evidence);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_HIDDEN_DATA_H_
