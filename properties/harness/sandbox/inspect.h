// What the harness looks at in the arena after a call: are the inputs as they were, is everything
// beside the outputs untouched, is every output element written.
#ifndef ATTEST_HARNESS_SANDBOX_INSPECT_H_
#define ATTEST_HARNESS_SANDBOX_INSPECT_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/call.h"

namespace attest {

using OutputImages = std::vector<std::vector<std::byte>>;

// The first input, slack included, that differs from what was placed. The worker maps inputs
// read-only, so this takes a kernel that goes around the mapping.
std::optional<Fault> FindChangedInput(const Arena& arena, const PlacedCall& placed);

// The byte nearest to an output's elements that changed in its slack or gaps.
std::optional<Fault> FindStrayWrite(const Arena& arena, const PlacedCall& placed);

// The outputs' images, in the order of the call's outputs.
OutputImages CopyOutputs(const Arena& arena, const PlacedCall& placed);

// True when some element of some output consists of the fill alone: unwritten, or a value that
// happens to look like it. Elements that may stay unwritten do not count, here and below.
bool HasFillLeft(const Call& call, const OutputImages& outputs, std::byte fill);

// Elements that kept the fill in two runs under different fills.
std::optional<Fault> FindUnwritten(const Call& call, const OutputImages& first,
                                   std::byte first_fill, const OutputImages& second,
                                   std::byte second_fill);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_INSPECT_H_
