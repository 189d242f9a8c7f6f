// Runs `attest check`, or `attest check-model`, on many kernels, so many at once, and says of each how it was caught. What they
// write lies in a folder of its own, which goes with the run.
#ifndef ATTEST_HARNESS_CLI_POWER_RUN_H_
#define ATTEST_HARNESS_CLI_POWER_RUN_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/night/child.h"
#include "properties/harness/power/kill.h"

namespace attest {

struct PowerOptions {
  std::vector<std::string> check;  // words that go to each `attest check` beside kernel and report
  int jobs = 1;
  std::optional<std::chrono::steady_clock::time_point>
      end;  // what is not done by then has no verdict
};

class PowerRun {
 public:
  // The error is one line: no folder can be made.
  static tl::expected<std::unique_ptr<PowerRun>, std::string> Open(PowerOptions options);
  ~PowerRun();
  PowerRun(const PowerRun&) = delete;
  PowerRun& operator=(const PowerRun&) = delete;

  // A kill a subject, in their order; `on_kill` is told of each as soon as all before it are there.
  std::vector<Kill> Run(const std::vector<Subject>& subjects,
                        const std::function<void(const Kill&)>& on_kill);

 private:
  struct Job {
    std::unique_ptr<Child> child;
    size_t subject;
  };

  PowerRun(PowerOptions options, std::string folder)
      : options_(std::move(options)), folder_(std::move(folder)) {}
  bool IsOver() const;
  std::string PathOf(size_t subject, const char* extension) const;
  tl::expected<std::unique_ptr<Child>, std::string> Start(const Subject& subject,
                                                          size_t number) const;
  Kill Read(const Subject& subject, size_t number) const;

  PowerOptions options_;
  std::string folder_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CLI_POWER_RUN_H_
