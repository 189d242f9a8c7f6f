// Whether everything that computes attention here says the same of a small case: the two
// references, which share no code, and kernels called in this process. One sentence says who
// differs from whom. Callers: the small-scope sweep.
#ifndef ATTEST_EXHAUSTIVE_AGREEMENT_H_
#define ATTEST_EXHAUSTIVE_AGREEMENT_H_

#include <optional>
#include <string>
#include <vector>

#include "impl/abi/testing/direct_call.h"
#include "impl/attention/contract.h"
#include "impl/reference/reference.h"
#include "properties/harness/case/case.h"

namespace attest {

// A kernel that keeps attest's own conventions, and its name on the command line.
struct SweptKernel {
  std::string name;
  DirectKernel kernel;
};

// What the kernels are held to: "attest-1", whose hidden keys and values do no harm wherever they
// hide.
const Contract& SweepContract();

struct Disagreement {
  std::string kernel;    // whose result differs; empty where the references differ
  std::string sentence;  // "out[1, 0, 2, 0] is 0.5, expected 0.25 (within 1e-07)"
};

// Compares visibility (visibility.h) with the keys that have weight in the scalar reference, and
// `reference`, which must be ComputeReference's under that order, with it to 12 digits.
std::optional<Disagreement> CompareReferences(const Problem& problem, const Inputs& inputs,
                                              const Reference& reference, SoftcapOrder order);

// Everything at once: the references, with a softcap in both its orders, then each kernel within
// the worst-case bound of SweepContract. Returns the first disagreement of each.
std::vector<Disagreement> Disagreements(const Case& c, const std::vector<SweptKernel>& kernels);

}  // namespace attest

#endif  // ATTEST_EXHAUSTIVE_AGREEMENT_H_
