// Faulty backward passes, as changes of what a row adds to the gradients. Private to gradient_causes.cc, which looks
// whether one of them gives what the kernel gave.
#ifndef ATTEST_HARNESS_JUDGE_GRADIENT_RULES_H_
#define ATTEST_HARNESS_JUDGE_GRADIENT_RULES_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "impl/reference/gradient_row.h"

namespace attest {

struct GradientRule {
  std::string_view cause_class;  // of explain/cause_classes.cc
  std::string phrase;            // "as if ..."
  // What it makes of one row; nothing where it is empty.
  std::function<void(const Row&, GradientRow&)> row{};
  bool keeps_rows = false;  // dq, dbias and dsink are right all the same
  bool drops_scale = false, drops_key_scale = false;
};

// Those that say something of the problem; first the ones that leave more as it is. All arguments must outlive them.
std::vector<GradientRule> GradientRules(const Problem& problem, const Inputs& inputs,
                                        const Reference& reference);

// A rule with a number that is free. The gradients are affine in it.
struct FreeGradientRule {
  std::string_view cause_class;
  std::string_view phrase;  // goes on before "multiplied by 0.5"
  std::function<void(double, GradientRow&)> row;
};
std::vector<FreeGradientRule> FreeGradientRules(const Problem& problem);

// "0.25 (the scale)": with a word for the number where there is one.
std::string NameFactor(const Problem& problem, double factor);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_GRADIENT_RULES_H_
