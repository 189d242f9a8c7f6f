// What a model's property is: one function and one table row. The function asks the model what it needs through
// the lab and gives a verdict; INCONCLUSIVE means that the case says nothing of the claim. The tables stand in
// properties/transformer, one file a family.
#ifndef ATTEST_HARNESS_MODEL_MODEL_PROPERTY_H_
#define ATTEST_HARNESS_MODEL_MODEL_PROPERTY_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "properties/harness/model/lab.h"
#include "properties/harness/model/model_case.h"

namespace attest {

struct ModelProperty {
  std::string_view id;     // "no_future.later_tokens_do_not_matter"
  std::string_view claim;  // one sentence
  std::string_view needs;  // what a contract must offer, in words; empty = nothing
  uint32_t parts;          // of a case that it uses, see ModelPart
  // Why the model is out of reach ("no cache"); empty = applicable.
  std::string (*unsupported)(const ModelContract& contract, bool has_other);
  Verdict (*check)(const ModelCase& c, ModelLab& lab);
  // What a person should see beside a failure, in lines; nullptr = nothing.
  std::string (*picture)(const ModelCase& c, ModelLab& lab) = nullptr;
  // Of the cases that a plan has, one in so many is run: for those that ask a model hundreds of times.
  int64_t costs = 1;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_MODEL_PROPERTY_H_
