// What the mutants of state remember from one call to the next, where real kernels keep plans, masks
// and compiled programs under too short a key.
#ifndef ATTEST_MUTANTS_LAST_CALL_H_
#define ATTEST_MUTANTS_LAST_CALL_H_

#include <cstdint>
#include <mutex>
#include <set>
#include <vector>

#include "impl/abi/call_view.h"
#include "impl/mutants/mutants.h"

namespace attest {

// Whether the mutation needs a LastCall.
bool HasState(Mutation mutation);

// One kernel's memory; calls may come at the same time.
class LastCall {
 public:
  // Puts into the call what the last one of the same sizes left, and remembers the rest.
  void Replace(CallView& call, Mutation mutation);

  // Whether no call of these sizes has come before.
  bool IsFirst(const CallView& call);

 private:
  std::mutex mutex_;
  std::vector<int64_t> sizes_;  // of the last call; empty before it
  double scale_ = 1;
  std::vector<int64_t> key_lengths_;
  std::set<std::vector<int64_t>> seen_;  // sizes
};

}  // namespace attest

#endif  // ATTEST_MUTANTS_LAST_CALL_H_
