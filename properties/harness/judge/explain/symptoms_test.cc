// Causes that no faulty rule gives: wider arithmetic, faults of storage, and what lost rows look like.
#include "properties/harness/judge/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/mutants/mutants.h"
#include "impl/mutants/plain.h"
#include "impl/reference/extended_reference.h"
#include "impl/reference/plain_precision.h"
#include "properties/harness/judge/explain/hypotheses.h"
#include "properties/harness/judge/explain/survey.h"
#include "properties/harness/judge/explain/testing.h"
#include "properties/harness/judge/verdict.h"

namespace attest {
namespace {

using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

// A half-precision kernel that stores its scores in f16: the declaration that the finding names must
// be one that lets the kernel pass.
TEST(SymptomsTest, WiderNumericsAreNamedAndCover) {
  Problem p = OpenProblem();
  p.dtype = DType::kF16;
  p.want_lse = false;
  p.head_dim = 32;
  Inputs inputs = InputsOf(p);
  for (double& x : inputs.q.values) x = RoundTo(p.dtype, 4 * x);
  NumericsProfile profile = Strict().NumericsOf(p.dtype);
  profile.scores = DType::kF16;
  const Outcome outcome{
      OutcomeStatus::kComputed, "", {}, false, ComputePlainPrecision(p, inputs, profile), {}, {}};
  Shown shown(p, inputs, outcome);
  const Explanation found = shown.Explain();
  ASSERT_EQ(found.cause_class, "numerics") << found.phrase;
  const size_t first = found.phrase.find('{');
  const std::string json = found.phrase.substr(first, found.phrase.rfind('}') + 1 - first);
  EXPECT_EQ(json, R"({"f16": {"scores": "f16"}})");
  const auto wider = ParseContract(R"({"contract": "attest-1", "numerics": )" + json + "}");
  ASSERT_TRUE(wider) << wider.error();
  const Mismatch m = shown.mismatch();
  ErrorBound bound(p, inputs, m.reference, *wider);
  ForEachRow(p, [&](const Row& row) { EXPECT_TRUE(RowHolds(m, row, bound)); });
}

TEST(SymptomsTest, ZerosAmongNextToNothingAreFlushed) {
  Problem p = OpenProblem();
  p.dtype = DType::kBF16;
  p.want_lse = false;
  Inputs inputs = InputsOf(p);
  for (double& x : inputs.q.values) x = 0;
  for (double& x : inputs.v.values) x = RoundTo(p.dtype, 0x1p-128 * x);
  const Outcome right = RoundedOutcome(p, inputs);
  Outcome flushed = right;
  for (double& x : flushed.out.values) x = 0;
  const Explanation found = Shown(p, inputs, flushed).Explain();
  EXPECT_EQ(found.cause_class, "numerics");
  EXPECT_THAT(found.phrase, HasSubstr(R"({"bf16": {"flush_to_zero": true}})"));
}

// Any weights give a lane its value where all keys have one: that it is right says nothing of the others.
TEST(SymptomsTest, ALaneOfOneValueMakesNoTailOfTheOthers) {
  Problem p = OpenProblem();
  p.want_lse = false;
  p.value_dim = 2;
  Inputs inputs = InputsOf(p);
  for (size_t n = 0; n < inputs.v.values.size(); n += 2) inputs.v.values[n] = 1;
  Outcome outcome = RoundedOutcome(p, inputs);
  for (size_t n = 1; n < outcome.out.values.size(); n += 2) outcome.out.values[n] += 0.25;
  EXPECT_NE(Shown(p, inputs, outcome).Explain().cause_class, "value-dim-tail");
}

// The sums of f16 would forgive each of these, but none is how f16 errs: heads that are right beside
// heads that are not, results that are all too large, an error in one row alone.
TEST(SymptomsTest, WiderNumericsAreNotNamedForWhatIsNoRounding) {
  using Spoil = std::function<double(const Row&, int64_t lane, double right)>;
  const Spoil kSpoils[] = {
      [](const Row& row, int64_t d, double x) {
        return row.head < 2 ? x : x * (d % 2 == 0 ? 0.996 : 1.004);
      },
      [](const Row&, int64_t, double x) { return 1.004 * x; },
      [](const Row& row, int64_t d, double x) {
        return row == Row{1, 2, 3} && d == 0 ? x + 0.01 : x;
      },
  };
  for (const Spoil& spoil : kSpoils) {
    Problem p = OpenProblem();
    p.dtype = DType::kF16;
    p.softcap = 3;  // no rule of rows is there to say more
    const Inputs inputs = InputsOf(p);
    Outcome outcome = RoundedOutcome(p, inputs);
    ForEachRow(p, [&](const Row& row) {
      for (int64_t d = 0; d < p.value_dim; ++d) {
        double& x = outcome.out.At(row.batch, row.head, row.query, d);
        x = RoundTo(p.dtype, spoil(row, d, x));
      }
    });
    Shown shown(p, inputs, outcome);
    EXPECT_TRUE(shown.IsWrong());
    const Explanation found = shown.Explain();
    EXPECT_NE(found.cause_class, "numerics") << found.phrase;
  }
}

// What reaches the kernel in pages, in a ring, or as a past and new keys, is misread in ways of its own.
TEST(SymptomsTest, FaultsOfStorageAreNamedWhereItIsSo) {
  struct Misread {
    std::string_view cause_class;
    Storage storage;
    std::function<int64_t(int64_t)> key;  // that is read for one; -1 = none
  };
  Storage paged, ring, past;
  paged.page_size = 3;
  ring.ring = true;
  past.past = 4;
  const Misread all[] = {
      {"page-misread", paged,
       [](int64_t j) { return j % 3 == 0 ? std::max<int64_t>(j - 3, 0) : j; }},
      {"ring-misread", ring, [](int64_t j) { return (j + 5) % 11; }},
      {"past-ignored", past, [](int64_t j) { return j < 4 ? -1 : j; }},
      {"past-misplaced", past, [](int64_t j) { return (j + 4) % 11; }},
  };
  for (const Misread& one : all) {
    Problem p = OpenProblem();
    Causal(p);  // or a ring that is turned shows in nothing
    const Inputs inputs = InputsOf(p);
    Inputs misread = inputs;
    Problem seen = p;
    Hiding([&](const Row&, int64_t j) { return one.key(j) < 0; })(seen);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.kv_heads; ++h)
        for (int64_t j = 0; j < p.kv_len; ++j) {
          const int64_t from = std::max<int64_t>(one.key(j), 0);
          for (int64_t d = 0; d < p.head_dim; ++d)
            misread.k.At(b, h, j, d) = inputs.k.At(b, h, from, d);
          for (int64_t d = 0; d < p.value_dim; ++d)
            misread.v.At(b, h, j, d) = inputs.v.At(b, h, from, d);
        }
    const Outcome outcome = RoundedOutcome(seen, misread);
    EXPECT_EQ(Shown(p, inputs, outcome, one.storage).Explain().cause_class, one.cause_class);
    EXPECT_NE(Shown(p, inputs, outcome).Explain().cause_class, one.cause_class)
        << "nothing is stored so";
  }
}

// Of keys too far into their tensor for 15 bits: those of the second head, from the 16th on.
TEST(SymptomsTest, KeysLostToANarrowOffsetAreNamed) {
  Problem p = OpenProblem();
  p.q_len = 1;
  p.kv_len = 24;
  p.head_dim = 1024;
  p.batch = 1;
  const Inputs inputs = InputsOf(p);
  Problem short_of_keys = p;
  Hiding([](const Row& row, int64_t j) { return row.head / 2 * 24 + j >= 32; })(short_of_keys);
  const Explanation found = Shown(p, inputs, RoundedOutcome(short_of_keys, inputs)).Explain();
  EXPECT_EQ(found.cause_class, "narrow-integer");
  EXPECT_THAT(found.phrase, HasSubstr("32768 elements"));
}

// One key a row, whose score is above the bound in some.
Explanation OfClampedScores(double bound) {
  Problem p = OpenProblem();
  p.kv_len = 1;
  const Inputs inputs = InputsOf(p);
  Inputs strong = inputs;
  for (double& x : strong.q.values) x = RoundTo(p.dtype, 40 * x);
  Outcome outcome = RoundedOutcome(p, strong);
  for (double& x : outcome.lse.values) x = std::min(x, RoundTo(p.LseDType(), bound));
  return Shown(p, strong, outcome).Explain();
}

TEST(SymptomsTest, AClampIsNamedWhereItIsARoundOne) {
  EXPECT_EQ(OfClampedScores(20).cause_class, "scores-clamped");
  EXPECT_NE(OfClampedScores(20.13).cause_class, "scores-clamped");
}

// Scores of 1600 where the query is the first of a tile of four, and of -1600 elsewhere and in all of head 3. Of rows
// that are lost out is what `lost` says.
Explanation OfLostRows(std::function<bool(const Row&)> is_lost, double lost) {
  Problem p = OpenProblem();
  Inputs inputs = InputsOf(p);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.kv_heads; ++h)
      for (int64_t j = 0; j < p.kv_len; ++j) inputs.k.At(b, h, j, 0) = 1;
  ForEachRow(p, [&](const Row& row) {
    const bool is_strong = row.head != 3 && row.query % 4 == 0;
    inputs.q.At(row.batch, row.head, row.query, 0) = is_strong ? 4000 : -4000;
  });
  Outcome outcome = RoundedOutcome(p, inputs);
  ForEachRow(p, [&](const Row& row) {
    if (!is_lost(row)) return;
    for (int64_t d = 0; d < p.value_dim; ++d) {
      outcome.out.At(row.batch, row.head, row.query, d) = lost;
    }
  });
  return Shown(p, inputs, outcome).Explain();
}

