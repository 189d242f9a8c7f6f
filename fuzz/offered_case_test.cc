#include "fuzz/offered_case.h"

#include <gtest/gtest.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/test_contracts.h"
#include "properties/harness/case/toml.h"
#include "properties/harness/lower/lower.h"

namespace attest {
namespace {

TEST(OfferedCaseTest, IsValidAndMostlyTaken) {
  for (const Contract& contract : TestContracts()) {
    int taken = 0;
    constexpr int kCases = 200;
    for (uint64_t seed = 0; seed < kCases; ++seed) {
      const Case c = DrawCase(seed, 40, EverythingContract());
      const Case offered = OfferedCase(c, contract);
      ASSERT_EQ(Validate(offered), std::nullopt) << ToToml({offered, {}, {}, {}});
      taken += Lower(offered, Materialise(offered), contract).has_value() ? 1 : 0;
    }
    EXPECT_GT(taken, kCases * 7 / 10) << contract.name;
  }
}

TEST(OfferedCaseTest, WhatIsTakenStaysAsItIs) {
  const Contract& everything = EverythingContract();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Case c = DrawCase(seed, 40, everything);
    if (!Lower(c, Materialise(c), everything)) continue;
    EXPECT_TRUE(SameCase(OfferedCase(c, everything), c)) << ToToml({c, {}, {}, {}});
  }
}

}  // namespace
}  // namespace attest
