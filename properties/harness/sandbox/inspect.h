// What the harness looks at in the arena after a call: are the inputs as they were, is everything
// beside the outputs untouched, is every output element written.
#ifndef ATTEST_HARNESS_SANDBOX_INSPECT_H_
#define ATTEST_HARNESS_SANDBOX_INSPECT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

// The first output of the call that is no longer what the worker's digest says it was when the call had returned.
// `outputs` is the number of outputs of the request's calls before this one; those of this one are added.
std::optional<Fault> FindSpoiled(const Arena& arena, const PlacedCall& placed, size_t* outputs);

// The first byte of an output that has changed since `outputs` were copied.
std::optional<Fault> FindLateWrite(const Arena& arena, const PlacedCall& placed,
                                   const OutputImages& outputs);

// The outputs of the last calls, which their kernel must leave alone from then on. Watches them without a
// copy: a changed byte is sure to be noticed, though not which.
class SettledOutputs {
 public:
  void Keep(const Arena& arena, std::span<const PlacedCall> calls);
  void Forget() { outputs_.clear(); }
  // A fault where some output has changed since Keep.
  std::optional<Fault> FindLateWrite(const Arena& arena) const;

 private:
  struct Output {
    int32_t role;
    uint64_t offset, bytes;
    uint64_t digest;
  };
  std::vector<Output> outputs_;
};

// True when some element of some output consists of the fill alone: unwritten, or a value that
// happens to look like it. Elements that may stay unwritten do not count, here and below.
bool HasFillLeft(const Call& call, const OutputImages& outputs, std::byte fill);

// Elements that kept the fill in two runs under different fills.
std::optional<Fault> FindUnwritten(const Call& call, const OutputImages& first,
                                   std::byte first_fill, const OutputImages& second,
                                   std::byte second_fill);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_INSPECT_H_
