// Faults in the judge and not in a kernel (after tracel-ai/cubecl#1070, where a checker skipped what was
// NaN): five blind judges, each made by showing the true one a spoilt outcome, so that what it
// overlooks is gone. The self-tests below are faults that the judge must find. The true judge passes
// them all, and each blind one fails those that are named beside it and no other: were the judge ever
// to go blind in one of these ways, a self-test would say so.
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/abi/testing/direct_call.h"
#include "impl/attention/visibility.h"
#include "impl/mutants/plain.h"
#include "properties/harness/case/generator.h"
#include "properties/property.h"
#include "properties/testing.h"

namespace attest {
namespace {

const Contract& Strict() {
  static const Contract kContract = NamedContractOf("attest-1");
  return kContract;
}

// What came out, what was due, and how far it may be from that.
struct Shown {
  const Case& c;
  const Outcome& due;
  ErrorBound& bound;
};

// change(row, lane, due, observed) for every element of an output.
template <typename Change>
void ForEachElement(const Case& c, const Array& due, Array& observed, Change&& change) {
  if (observed.empty()) return;
  ForEachRow(c.problem, [&](const Row& row) {
    for (int64_t d = 0; d < due.shape[3]; ++d) {
      change(row, due.At(row.batch, row.head, row.query, d),
             observed.At(row.batch, row.head, row.query, d));
    }
  });
}

constexpr Array Outcome::*kOutputs[] = {&Outcome::out, &Outcome::lse, &Outcome::weights};

// --- Judges that are blind: what they overlook is put right before the true judge looks ---

using Blindness = void (*)(const Shown&, Outcome&);

template <typename Overlooks>
void Overlook(const Shown& shown, Outcome& o, Overlooks&& overlooks) {
  for (const auto output : kOutputs) {
    ForEachElement(shown.c, shown.due.*output, o.*output,
                   [&](const Row& row, double due, double& observed) {
                     if (overlooks(row, due, observed)) observed = due;
                   });
  }
}

void AcceptsNan(const Shown& shown, Outcome& o) {
  Overlook(shown, o, [](const Row&, double due, double observed) {
    return std::isnan(due) || std::isnan(observed);
  });
}

void ComparesItem0Alone(const Shown& shown, Outcome& o) {
  Overlook(shown, o, [](const Row& row, double, double) { return row.batch > 0; });
}

void SkipsLastRows(const Shown& shown, Outcome& o) {
  Overlook(shown, o,
           [&](const Row& row, double, double) { return row.query == shown.c.problem.q_len - 1; });
}

void IsTenTimesTooWide(const Shown& shown, Outcome& o) {
  for (const auto output : kOutputs) {
    const bool is_lse = output == &Outcome::lse;
    const DType dtype = is_lse ? shown.c.problem.LseDType() : shown.c.problem.dtype;
    ForEachElement(shown.c, shown.due.*output, o.*output,
                   [&](const Row&, double due, double& observed) {
                     const double error = observed - due;
                     if (std::isfinite(error)) observed = RoundTo(dtype, due + error / 10);
                   });
  }
}

void IgnoresLse(const Shown& shown, Outcome& o) {
  o.lse = shown.due.lse;
}

// --- Self-tests: what the judge must find ---

struct SelfTest {
  std::string_view name;
  std::string_view mutant;                          // runs the kernel of that id
  void (*spoil)(const Shown&, Outcome&) = nullptr;  // or spoils the right outcome
};

// A NaN that q makes visible, as 0.
void LoseNan(const Shown& shown, Outcome& o) {
  ForEachElement(shown.c, shown.due.out, o.out, [](const Row&, double due, double& observed) {
    if (std::isnan(due)) observed = 0;
  });
}

// One element three bounds from where it should be.
void LieThreeBoundsOff(const Shown& shown, Outcome& o) {
  bool is_done = false;
  ForEachElement(shown.c, shown.due.out, o.out, [&](const Row& row, double due, double& observed) {
    const double bound = shown.bound.WorstOf(row).out.front();
    if (is_done || shown.bound.IsUnconstrained(row) || !(bound > 0) || !std::isfinite(due)) return;
    observed = RoundTo(shown.c.problem.dtype, due + 3 * bound);
    is_done = true;
  });
}

constexpr SelfTest kSelfTests[] = {
    {"NanIsNoAnswer", "empty-row-without-guard"},
    {"ALostNanIsAFailure", "", LoseNan},
    {"EveryItemIsCompared", "padding-ignored-after-batch-0"},
    {"EveryRowIsCompared", "row-unwritten"},
    {"ThreeBoundsAreTooMany", "", LieThreeBoundsOff},
    {"TheLseIsCompared", "lse-base-2"},
};

Outcome RunMutant(const Case& c, std::string_view id) {
  const auto kernel = DirectKernel::Create(MutantKernelTable(), {{"variant", std::string(id)}});
  DirectResult r = kernel->Run(c.problem, Materialise(c));
  Outcome o;
  o.status = OutcomeStatus::kComputed;
  o.out = r.out, o.lse = r.lse, o.weights = r.weights, o.scores = r.scores;
  return o;
}

// Cases as they come, without storage, the first query NaN in every second one.
Case CaseOf(uint64_t seed) {
  Case c = DrawCase(seed, 40, Strict());
  c.storage = {};
  c.problem.want_scores.reset();
  if (seed % 2 == 0 && ElementCount(c.problem.QShape()) > 0) {
    c.overrides.push_back({DataTensor::kQ, {0, 0, 0, 0}, std::numeric_limits<double>::quiet_NaN()});
  }
  return c;
}

// Whether the judge with that blindness (nullptr: none) fails the faulty kernel on the case.
bool Finds(const SelfTest& test, Blindness blindness, const Case& c) {
  const std::vector<Case> cases = {c};
  Oracle oracle(cases, Strict());
  const Outcome due = FirstReference(c, Strict());
  const Shown shown{c, due, oracle.BoundOf(0)};
  Outcome outcome = test.mutant.empty() ? due : RunMutant(c, test.mutant);
  if (test.spoil != nullptr) test.spoil(shown, outcome);
  if (blindness != nullptr) blindness(shown, outcome);
  const std::vector<Outcome> outcomes = {outcome};
  const auto never = [](const Verdict&) { return false; };
  const Evidence evidence{Strict(), cases, outcomes, oracle, never};
  return FindProperty("equivalence.matches_reference")->judge(evidence).kind == VerdictKind::kFail;
}

// The self-tests that fail: whose fault the judge finds on no case of forty.
std::set<std::string_view> FailedBy(Blindness blindness) {
  std::set<std::string_view> failed;
  for (const SelfTest& test : kSelfTests) {
    bool found = false;
    for (uint64_t seed = 0; seed < 40 && !found; ++seed) {
      found = Finds(test, blindness, CaseOf(seed));
    }
    if (!found) failed.insert(test.name);
  }
  return failed;
}

using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(CheckerMutantsTest, TheTrueJudgePassesEverySelfTest) {
  EXPECT_THAT(FailedBy(nullptr), IsEmpty());
}

TEST(CheckerMutantsTest, AJudgeThatAcceptsNanIsNoticed) {
  EXPECT_THAT(FailedBy(AcceptsNan), UnorderedElementsAre("NanIsNoAnswer", "ALostNanIsAFailure"));
}

TEST(CheckerMutantsTest, AJudgeOfItem0AloneIsNoticed) {
  EXPECT_THAT(FailedBy(ComparesItem0Alone), UnorderedElementsAre("EveryItemIsCompared"));
}

TEST(CheckerMutantsTest, AJudgeThatSkipsRowsIsNoticed) {
  EXPECT_THAT(FailedBy(SkipsLastRows), UnorderedElementsAre("EveryRowIsCompared"));
}

TEST(CheckerMutantsTest, AJudgeTenTimesTooWideIsNoticed) {
  EXPECT_THAT(FailedBy(IsTenTimesTooWide), UnorderedElementsAre("ThreeBoundsAreTooMany"));
}

TEST(CheckerMutantsTest, AJudgeThatIgnoresTheLseIsNoticed) {
  EXPECT_THAT(FailedBy(IgnoresLse), UnorderedElementsAre("TheLseIsCompared"));
}

}  // namespace
}  // namespace attest
