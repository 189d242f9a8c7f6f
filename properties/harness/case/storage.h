// What storage and shared heads ask of the rest of a case, and how a case that was changed is
// brought back in line with them. Validate calls the one; the shrinker and the properties'
// derivations, which change problems and data, call the other.
#ifndef ATTEST_HARNESS_CASE_STORAGE_H_
#define ATTEST_HARNESS_CASE_STORAGE_H_

#include <optional>
#include <string>

#include "properties/harness/case/case.h"

namespace attest {

// Nullopt where storage and shared heads may stand, else one line: field and remedy. Of k and v
// with the layout kSharedHead and several heads no literal may differ between heads, and no
// override may name an element. The problem must be valid.
std::optional<std::string> CheckStorage(const Case& c);

// Drops what CheckStorage refuses. The data stay the same: a tensor whose heads no longer agree
// gets memory of its own for each, and is written out as a literal where it was a recipe with
// overrides.
void MendStorage(Case& c);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_STORAGE_H_
