// Coverage of the problem space: every case falls into one bin of each dimension (dtype, mask form,
// alignment, head ratio, tail, empty rows, layout, storage, families, flag pairs). Reports say
// which required bins were reached and name those that were not.
#ifndef ATTEST_HARNESS_CASE_BINS_H_
#define ATTEST_HARNESS_CASE_BINS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"

namespace attest {

// The names of the bins that a case falls into: "dtype=f32", "empty_rows=middle",
// "pair=causal+mask", ...
std::vector<std::string> BinsOf(const Case& c);
// Those of a call that had a backward pass: "gradients=any", "gradients=softcap", ...; none of others.
std::vector<std::string> GradientBinsOf(const Case& c);

// The bins that a contract makes reachable; a plan must reach them all.
std::vector<std::string> RequiredBins(const Contract& contract);

// Counts cases by bin. Not thread-safe.
class BinCounts {
 public:
  void Add(const Case& c);
  // Counts the call of a case, which a property may have derived, among the backward passes.
  void AddGradients(const Case& call);
  void Merge(const BinCounts& other);
  void Merge(const std::map<std::string, int64_t>& counts);
  const std::map<std::string, int64_t>& counts() const { return counts_; }
  // Required bins with a count of zero, sorted.
  std::vector<std::string> Missing(const Contract& contract) const;

 private:
  std::map<std::string, int64_t> counts_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_BINS_H_
