#include "properties/harness/night/fuzz_figures.h"

#include <fmt/format.h>
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

constexpr char kOverflow[] =
    R"(==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x55
READ of size 4 at 0x60 thread T0
    #0 0x55 in attest::Attend(float const*, long) /src/mine.cc:12:3
    #1 0x56 in attest::Forward /src/mine.cc:90:1
SUMMARY: AddressSanitizer: heap-buffer-overflow /src/mine.cc:12:3 in attest::Attend(float const*, long)
==1==ABORTING
)";

TEST(ClassOfEnd, NamesTheKindAndTheFunction) {
  EXPECT_EQ(ClassOfEnd(kOverflow), "heap-buffer-overflow-in-attest-Attend");
  std::string elsewhere = kOverflow;
  for (size_t at; (at = elsewhere.find("Attend")) != elsewhere.npos;)
    elsewhere.replace(at, 6, "Rescale");
  EXPECT_EQ(ClassOfEnd(elsewhere), "heap-buffer-overflow-in-attest-Rescale");
  EXPECT_NE(ReasonOfEnd(elsewhere), "");
  EXPECT_EQ(ReasonOfEnd(elsewhere), ReasonOfEnd(kOverflow));
}

TEST(ClassOfEnd, IsTheSameWhateverAddressesLinesAndNumbers) {
  const auto undefined = [](const char* line, const char* number) {
    return fmt::format(
        "/src/mine.cc:{}:7: runtime error: signed integer overflow: {} + 1 cannot be "
        "represented in type 'int'\n    #0 0x5{} in Attend(int) /src/mine.cc:{}\n"
        "SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior /src/mine.cc:{}:7\n",
        line, number, number, line, line);
  };
  EXPECT_EQ(ClassOfEnd(undefined("3", "2147483647")), "signed-integer-overflow-in-Attend");
  EXPECT_EQ(ClassOfEnd(undefined("14", "2147483600")), ClassOfEnd(undefined("3", "2147483647")));
  EXPECT_EQ(ClassOfEnd("/src/a.cc:3:5: runtime error: index 8 out of bounds for type 'float [8]'\n"
                       "SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior /src/a.cc:3:5 \n"),
            "index-in-a-cc");
  EXPECT_EQ(ClassOfEnd("==9== ERROR: libFuzzer: deadly signal\n"
                       "    #0 0x1 in __sanitizer_print_stack_trace (/bin/x+0x1)\n"
                       "    #1 0x2 in fuzzer::Fuzzer::CrashCallback() (/bin/x+0x2)\n"
                       "    #2 0x3 in Attend /src/a.cc:3:1\n"
                       "SUMMARY: libFuzzer: deadly signal\n"),
            "deadly-signal-in-Attend");
  EXPECT_EQ(ClassOfEnd("#1 NEW cov: 3\n"), "");
}

}  // namespace
}  // namespace attest
