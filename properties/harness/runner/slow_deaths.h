// Counts deaths of a worker that is slow to start again, within one property: a property that has failed need not
// go on at a second a case. Callers: the runs of a property, of kernels and of models.
#ifndef ATTEST_HARNESS_RUNNER_SLOW_DEATHS_H_
#define ATTEST_HARNESS_RUNNER_SLOW_DEATHS_H_

#include <chrono>
#include <string>

#include <fmt/format.h>

#include "properties/harness/runner/run_property.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

class SlowDeaths {
 public:
  // What one case has cost. A restart is the mark of a death, whatever its cause; what it costs is waited for in the
  // session.
  void Count(const SessionStats& before, const SessionStats& after, const RunOptions& options) {
    const int64_t deaths = after.restarts - before.restarts;
    const double seconds = after.seconds_in_worker - before.seconds_in_worker;
    const double limit = std::chrono::duration<double>(options.slow_restart).count();
    if (deaths == 0 || seconds < limit * static_cast<double>(deaths)) return;
    deaths_ += static_cast<int>(deaths);
    seconds_ += seconds;
  }

  bool AreEnough(const RunOptions& options) const {
    return deaths_ >= options.max_slow_deaths &&
           seconds_ > std::chrono::duration<double>(options.slow_deaths_time).count();
  }

  std::string Text() const {
    return fmt::format("stopped after {} deaths of the worker, at {:.1f} s each", deaths_,
                       seconds_ / deaths_);
  }

 private:
  int deaths_ = 0;
  double seconds_ = 0;  // spent in cases in which the worker died
};

}  // namespace attest

#endif  // ATTEST_HARNESS_RUNNER_SLOW_DEATHS_H_
