// What a waiver says of a failing case of a model: `when` in a waivers' file, with the grammar of condition_grammar.h.
//
//   "padding"           the case has it       "no parents"   it has not
//   "batch = 1"         a size                "chunks > 1"   how many there are
//   "cache = paged"     a word                "side = left"
#ifndef ATTEST_HARNESS_REPORT_MODEL_CONDITIONS_H_
#define ATTEST_HARNESS_REPORT_MODEL_CONDITIONS_H_

#include <functional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "properties/harness/judge/verdict.h"
#include "properties/harness/model/model_case.h"

namespace attest {

using ModelCondition = std::function<bool(const ModelCase&, const Verdict&)>;

// The error says what is wrong, in one line without a place.
tl::expected<ModelCondition, std::string> ParseModelCondition(std::string_view text);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_MODEL_CONDITIONS_H_
