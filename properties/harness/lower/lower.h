// The one conversion between canonical cases and a contract's calls: polarity, diagonal, window
// count, layout, storage, element type on the way down; bytes to canonical doubles on the way up. It
// changes the representation only, so a kernel's author converts nothing and no property knows a
// convention.
#ifndef ATTEST_HARNESS_LOWER_LOWER_H_
#define ATTEST_HARNESS_LOWER_LOWER_H_

#include <string>

#include <tl/expected.hpp>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"
#include "properties/harness/judge/outcome.h"
#include "properties/harness/sandbox/call.h"

namespace attest {

struct Lowered {
  Call call;
  bool via_mask = false;  // some feature became an explicit or additive mask
};

// Why a contract cannot take a case, in one phrase ("dtype bf16 is not offered"). Not a failure.
struct Unsupported {
  std::string reason;
};

// `inputs` must be Materialise(c).
tl::expected<Lowered, Unsupported> Lower(const Case& c, const Inputs& inputs,
                                         const Contract& contract);

// Turns what came back into an outcome. A kernel that answers UNSUPPORTED is taken at its word only
// where the contract does not promise the features of the call; otherwise it is kRefused.
Outcome Lift(const Case& c, const Contract& contract, const Lowered& lowered,
             const CallResult& result);

}  // namespace attest

#endif  // ATTEST_HARNESS_LOWER_LOWER_H_
