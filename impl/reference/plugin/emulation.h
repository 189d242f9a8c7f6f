// The reference with another system's conventions: it takes what a published contract offers and
// nothing else, reads it as that contract says, and answers likewise. `reference?contract=jax` is one
// of these. They let the harness be tried against every convention without any of those systems.
#ifndef ATTEST_REFERENCE_PLUGIN_EMULATION_H_
#define ATTEST_REFERENCE_PLUGIN_EMULATION_H_

#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "impl/abi/call_view.h"
#include "impl/attention/contract.h"
#include "impl/reference/reference.h"

namespace attest {

class Emulation {
 public:
  // The error is one line, for an unknown name.
  static tl::expected<Emulation, std::string> Of(const std::string& name);

  const Contract& contract() const { return contract_; }

  // Why the contract does not take the call (ATTEST_UNSUPPORTED); nullopt where it does. A rank below
  // 4 is not seen in a view, so those are always taken.
  std::optional<CallError> WhyRefused(const CallView& call) const;

  // Turns a problem that was read word by word from `call` into what the contract means by it: mask
  // polarity, diagonal, what a window counts.
  void Canonicalise(const CallView& call, Problem& problem) const;

  // The answer to a canonical problem: empty rows, the masking value and the base of the lse are
  // those of the contract. Of what it leaves open: 0 and -inf, or whatever the masking value leads to.
  Reference Compute(const Problem& problem, const Inputs& inputs) const;

 private:
  explicit Emulation(Contract contract) : contract_(std::move(contract)) {}

  Contract contract_;
};

}  // namespace attest

#endif  // ATTEST_REFERENCE_PLUGIN_EMULATION_H_
