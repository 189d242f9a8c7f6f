// A case with other sizes, grown or cut: masks, lengths and data follow. The mutator's way to change a
// size, and how a case grows to what a kernel's contract takes.
#ifndef ATTEST_FUZZ_RESIZE_H_
#define ATTEST_FUZZ_RESIZE_H_

#include <optional>

#include "properties/harness/case/case.h"

namespace attest {

// `c` with the seven sizes of `sizes`, by way of its record, in which sizes stand apart from all that
// hangs on them. Nullopt where no record holds the case or the sizes.
std::optional<Case> Resized(const Case& c, const Problem& sizes);

}  // namespace attest

#endif  // ATTEST_FUZZ_RESIZE_H_