TEST(SymptomsTest, LostRowsAreToldApartByThoseThatAreRight) {
  const auto is_weak = [](const Row& row) { return row.query % 4 != 0; };
  const double nan = std::nan("");
  EXPECT_EQ(
      OfLostRows([&](const Row& row) { return is_weak(row) && row.head != 3; }, nan).cause_class,
      "shared-maximum");
  EXPECT_EQ(
      OfLostRows([&](const Row& row) { return is_weak(row) || row.head == 3; }, 0).cause_class,
      "starting-maximum");
  EXPECT_EQ(OfLostRows([](const Row&) { return true; }, nan).cause_class, "row-nan")
      << "beside no right row";
}

// Infinity less infinity where the first tile of 4 keys is hidden, or where any is.
TEST(SymptomsTest, RowsThatLoseAHiddenTileAreNamed) {
  Problem p = OpenProblem();
  p.causal = true;
  p.diagonal_offset = {4, 4};
  p.window.left = 3;
  const Inputs inputs = InputsOf(p);
  const auto named_where = [&](auto is_lost) {
    Outcome outcome = RoundedOutcome(p, inputs);
    ForEachRow(p, [&](const Row& row) {
      if (!is_lost(row)) return;
      for (int64_t d = 0; d < p.value_dim; ++d) {
        outcome.out.At(row.batch, row.head, row.query, d) = std::nan("");
      }
    });
    return Shown(p, inputs, outcome).Explain().cause_class;
  };
  EXPECT_EQ(named_where([](const Row& row) { return row.query + 4 - 3 >= 4; }), "hidden-tile");
  EXPECT_EQ(named_where([](const Row& row) { return row.query == 2; }), "row-nan");
}

