// The groups of shrink candidates, for shrink.cc alone. They offer freely: shrink.cc drops what is
// invalid, a duplicate, or not smaller by CaseMeasure.
#ifndef ATTEST_HARNESS_CASE_SHRINK_INTERNAL_H_
#define ATTEST_HARNESS_CASE_SHRINK_INTERNAL_H_

#include <cstdint>
#include <vector>

#include "properties/harness/case/case.h"

namespace attest {

// Offers a copy of the case with `change` done to it.
template <typename Change>
void Offer(const Case& c, std::vector<Case>& out, Change&& change) {
  out.push_back(c);
  change(out.back());
}

// Features off: mask, bias, causality, window, lengths, outputs, scale, layouts, element type.
void OfferFeaturesOff(const Case& c, std::vector<Case>& out);

// Batch items, heads, lengths and dimensions, alone and jointly, cut at the end and at the front.
void OfferSmallerSizes(const Case& c, std::vector<Case>& out);

// Simpler values of the options that stay: window sides, offsets, lengths, layouts, types.
void OfferSimplerOptions(const Case& c, std::vector<Case>& out);

// Softcap, ALiBi, sinks, documents, prefixes, block mask, dropout, query lengths, 8-bit inputs,
// scores and storage off; and simpler values of those that stay.
void OfferExtrasOff(const Case& c, std::vector<Case>& out);
void OfferSimplerExtras(const Case& c, std::vector<Case>& out);

// Fewer mask bits that hide, and fewer extents: of the mask, the bias, the block mask and dropout.
void OfferSimplerPlanes(const Case& c, std::vector<Case>& out);

// The bias's data go: literal and overrides.
void DropBiasData(Case& c);

// Simpler data: families, literals, overrides, seed.
void OfferSimplerData(const Case& c, std::vector<Case>& out);

// Offers `after` with each placement of the diagonal that says the same of it as `before`'s said of
// `before`: the same keys, and the same alignment (kernels that know one alignment only need that).
void OfferAligned(const Problem& before, const Case& after, std::vector<Case>& out);

// How hard a number is to read: 0 for 0, then 1, small integers, short fractions, the rest.
uint64_t ValueCost(double value);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_SHRINK_INTERNAL_H_
