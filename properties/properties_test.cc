// The properties themselves under test: both references, taken as kernels, must pass every one of
// them under every contract, and every derived case must be valid. A relation that a correct kernel
// can break is a false alarm waiting to happen.
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "impl/attention/testing/repetitions.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/toml.h"
#include "properties/property.h"
#include "properties/testing.h"

namespace attest {
namespace {

using Compute = Outcome (*)(const Case&, const Contract&);

struct Tally {
  int applied = 0;
  int decided = 0;  // PASS or MARGINAL
};

void RunOnce(const Property& property, const Contract& contract, Compute compute, const Case& c,
             Tally& tally) {
  const Derived derived = property.derive(c, contract);
  if (!derived.not_applicable.empty()) return;
  ++tally.applied;
  std::vector<Outcome> outcomes;
  for (const Case& one : derived.cases) {
    const auto problem = Validate(one);
    ASSERT_FALSE(problem) << property.id << ": " << *problem << "\nfrom\n"
                          << ToToml({c, {}, {}, {}});
    outcomes.push_back(compute(one, contract));
  }
  Oracle oracle(derived.cases, contract);
  const Verdict verdict = property.judge({contract, derived.cases, outcomes, oracle});
  ASSERT_NE(verdict.kind, VerdictKind::kFail)
      << property.id << ": " << verdict.sentence << "\nfrom\n"
      << ToToml({c, {}, {}, {}});
  tally.decided += verdict.kind != VerdictKind::kUnsupported;
}

void RunAll(const Contract& contract, Compute compute, uint64_t salt, int usual) {
  const int cases = Repetitions(usual);
  for (const Property& property : AllProperties()) {
    if (!property.unsupported(contract).empty()) continue;
    Tally tally;
    for (int n = 0; n < cases; ++n) {
      const uint64_t seed = salt * 1000003 + static_cast<uint64_t>(n);
      RunOnce(property, contract, compute, DrawCase(seed, 20 + n * 37 % 60, contract), tally);
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GE(tally.applied, std::max(1, cases / 10)) << property.id << " hardly ever applies";
    EXPECT_GE(tally.decided, std::max(1, cases / 20)) << property.id << " hardly ever decides";
  }
}

TEST(PropertiesTest, EveryPropertyIsInReachOfSomeContract) {
  const Contract contract = WholeSurface();
  for (const Property& property : AllProperties()) {
    EXPECT_EQ(property.unsupported(contract), "") << property.id;
  }
}

TEST(PropertiesTest, TheFirstReferencePassesThemAllOverTheWholeSurface) {
  RunAll(WholeSurface(), FirstReference, 1, 40);
}

TEST(PropertiesTest, TheSecondReferencePassesThemAllOverTheWholeSurface) {
  RunAll(WholeSurface(), SecondReference, 2, 20);
}

TEST(PropertiesTest, TheFirstReferencePassesThemAllWithTheSoftcapLastAndPaddedRowsZero) {
  Contract contract = WholeSurface();
  contract.semantics.softcap_order = SoftcapOrder::kAfterBias;
  contract.padded_query_rows = PaddedQueryRows::kZero;
  RunAll(contract, FirstReference, 5, 25);
}

TEST(PropertiesTest, TheFirstReferencePassesThemAllUnderThePublishedContracts) {
  for (const NamedContract& named : NamedContracts()) {
    RunAll(NamedContractOf(named.name), FirstReference, 3, 15);
  }
}

TEST(PropertiesTest, TheFirstReferencePassesThemAllWhateverEmptyRowsGive) {
  for (const char* what : {"nan", "mean_value", "unmasked", "unspecified"}) {
    const auto contract = ParseContract(
        std::string(R"({"contract": "attest-1", "lse_empty_row": "unspecified", "empty_row": ")") +
        what + "\"}");
    ASSERT_TRUE(contract) << contract.error();
    RunAll(*contract, FirstReference, 4, 15);
  }
}

// One fault in padded rows is one finding, and it says so.
TEST(PropertiesTest, SpoiltPaddedRowsFailTheirOwnClaimAlone) {
  const Contract contract = WholeSurface();
  std::set<std::string> failed, causes;
  for (const Property& property : AllProperties()) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      Case c = DrawCase(seed, 30, contract);
      if (c.storage.packed) continue;
      c.problem.query_lengths.emplace(static_cast<size_t>(c.problem.batch), c.problem.q_len / 2);
      const Derived derived = property.derive(c, contract);
      std::vector<Outcome> outcomes;
      for (const Case& one : derived.cases) {
        outcomes.push_back(FirstReference(one, contract));
        Array& out = outcomes.back().out;
        ForEachRow(one.problem, [&](const Row& row) {
          if (!IsPaddedQuery(one.problem, row)) return;
          for (int64_t d = 0; d < out.shape[3]; ++d) out.At(row.batch, row.head, row.query, d) = 7;
        });
      }
      Oracle oracle(derived.cases, contract);
      if (derived.cases.empty()) continue;
      const Verdict verdict = property.judge({contract, derived.cases, outcomes, oracle});
      if (verdict.kind != VerdictKind::kFail) continue;
      failed.emplace(property.id);
      causes.insert(verdict.cause_class);
    }
  }
  EXPECT_EQ(failed, std::set<std::string>{"query_padding.padded_rows_hold_what_is_promised"});
  EXPECT_EQ(causes, std::set<std::string>{"padded-query-rows"});
}

// What labels_come_back says of 342 keys in f16 where 11 + `off` comes back for 11.
VerdictKind LabelsOff(const Contract& contract, double off) {
  Case c;
  c.problem.batch = c.problem.q_heads = c.problem.kv_heads = 2;
  c.problem.kv_len = 342;
  c.problem.dtype = DType::kF16;
  const Property& property = *FindProperty("heads.labels_come_back");
  const Derived derived = property.derive(c, contract);
  std::vector<Outcome> outcomes = {FirstReference(derived.cases[0], contract)};
  outcomes[0].out.At(1, 1, 0, 0) += off;
  Oracle oracle(derived.cases, contract);
  return property.judge({contract, derived.cases, outcomes, oracle}).kind;
}

TEST(PropertiesTest, LabelsMayBeMistakenAsFarAsTheDeclaredArithmeticMay) {
  const auto loose =
      ParseContract(R"({"contract": "attest-1", "numerics": {"f16": {"accumulate": "f16"}}})");
  ASSERT_TRUE(loose) << loose.error();
  EXPECT_EQ(LabelsOff(WholeSurface(), 0.453125), VerdictKind::kFail);
  EXPECT_NE(LabelsOff(*loose, 0.453125), VerdictKind::kFail);
  EXPECT_EQ(LabelsOff(*loose, 50), VerdictKind::kFail);
}

TEST(PropertiesTest, IdsAreUniqueAndNameTheirFamily) {
  std::set<std::string_view> ids;
  for (const Property& property : AllProperties()) {
    EXPECT_TRUE(ids.insert(property.id).second) << property.id;
    EXPECT_NE(property.id.find('.'), std::string_view::npos) << property.id;
    EXPECT_FALSE(property.claim.empty());
    EXPECT_FALSE(property.needs.empty());
    EXPECT_EQ(FindProperty(property.id), &property);
  }
  EXPECT_EQ(FindProperty("no.such_property"), nullptr);
}

}  // namespace
}  // namespace attest
