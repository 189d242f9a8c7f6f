#include "properties/harness/night/fuzz_figures.h"

#include <gtest/gtest.h>

namespace attest {
namespace {

TEST(FuzzFigures, StatusComesBackAsItWas) {
  FuzzFigures figures;
  figures.executions = 12;
  figures.bins = 3;
  figures.worst_ratio = 0.5;
  figures.Add(FiguresOfStatus(R"({"executions":30,"seconds":2.5,"bins":2,"worst_ratio":0.75,)"
                              R"("worst_lse_ratio":0.1,"findings":1})"));
  const FuzzFigures read = FiguresOfStatus(ToJson(figures));
  EXPECT_EQ(read.executions, 42);
  EXPECT_EQ(read.bins, 3);
  EXPECT_EQ(read.seconds, 2.5);
  EXPECT_EQ(read.worst_ratio, 0.75);
  EXPECT_EQ(read.worst_lse_ratio, 0.1);
}

TEST(FuzzFigures, HalfAStatusGivesNothing) {
  EXPECT_EQ(FiguresOfStatus(R"({"executions":30,"sec)").executions, 0);
  EXPECT_EQ(FiguresOfStatus(R"({"executions":"many"})").executions, 0);
}

TEST(FuzzFigures, LastWordOfALogCounts) {
  const FuzzFigures figures = FiguresOfLog(
      "INFO: Loaded 1 modules\n#2\tINITED cov: 10 ft: 11\n#70\tNEW    cov: 12 ft: 13 corp: 2/2b\n"
      "#128\tpulse  cov: 12 ft: 13\n#0 0x55 in main\n#1");
  EXPECT_EQ(figures.coverage, 12);
  EXPECT_EQ(figures.executions, 128);
  EXPECT_EQ(FiguresOfLog("").executions, 0);
}

TEST(FuzzFigures, ReasonIsThatOfTheSanitizerWithoutAddresses) {
  EXPECT_EQ(ReasonOfEnd("x\n==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x12\n"),
            "AddressSanitizer: heap-buffer-overflow");
  EXPECT_EQ(ReasonOfEnd("a.cc:1:2: runtime error: division by zero\n"),
            "runtime error: division by zero");
  EXPECT_EQ(ReasonOfEnd("nothing"), "");
}

}  // namespace
}  // namespace attest
