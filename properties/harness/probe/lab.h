// Where the probe's calls run, and how their answers read. A Lab counts the calls and stops asking a
// kernel that hangs; a Reading is one answer as doubles.
#ifndef ATTEST_HARNESS_PROBE_LAB_H_
#define ATTEST_HARNESS_PROBE_LAB_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "impl/attention/array.h"
#include "properties/harness/probe/tiny_call.h"
#include "properties/harness/sandbox/call.h"

namespace attest::probe {

enum class Answer { kComputed, kRefused, kFault };

struct Reading {
  Answer answer = Answer::kFault;
  std::string why;                   // the kernel's reason, or what went wrong; one line
  std::optional<Fault> fault;        // of kFault
  std::map<int32_t, Array> outputs;  // by role; of lower ranks padded with 1 on the right
  std::vector<std::vector<std::byte>> bytes;

  bool computed() const { return answer == Answer::kComputed; }
  const Array& Output(int32_t role) const { return outputs.at(role); }
  // The weight of key j in a row, by the standard data.
  double Weight(int64_t b, int64_t h, int64_t i, int64_t j) const;
};

// One call, in a worker.
using CallRunner = std::function<CallResult(const Call&)>;

class Lab {
 public:
  explicit Lab(CallRunner run) : run_(std::move(run)) {}

  // Runs one call. After three hangs nothing is run any more: every reading is a fault then.
  Reading Run(const TinyCall& call);
  int calls() const { return calls_; }

 private:
  CallRunner run_;
  int calls_ = 0;
  int hangs_ = 0;
};

// "{0.14 0.29 0.57}": the weights of a row.
std::string RowText(const Reading& reading, int64_t b, int64_t h, int64_t i, int64_t keys);

// "##.": which keys a row saw, by its weights.
std::string SeenText(const Reading& reading, int64_t b, int64_t h, int64_t i, int64_t keys);
bool Saw(const Reading& reading, int64_t b, int64_t h, int64_t i, int64_t key);

}  // namespace attest::probe

#endif  // ATTEST_HARNESS_PROBE_LAB_H_
