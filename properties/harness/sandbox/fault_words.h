// How faults are worded: names of roles and elements, and the sentences that place a fault in a
// tensor. Distances count whole elements, in bytes: the first element past the end of an f32 tensor
// is 4 bytes past it, the last one before its beginning -4.
#ifndef ATTEST_HARNESS_SANDBOX_FAULT_WORDS_H_
#define ATTEST_HARNESS_SANDBOX_FAULT_WORDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "properties/harness/sandbox/call.h"

namespace attest {

// "q" "key_lengths" "out" ...; "role 77" for a role without a name.
std::string RoleName(int32_t role);

// "batch 0, head 1, key 2, lane 3" for an element of a tensor of this role; "element 0, 1" where
// the role has no words for its axes; "the only element" for rank 0.
std::string ElementName(int32_t role, std::span<const int64_t> index);

// A fault at byte `offset` of the tensor's image, which may lie outside it. `verb` is "read" or
// "wrote": "wrote 4 bytes past the end of out, nearest to batch 0, head 1, query 2, lane 7".
Fault FaultAt(FaultKind kind, std::string_view verb, const CallTensor& tensor, int64_t offset);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_FAULT_WORDS_H_
