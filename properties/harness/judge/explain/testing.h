// What the explainer's tests share: a kernel's outcome and the judge's view of it, problems to be
// faulty on, and the form in which faults are listed.
#ifndef ATTEST_HARNESS_JUDGE_EXPLAIN_TESTING_H_
#define ATTEST_HARNESS_JUDGE_EXPLAIN_TESTING_H_

#include <functional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "impl/abi/testing/random_problem.h"
#include "impl/reference/extended_reference.h"
#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/judge/explain/survey.h"

namespace attest {

inline const Contract& Strict() {
  static const Contract kContract = *ParseContract(R"({"contract": "attest-1"})");
  return kContract;
}

// A case, what a kernel made of it, and the judge's view of both.
class Shown {
 public:
  Shown(const Problem& p, const Inputs& inputs, Outcome outcome, Storage storage = {})
      : storage_(storage),
        p_(p),
        inputs_(inputs),
        outcome_(std::move(outcome)),
        reference_(ReferenceFor(p_, inputs_, Strict())),
        bound_(p_, inputs_, reference_, Strict()) {}

  Mismatch mismatch() { return {p_, inputs_, reference_, bound_, outcome_, Strict(), storage_}; }
  bool IsWrong() { return !TakeSurvey(mismatch()).wrong.empty(); }
  // Of the middle one of the wrong rows.
  Explanation Explain() {
    const Mismatch m = mismatch();
    const Survey survey = TakeSurvey(m);
    if (survey.wrong.empty()) return {};
    return ExplainMismatch(m, survey.wrong[survey.wrong.size() / 2], "out");
  }

 private:
  const Storage storage_;
  const Problem p_;
  const Inputs inputs_;
  const Outcome outcome_;
  const Reference reference_;
  ErrorBound bound_;
};

// What the reference makes of a problem, rounded as a kernel would.
inline Outcome RoundedOutcome(const Problem& p, const Inputs& inputs,
                              const Semantics& semantics = Strict().semantics) {
  Reference r = ComputeReference(p, inputs, semantics);
  for (double& x : r.asked_scores.values) x = RoundTo(p.dtype, x);
  for (double& x : r.out.values) x = RoundTo(p.dtype, x);
  for (double& x : r.lse.values) x = RoundTo(p.LseDType(), x);
  return {OutcomeStatus::kComputed, "", {}, false, r.out, r.lse, {}, r.asked_scores};
}

// Two items, heads in groups of two, partial tiles everywhere; no rule that hides.
inline Problem OpenProblem() {
  Problem p;
  p.batch = 2;
  p.q_heads = 4;
  p.kv_heads = 2;
  p.q_len = 7;
  p.kv_len = 11;
  p.head_dim = 6;
  p.value_dim = 5;
  p.want_lse = true;
  return p;
}

inline Inputs InputsOf(const Problem& p) {
  std::mt19937_64 random(4);
  return RandomInputs(random, p);
}

inline BitPlane RandomPlane(const Problem& p) {
  std::mt19937_64 random(5);
  BitPlane plane{p.WeightsShape(), 4, {}};
  for (int64_t n = ElementCount(plane.shape); n > 0; --n) plane.bits.push_back(random() % 3 != 0);
  return plane;
}

// One faulty kernel: the class due, the options the fault needs, and what the kernel computes.
struct FaultyKernel {
  std::string_view cause_class;
  std::function<void(Problem&)> set_up;
  std::function<Outcome(Problem, Inputs)> run;
};

// The kernel computes another problem.
inline std::function<Outcome(Problem, Inputs)> Solves(std::function<void(Problem&)> change) {
  return [change](Problem p, const Inputs& inputs) {
    change(p);
    Inputs in = inputs;
    if (!p.bias) in.bias = {};
    return RoundedOutcome(p, in);
  };
}

// Each fault gets the class that is due.
inline void ExpectNamed(const std::vector<FaultyKernel>& kernels) {
  for (const FaultyKernel& kernel : kernels) {
    Problem p = OpenProblem();
    kernel.set_up(p);
    const Inputs inputs = InputsOf(p);
    const Explanation found = Shown(p, inputs, kernel.run(p, inputs)).Explain();
    EXPECT_EQ(found.cause_class, kernel.cause_class) << found.phrase;
    EXPECT_NE(found.phrase, "");
  }
}

// A problem of two items, made causal, padded, or hiding what `hides` says.
inline void Causal(Problem& p) {
  p.causal = true;
  p.diagonal_offset = {2, 6};
}
inline void Padded(Problem& p) {
  p.key_lengths = {6, 9};
}
inline std::function<void(Problem&)> Hiding(std::function<bool(const Row&, int64_t)> hides) {
  return [hides](Problem& p) {
    BitPlane plane = VisiblePlane(p);
    size_t at = 0;
    ForEachRow(p, [&](const Row& row) {
      for (int64_t j = 0; j < p.kv_len; ++j, ++at) {
        if (hides(row, j)) plane.bits[at] = 0;
      }
    });
    p.mask = std::move(plane);
  };
}

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_EXPLAIN_TESTING_H_
