// What a waiver says of a failing case: `when` in corpus/waivers.toml, one condition a text. A waiver names
// the trigger of a known fault this way, so that what shows without the trigger still fails.
//
//   "causal"        the case has it      "no mask"         it has not
//   "q_len = 1"     a size               "kv_len > q_len"  two sizes      "dtype = f16"   a word
//
// Operators: = != < <= > >=. TriggerWords() lists the words.
#ifndef ATTEST_HARNESS_REPORT_WAIVER_CONDITIONS_H_
#define ATTEST_HARNESS_REPORT_WAIVER_CONDITIONS_H_

#include <functional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "properties/harness/case/case.h"
#include "properties/harness/judge/verdict.h"

namespace attest {

using CaseCondition = std::function<bool(const Case&, const Verdict&)>;

// The error says what is wrong, in one line without a place.
tl::expected<CaseCondition, std::string> ParseCaseCondition(std::string_view text);

// All words that a condition may use, with commas between them.
std::string TriggerWords();

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_WAIVER_CONDITIONS_H_
