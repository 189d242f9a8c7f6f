// A case made into one that a contract takes, so that a kernel which offers little is not asked for
// the rest all night. Fuzz targets narrow every case by it; what attest's own contract takes stays
// as it is.
#ifndef ATTEST_FUZZ_OFFERED_CASE_H_
#define ATTEST_FUZZ_OFFERED_CASE_H_

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"

namespace attest {

// Drops features, cuts sizes, moves the diagonal. `c` must be valid, and so is the result. What a
// mask can stand for is left to the lowering where there is a mask.
Case OfferedCase(const Case& c, const Contract& contract);

}  // namespace attest

#endif  // ATTEST_FUZZ_OFFERED_CASE_H_
