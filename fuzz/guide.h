// What steers libFuzzer beside coverage: extra counters for the bins that a case falls into and for
// how near the results of a kernel come to their error bound. Black boxes without instrumentation
// are searched by these alone, and correct kernels are pushed towards the bound, which tests the
// bound. Fuzz targets call this; the environment variable ATTEST_FUZZ_GUIDE switches parts off.
#ifndef ATTEST_FUZZ_GUIDE_H_
#define ATTEST_FUZZ_GUIDE_H_

#include <cstdint>

#include "properties/harness/case/case.h"
#include "properties/harness/judge/evidence.h"

namespace attest {

// ATTEST_FUZZ_GUIDE: "none", "bins", or "all" (the default).
enum class Guidance { kNone, kBins, kAll };
Guidance GuidanceInForce();

// Both count into Figures() too (status.h).
void GuideByBins(const Case& c);

// Looks at the first case of the evidence, at most 16 of its rows.
void GuideByError(const Evidence& evidence);

// Where a ratio of error and bound stands among the levels of the counters, in steps of the square
// root of 2: 0 for next to nothing up to 2^-12, 24 for the bound itself and beyond.
int ErrorLevel(double ratio);

}  // namespace attest

#endif  // ATTEST_FUZZ_GUIDE_H_
