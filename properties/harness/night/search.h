// The property search of a night: all properties in rounds without end, each part with a seed of its own, in
// slices of time. What the rounds say is added up to one result a property.
#ifndef ATTEST_HARNESS_NIGHT_SEARCH_H_
#define ATTEST_HARNESS_NIGHT_SEARCH_H_

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/runner/patience.h"
#include "properties/harness/runner/run_property.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

class PropertySearch {
 public:
  using Clock = std::chrono::steady_clock;

  PropertySearch(std::vector<const Property*> properties, const Contract& contract,
                 KernelSession& session, uint64_t seed);

  // Results of an earlier start, each the only one of its property.
  void Restore(std::vector<PropertyResult> results);

  // Goes on until `end`, or until options.stop. `instruct` is asked before each property what is known by
  // then; `done` is told after each.
  void Run(Clock::time_point end, const RunOptions& options, RunObserver& observer,
           const std::function<void(RunOptions&)>& instruct, const std::function<void()>& done);

  // In the order of the properties; one that was not run, or hardly, is INCONCLUSIVE and says why.
  std::vector<PropertyResult> Results() const;
  // Those that were run, as they stand: what Restore takes.
  std::vector<PropertyResult> Parts() const;
  int64_t rounds() const { return round_; }

 private:
  void RunOne(const Property& property, RunOptions options, RunObserver& observer);

  std::vector<const Property*> properties_;
  const Contract& contract_;
  KernelSession& session_;
  uint64_t seed_;
  std::map<std::string, PropertyResult> results_;
  Patience patience_;
  size_t at_ = 0;
  int64_t round_ = 0;
  int64_t part_ = 0;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_SEARCH_H_
