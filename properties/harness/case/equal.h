// When two cases are the same case: every field, any NaN equal to any NaN, +0 and -0 apart. The
// codecs, the shrinker and the oracle ask; tests of round trips do too.
#ifndef ATTEST_HARNESS_CASE_EQUAL_H_
#define ATTEST_HARNESS_CASE_EQUAL_H_

#include "properties/harness/case/case.h"

namespace attest {

// Same bits, or both NaN.
bool SameValue(double a, double b);

// Whether both are the same problem over the same tensors, however these are laid out and stored: then
// they have the same answer.
bool SameComputation(const Case& a, const Case& b);

// `origin` is free text and does not count.
bool SameCase(const Case& a, const Case& b);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_EQUAL_H_
