// A fuzz target over records: which kernels it judges, by which claims, and to what it narrows a
// case. Each fuzz_<claim>.cc defines one; record_target.cc is the rest of the program.
#ifndef ATTEST_FUZZ_TARGET_H_
#define ATTEST_FUZZ_TARGET_H_

#include <string>
#include <string_view>
#include <vector>

#include "properties/harness/case/case.h"

namespace attest {

struct FuzzTarget {
  std::vector<std::string> kernels;  // unless ATTEST_FUZZ_KERNEL names one
  // Ids of properties, or families ("cache."). With every input one of them is asked, by turns.
  std::vector<std::string_view> properties;
  // Makes the case what the target is about. The result is valid, or it is not used.
  Case (*narrow)(const Case& c);
};

// Defined by the target.
const FuzzTarget& TheTarget();

// No more than these, cut at the end, one after the other until the case has no more multiply-adds than `work`:
// what is large in one size may stay so where it is small in the others.
struct Sizes {
  int64_t batch = 8, q_len = 40, kv_len = 255, dim = 40, kv_heads = 8, ratio = 4;
  int64_t work = 0;
};
// Of targets in which large sizes matter.
inline constexpr int64_t kBearableWork = int64_t{1} << 13;
Case CutDown(Case c, const Sizes& most);

}  // namespace attest

#endif  // ATTEST_FUZZ_TARGET_H_
