// When a kernel has shown enough. One that hangs, or dies and is slow to start again, in some properties most
// likely does so in all, at a minute or so each: `attest check` asks here before each property.
#ifndef ATTEST_HARNESS_RUNNER_PATIENCE_H_
#define ATTEST_HARNESS_RUNNER_PATIENCE_H_

#include <cstdint>
#include <string>

#include "properties/harness/runner/run_property.h"

namespace attest {

// What the results of one kernel so far say about running more.
class Patience {
 public:
  void Note(const PropertyResult& result);
  // Why the other properties are not run, for their INCONCLUSIVE; "" = they are.
  std::string WhyNotRun() const;

 private:
  int64_t hanging_ = 0;  // findings that hang
  int64_t dying_ = 0;    // properties that ended by slow deaths
};

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_PATIENCE_H_
