// A program that runs beside this one and is looked after: a fuzz target. Its output goes to a file, it dies
// with this process however that ends, and it can be asked how it ended without waiting.
#ifndef ATTEST_HARNESS_NIGHT_CHILD_H_
#define ATTEST_HARNESS_NIGHT_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

namespace attest {

struct ChildCommand {
  std::vector<std::string> words;                                // program (a path) and arguments
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::string log;                                               // stdout and stderr, appended
};

class Child {
 public:
  static tl::expected<std::unique_ptr<Child>, std::string> Start(const ChildCommand& command);
  // Kills it, and waits for its end.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Once it has ended: its exit status, or 128 + the signal that ended it.
  std::optional<int> Ended();
  void Stop();  // SIGTERM
  void Kill();  // SIGKILL, to all it has started in its process group too

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  pid_t pid_;
  std::optional<int> status_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_CHILD_H_
