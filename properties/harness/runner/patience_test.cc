#include "properties/harness/runner/patience.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using testing::HasSubstr;

PropertyResult Hanging() {
  PropertyResult result;
  result.findings.resize(1);
  result.findings[0].signature.cause = Cause::kHang;
  return result;
}

PropertyResult DyingSlowly() {
  PropertyResult result;
  result.dies_slowly = true;
  return result;
}

TEST(Patience, EndsWithTheThirdPropertyThatDiesSlowly) {
  Patience patience;
  for (int i = 0; i < 2; ++i) patience.Note(DyingSlowly());
  EXPECT_EQ(patience.WhyNotRun(), "");
  patience.Note(DyingSlowly());
  EXPECT_THAT(patience.WhyNotRun(), HasSubstr("not run: the kernel kept dying in 3 properties"));
}

TEST(Patience, EndsWithTheThirdPropertyThatHangs) {
  Patience patience;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(patience.WhyNotRun(), "");
    patience.Note(Hanging());
  }
  EXPECT_EQ(patience.WhyNotRun(), "not run: the kernel hangs in 3 properties");
}

TEST(Patience, OutlastsQuickDeaths) {
  Patience patience;
  PropertyResult crashed;
  crashed.findings.resize(1);
  crashed.findings[0].signature.cause = Cause::kCrash;
  for (int i = 0; i < 100; ++i) patience.Note(crashed);
  EXPECT_EQ(patience.WhyNotRun(), "");
}

}  // namespace
}  // namespace attest
