// When a kernel has shown enough. One that hangs, or dies and is slow to start again, in some properties most
// likely does so in all, at a minute or so each: `attest check` asks here before each property.
#ifndef ATTEST_HARNESS_RUNNER_PATIENCE_H_
#define ATTEST_HARNESS_RUNNER_PATIENCE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "properties/harness/runner/run_property.h"

namespace attest {

// What the results of one kernel so far say about running more.
class Patience {
 public:
  // Of a property that is run in parts, after each.
  void Note(const PropertyResult& result);
  // Why no property is run further, for their INCONCLUSIVE; "" = they are.
  std::string WhyNotRun() const;

 private:
  std::map<std::string, int64_t> hanging_;  // by property: findings that hang
  std::set<std::string> dying_;             // properties that ended by slow deaths
};

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_PATIENCE_H_
