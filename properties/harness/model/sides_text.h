// Two computations of the same logits, side by side, as text: how each came about and what it gave. Caller: attest
// replay.
#ifndef ATTEST_HARNESS_MODEL_SIDES_TEXT_H_
#define ATTEST_HARNESS_MODEL_SIDES_TEXT_H_

#include <string>
#include <utility>

#include "properties/harness/model/lab.h"

namespace attest {

// What was due comes first. Of a large vocabulary the tokens that differ most are shown.
std::string SidesText(const std::pair<LogitsSide, LogitsSide>& sides);

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_SIDES_TEXT_H_
