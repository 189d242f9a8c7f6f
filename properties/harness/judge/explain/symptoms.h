// What the wrong rows themselves look like: causes that are seen and not computed. Private to the
// explainer.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_SYMPTOMS_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_SYMPTOMS_H_

#include <string_view>
#include <vector>

#include "properties/harness/judge/explain/hypotheses.h"
#include "properties/harness/judge/explain/survey.h"

namespace attest {

// `output` is the one in which the witness shows: what out looks like says nothing of the others.

// Causes that rest on a pattern over all rows and would mimic faulty rules: scores that vanish below
// a starting maximum or beside a hidden one, and non-finite hidden data that came through.
// The first of them, or every one.
std::vector<Explanation> StrongSymptoms(const Scene& scene, const Survey& survey,
                                        const Row& witness, std::string_view output,
                                        CausesWanted wanted);

// Those of them that are possible though nothing speaks for them but the wrong rows themselves.
std::vector<Explanation> PossibleSymptoms(const Scene& scene, const Survey& survey,
                                          const Row& witness, std::string_view output);

// Non-finite data hidden from the witness's row, which is not finite: for rows of which nothing finite
// is wrong, where faulty rules are told apart badly.
Explanation LooseLeak(const Scene& scene, const Survey& survey, const Row& witness);

// What is left to say where no rule and no arithmetic fits: one constant everywhere, rows of zeros
// or NaN, a NaN that is lost, lanes that alone are wrong.
Explanation WeakSymptom(const Scene& scene, const Survey& survey, const Row& witness,
                        std::string_view output);

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_SYMPTOMS_H_
