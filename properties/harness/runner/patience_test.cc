#include "properties/harness/runner/patience.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using testing::HasSubstr;

PropertyResult Hanging(int number) {
  PropertyResult result;
  result.property = fmt::format("nan.{}", number);
  result.findings.resize(1);
  result.findings[0].signature.cause = Cause::kHang;
  return result;
}

PropertyResult DyingSlowly(int number) {
  PropertyResult result;
  result.property = fmt::format("nan.{}", number);
  result.dies_slowly = true;
  return result;
}

TEST(Patience, EndsWithTheThirdPropertyThatDiesSlowly) {
  Patience patience;
  for (int i = 0; i < 2; ++i) patience.Note(DyingSlowly(i));
  EXPECT_EQ(patience.WhyNotRun(), "");
  patience.Note(DyingSlowly(2));
  EXPECT_THAT(patience.WhyNotRun(), HasSubstr("it kept dying in 3 properties"));
}

TEST(Patience, EndsWithTheThirdPropertyThatHangs) {
  Patience patience;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(patience.WhyNotRun(), "");
    patience.Note(Hanging(i));
  }
  EXPECT_EQ(patience.WhyNotRun(), "it hangs in 3 properties");
}

TEST(Patience, CountsAPropertyThatIsRunInPartsOnce) {
  Patience patience;
  for (int part = 0; part < 3; ++part) {
    patience.Note(Hanging(1));
    patience.Note(DyingSlowly(2));
  }
  EXPECT_EQ(patience.WhyNotRun(), "");
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
