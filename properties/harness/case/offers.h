// What a contract offers, in the terms that generators and bins share: element types, layouts, and
// the placements of the diagonal that its causal flag can express.
#ifndef ATTEST_HARNESS_CASE_OFFERS_H_
#define ATTEST_HARNESS_CASE_OFFERS_H_

#include <string_view>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"

namespace attest {

// Where the diagonal stands. One set of offsets may be several of these at once (all are zero where
// q_len = kv_len); ClassifyAlignment returns the first that fits.
enum class Alignment { kNone, kTopLeft, kBottomRight, kKeyLength, kExplicit };
std::string_view Name(Alignment alignment);  // "none" "top_left" "bottom_right" ...

// True when causality, a window or ALiBi makes the diagonal matter.
bool LooksAtDiagonal(const Problem& problem);

// kNone when nothing looks at the diagonal.
Alignment ClassifyAlignment(const Problem& problem);

// The offsets [batch] of an alignment for the problem's sizes and lengths; top-left is empty. Not
// for kNone and kExplicit, which give an empty vector too.
std::vector<int64_t> OffsetsFor(Alignment alignment, const Problem& problem);

// The alignments that a contract can express for a problem with or without key lengths.
std::vector<Alignment> OfferedAlignments(const Contract& contract, bool has_key_lengths);

// Whether there is any, with key lengths or without.
bool OffersDiagonal(const Contract& contract);

// Whether the contract's causal flag (or window) can mean the problem's own diagonal.
bool CanExpressDiagonal(const Contract& contract, const Problem& problem);

// Makes the problem's window one that a call can give: without a right end, or with causality.
void FitWindow(const Contract& contract, Problem& problem);

// Whether a call can give the problem's window and causality, whatever its diagonal.
bool OffersWindow(const Contract& contract, const Problem& problem);

// The first calls to a cache that the contract takes.
std::vector<FirstCall> OfferedFirstCalls(const Contract& contract);

// Whether the call asks for the present outputs.
bool AsksForPresent(const Case& c, const Contract& contract);

// Never empty: f32 and bhsd where a contract names nothing. The layouts are those of every tensor;
// k and v may also share heads where the second list says so.
std::vector<DType> OfferedDTypes(const Contract& contract);
std::vector<Layout> OfferedLayouts(const Contract& contract);
std::vector<Layout> OfferedKeyLayouts(const Contract& contract);

// Whether each tensor's layout is one that the contract offers for it.
bool OffersLayouts(const Contract& contract, const Layouts& layouts);

// A contract that offers everything, to draw cases that a kernel may have to refuse.
const Contract& EverythingContract();

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_OFFERS_H_
