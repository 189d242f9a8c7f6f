// What of a case a cause is a fault of: a diagonal that is slid shows in no case without a diagonal. The report's groups
// ask it, which put findings together that may be of one fault.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_CAUSE_FEATURES_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_CAUSE_FEATURES_H_

#include <string_view>

#include "properties/harness/case/case.h"

namespace attest {

// Whether the case has what a fault of this class is a fault of; true where that may be anything, and of what is no
// class.
bool MayShowIn(std::string_view cause_class, const Case& c);

// Whether a fault of this class is one of some feature, and shows in no case without it.
bool NeedsFeature(std::string_view cause_class);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_CAUSE_FEATURES_H_
