// What is left to say of wrong gradients where no faulty rule gives them: which rows are not finite, and what has come
// from nowhere. Private to gradient_causes.cc.
#ifndef ATTEST_HARNESS_JUDGE_GRADIENT_SYMPTOMS_H_
#define ATTEST_HARNESS_JUDGE_GRADIENT_SYMPTOMS_H_

#include <cstddef>

#include "properties/harness/judge/evidence.h"
#include "properties/harness/judge/explain/explain.h"

namespace attest {

// Empty where nothing is seen.
Explanation GradientSymptom(const Evidence& evidence, size_t index);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_GRADIENT_SYMPTOMS_H_
