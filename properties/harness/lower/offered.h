// What a contract takes of a case at all: element types, sizes, layouts, and the features that no
// mask can stand for. Private to the lowering.
#ifndef ATTEST_HARNESS_LOWER_OFFERED_H_
#define ATTEST_HARNESS_LOWER_OFFERED_H_

#include <optional>
#include <string>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"

namespace attest {

using MaybeReason = std::optional<std::string>;  // nullopt = supported

// Why the contract cannot take the case whatever becomes of its masks, in one phrase.
MaybeReason WhyNotOffered(const Case& c, const Contract& contract);

// Whether the kernel is told of query lengths. Where it cannot be, and nothing is promised of rows
// beyond them or they are rows like any other, the call leaves them out.
bool PassesQueryLengths(const Case& c, const Contract& contract);

// Whether causal, windowed and ALiBi calls carry the diagonal offsets: one implicit rule needs no
// tensor, a choice does.
bool PassesDiagonalTensor(const Contract& contract);

// Whether the diagonal that the kernel takes is the problem's own. `asked` is the case's problem
// with the key lengths that the kernel is told of.
bool ExpressesDiagonal(const Case& c, const Problem& asked, const Contract& contract);

}  // namespace attest

#endif  // ATTEST_HARNESS_LOWER_OFFERED_H_
