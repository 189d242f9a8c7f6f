// The reference results of the cases at hand, with their error bounds, computed when first asked
// for. One Oracle lives as long as the judging of one property on one case.
#ifndef ATTEST_HARNESS_JUDGE_ORACLE_H_
#define ATTEST_HARNESS_JUDGE_ORACLE_H_

#include <memory>
#include <span>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/reference/bound.h"
#include "impl/reference/gradient.h"
#include "impl/reference/reference.h"
#include "properties/harness/case/case.h"

namespace attest {

class Oracle {
 public:
  // `cases` must outlive the oracle, unchanged. Those that are the same computation share its results.
  Oracle(std::span<const Case> cases, const Contract& contract);

  // Whether two of them are.
  bool AreSame(size_t a, size_t b) const { return owners_[a] == owners_[b]; }

  const Inputs& InputsOf(size_t index);
  // The reference under the contract's semantics: out, lse and weights.
  const Reference& ReferenceOf(size_t index);
  // The error bound beside it; its rows are computed when asked for.
  ErrorBound& BoundOf(size_t index);
  // The gradients of a case that wants them, and their error bound.
  const Gradient& GradientOf(size_t index);
  const Gradient& GradientBoundOf(size_t index);

 private:
  struct Entry {
    std::unique_ptr<Inputs> inputs;
    std::unique_ptr<Reference> reference;
    std::unique_ptr<ErrorBound> bound;
    std::unique_ptr<Gradient> gradient, gradient_bound;
  };
  Entry& EntryOf(size_t index) { return entries_[owners_[index]]; }

  std::span<const Case> cases_;
  const Contract& contract_;
  std::vector<Entry> entries_;  // empty where another owns what the case needs
  std::vector<size_t> owners_;  // of each case: the first that is the same computation
};

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_ORACLE_H_
