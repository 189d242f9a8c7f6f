// What a finished call left in the arena: outputs taken out, and everything that should not have
// happened to memory found. Pure reading; the arena is not changed.
#ifndef ATTEST_HARNESS_SANDBOX_CALL_INSPECTION_H_
#define ATTEST_HARNESS_SANDBOX_CALL_INSPECTION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "properties/harness/sandbox/arena.h"

namespace attest {

// "q" "k" "mask" "lse" ..., or "role 17" for one without a short name.
std::string RoleName(int32_t role);

// "k[batch 0, head 1, key 3, lane 2]"; the index may be empty.
std::string DescribeElement(int32_t role, const std::vector<int64_t>& index);

// A changed input, else a byte written beside an output's elements (in its slack or its gaps).
std::optional<Fault> FindStrayChange(const Arena& arena, const PlacedCall& placed);

// The storage of each output in the call's order.
std::vector<std::vector<std::byte>> TakeOutputs(const Arena& arena, const PlacedCall& placed);

// Which elements of each output still hold the fill, as indices in iteration order.
using FilledElements = std::vector<std::vector<size_t>>;
FilledElements FindFilled(const Arena& arena, const PlacedCall& placed);

// The fault of elements that kept both fills; nullopt when there are none. `first` and `second` are
// what FindFilled gave for the same call under two fills.
std::optional<Fault> FindUnwritten(const Call& call, const FilledElements& first,
                                   const FilledElements& second);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_CALL_INSPECTION_H_
