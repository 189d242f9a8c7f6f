// What the rows of a tiny case weigh and give, for who wants to see weights beside outputs. `attest
// replay` shows it of cases that ask for weights.
#ifndef ATTEST_HARNESS_REPORT_WEIGHTS_TEXT_H_
#define ATTEST_HARNESS_REPORT_WEIGHTS_TEXT_H_

#include <string>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"

namespace attest {

// A line a query of batch item 0, head 0, by the reference:
//
//   query 0  weighs 0.333 0.333 0.333  and gives 1 3
//
// "" where the case does not ask for weights, or has more than 8 queries, keys or value lanes.
std::string WeightsText(const Case& c, const Semantics& semantics);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_WEIGHTS_TEXT_H_
