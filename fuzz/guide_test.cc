#include "fuzz/guide.h"

#include <limits>

#include <gtest/gtest.h>

#include "fuzz/status.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/offers.h"

namespace attest {
namespace {

TEST(GuideTest, LevelsRiseWithTheErrorAndStopAtTheBound) {
  EXPECT_EQ(ErrorLevel(0), 0);
  EXPECT_EQ(ErrorLevel(0x1p-13), 0);
  EXPECT_EQ(ErrorLevel(0x1p-11), 2);
  EXPECT_EQ(ErrorLevel(0.5), 22);
  EXPECT_EQ(ErrorLevel(0.75), 23);
  EXPECT_EQ(ErrorLevel(1), 24);
  EXPECT_EQ(ErrorLevel(std::numeric_limits<double>::infinity()), 24);
  EXPECT_EQ(ErrorLevel(std::numeric_limits<double>::quiet_NaN()), 0);
}

TEST(GuideTest, BinsAreCountedOnce) {
  GuideByBins(Case{});
  const int64_t one = Figures().bins;
  EXPECT_GT(one, 0);
  GuideByBins(Case{});
  EXPECT_EQ(Figures().bins, one);
  GuideByBins(DrawCase(1, 50, EverythingContract()));
  EXPECT_GT(Figures().bins, one);
}

TEST(GuideTest, TheStatusNamesWhatWasCounted) {
  CountExecution();
  ++Figures().findings;
  EXPECT_NE(StatusJson().find("{\"executions\":1,"), std::string::npos) << StatusJson();
  EXPECT_NE(StatusJson().find("\"findings\":1}"), std::string::npos) << StatusJson();
}

}  // namespace
}  // namespace attest
