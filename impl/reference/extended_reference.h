// The reference in double-double arithmetic (106 bits), rounded to double at the end: for kernels
// that accumulate in f64, whose errors a double reference could not tell from its own. Costs about
// three times as much.
#ifndef ATTEST_REFERENCE_EXTENDED_REFERENCE_H_
#define ATTEST_REFERENCE_EXTENDED_REFERENCE_H_

#include "impl/reference/reference.h"

namespace attest {

// Same results and same treatment of empty rows as ComputeReference. Each is within half an ulp of
// the exact value, plus (n + 3) * 2^-78 of the magnitudes that its sums of n terms add up (2^-70 up
// to 253 terms, 2^-66 up to 4093; for a score's error the terms are those of q.k, and out, lse and
// weights inherit it), plus 2^-1073 for each product below 2^-968. Rows in which something
// is not finite, visible data, a sum on the way or a result, are ComputeReference's to the bit.
Reference ComputeExtendedReference(const Problem& problem, const Inputs& inputs,
                                   const Semantics& semantics);

// Whether kernels of this profile are judged against the extended reference.
bool NeedsExtendedReference(const NumericsProfile& profile);

// The reference that `contract` is judged by: extended where its profile for the problem's dtype
// asks for it, else double; under the contract's semantics.
Reference ReferenceFor(const Problem& problem, const Inputs& inputs, const Contract& contract);

}  // namespace attest

#endif  // ATTEST_REFERENCE_EXTENDED_REFERENCE_H_