// A row of one key has nothing to round its value away with, however small it is.
TEST(SymptomsTest, WiderNumericsAreNotNamedForAnotherValueOfOneKey) {
  Problem p = OpenProblem();
  p.batch = p.q_heads = p.kv_heads = p.q_len = p.kv_len = 1;
  p.want_lse = false;
  p.sinks = {60};
  const Inputs inputs = InputsOf(p);
  Problem other = p;
  other.sinks = {58};
  EXPECT_EQ(Shown(p, inputs, RoundedOutcome(other, inputs)).Explain().cause_class, "");
}

TEST(SymptomsTest, WhatOutLooksLikeSaysNothingOfTheLse) {
  const Problem p = OpenProblem();
  const Inputs inputs = InputsOf(p);
  const Row row{1, 2, 3};
  Outcome outcome = RoundedOutcome(p, inputs);
  for (int64_t d = 0; d < p.value_dim; ++d) outcome.out.At(1, 2, 3, d) = 0;
  outcome.lse.At(1, 2, 3, 0) += 0.123;
  Shown shown(p, inputs, outcome);
  const Mismatch m = shown.mismatch();
  EXPECT_EQ(ExplainMismatch(m, row, "out").cause_class, "row-zero");
  EXPECT_EQ(ExplainMismatch(m, row, "lse").cause_class, "");
  outcome.lse.At(1, 2, 3, 0) = -kInf;
  Shown lost(p, inputs, outcome);
  EXPECT_EQ(ExplainMismatch(lost.mismatch(), row, "lse").cause_class, "row-zero");
}

TEST(SymptomsTest, ANanThatIsLostIsNamed) {
  const Problem p = OpenProblem();
  Inputs inputs = InputsOf(p);
  const Outcome without = RoundedOutcome(p, inputs);
  inputs.v.At(1, 0, 10, 2) = std::nan("");
  EXPECT_EQ(Shown(p, inputs, without).Explain().cause_class, "nan-lost");
}

TEST(SymptomsTest, AHiddenMaximumAndALeakAreSeen) {
  Problem p = OpenProblem();
  Padded(p);
  Inputs inputs = InputsOf(p);
  // A hidden score 1e4 above the others, but for the first query.
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.kv_heads; ++h) inputs.k.At(b, h, p.kv_len - 1, 0) = 1e4;
  }
  for (size_t n = 0; n < inputs.q.values.size(); n += 6) {
    inputs.q.values[n] = n % 42 == 0 ? 0 : 1;
  }
  Outcome lost = RoundedOutcome(p, inputs);
  ForEachRow(p, [&](const Row& row) {
    if (row.query == 0) return;
    for (int64_t d = 0; d < p.value_dim; ++d) lost.out.At(row.batch, row.head, row.query, d) = 0;
    lost.lse.At(row.batch, row.head, row.query, 0) = -kInf;
  });
  EXPECT_EQ(Shown(p, inputs, lost).Explain().cause_class, "hidden-maximum");

  inputs = InputsOf(p);
  inputs.v.At(1, 0, 10, 2) = kInf;
  Outcome leaked = RoundedOutcome(p, inputs);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < p.q_len; ++i) leaked.out.At(1, h, i, 2) = std::nan("");
  }
  const Explanation found = Shown(p, inputs, leaked).Explain();
  EXPECT_EQ(found.cause_class, "hidden-nonfinite");
  EXPECT_THAT(found.phrase, HasSubstr("key 10"));
}

}  // namespace
}  // namespace attest
