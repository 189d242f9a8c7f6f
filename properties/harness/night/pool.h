// The fuzz targets that run beside each other: so many jobs, each a process that is started again, perhaps
// with another target, when it ends. What ended it is told to whoever runs the night; nothing here judges
// it.
#ifndef ATTEST_HARNESS_NIGHT_POOL_H_
#define ATTEST_HARNESS_NIGHT_POOL_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "properties/harness/night/child.h"
#include "properties/harness/night/corpus.h"
#include "properties/harness/night/fuzz_build.h"
#include "properties/harness/night/fuzz_figures.h"

namespace attest {

struct PoolOptions {
  std::string kernel;
  std::string folder;        // for logs, status files and artifacts
  std::string findings;      // what ATTEST_FINDINGS is set to
  std::string seeds;         // folder with one for each target; may be empty or absent
  int64_t first_launch = 0;  // number of the first process, for its name and its seed
  uint64_t seed = 1;
};

// A process that has ended.
struct EndedRun {
  FuzzRun run;
  std::string target;
  int status = 0;
  FuzzFigures figures;
  std::string log;                     // its end
  std::vector<std::string> artifacts;  // inputs that it left
};

class Pool {
 public:
  using Clock = std::chrono::steady_clock;
  // Whether the run ended for a good reason: it has written a finding.
  using OnEnd = std::function<bool(const EndedRun&)>;

  Pool(PoolOptions options, std::map<std::string, Corpus>& corpora, OnEnd on_end);

  // From now until `end` so many jobs of this build run, `slice` long each. Pump keeps them running.
  void Begin(const FuzzBuild& build, int jobs, Clock::time_point end, std::chrono::seconds slice);
  // Looks after the processes; call it often.
  void Pump();
  // Stops all processes, and waits for their ends.
  void End();

  bool IsIdle() const { return jobs_.empty(); }
  int64_t next_launch() const { return launch_; }
  // Of the processes that run now.
  FuzzFigures Running() const;
  // A run as Begin makes it, with a name of its own.
  FuzzRun MakeRun(const FuzzBuild& build, const std::string& target);
  // A line for each target that was given up.
  const std::vector<std::string>& given_up() const { return given_up_; }

 private:
  struct Job {
    std::unique_ptr<Child> child;
    FuzzRun run;
    std::string target;
    Clock::time_point start, end;
  };

  bool Launch(int slot);
  void Finish(Job& job, int status);
  const std::string* NextTarget();

  PoolOptions options_;
  std::map<std::string, Corpus>& corpora_;
  OnEnd on_end_;
  FuzzBuild build_;
  int wanted_ = 0;
  Clock::time_point end_;
  std::chrono::seconds slice_{0};
  std::map<int, Job> jobs_;  // by slot
  int64_t launch_;
  size_t turn_ = 0;
  std::map<std::string, int> quick_ends_;  // of programs, in a row
  std::vector<std::string> given_up_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_POOL_H_
