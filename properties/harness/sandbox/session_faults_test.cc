// Each misdeed of the hostile plug-in is found, and named by kind, tensor, element and distance.
#include <attest/kernel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "properties/harness/sandbox/sanitized.h"
#include "properties/harness/sandbox/testing/calls.h"

namespace attest {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Index = std::vector<int64_t>;

// Short enough for a quick test; the first call of a worker gets ten times it.
constexpr SessionOptions kImpatient{milliseconds{60}, uint64_t{8} << 30, 1};

struct Misdeed {
  const char* variant;
  Placement placement;
  FaultKind kind;
  int32_t role;
  Index index;
  int64_t distance;
  const char* detail;
};

class PlacedFaultTest : public ::testing::TestWithParam<Misdeed> {};

TEST_P(PlacedFaultTest, IsNamedByTensorElementAndDistance) {
  const Misdeed& misdeed = GetParam();
  Call call = SmallCall();
  call.placement = misdeed.placement;
  const CallResult result = RunHostile(misdeed.variant, call);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->detail, misdeed.detail);
  EXPECT_EQ(result.fault->kind, misdeed.kind);
  EXPECT_EQ(result.fault->role, misdeed.role);
  EXPECT_EQ(result.fault->index, misdeed.index);
  EXPECT_EQ(result.fault->distance_bytes, misdeed.distance);
}

constexpr auto kEnd = Placement::kEnd;
constexpr auto kBegin = Placement::kBegin;

INSTANTIATE_TEST_SUITE_P(
    Misdeeds, PlacedFaultTest,
    ::testing::Values(
        Misdeed{"overread",
                kEnd,
                FaultKind::kReadFault,
                ATTEST_ROLE_K,
                {1, 1, 3, 3},
                4,
                "read 4 bytes past the end of k, nearest to batch 1, head 1, key 3, lane 3"},
        Misdeed{"far-overread",
                kEnd,
                FaultKind::kReadFault,
                ATTEST_ROLE_K,
                {1, 1, 3, 3},
                40000,
                "read 40000 bytes past the end of k, nearest to batch 1, head 1, key 3, lane 3"},
        Misdeed{"underread",
                kBegin,
                FaultKind::kReadFault,
                ATTEST_ROLE_K,
                {0, 0, 0, 0},
                -4,
                "read 4 bytes before the beginning of k, nearest to batch 0, head 0, key 0, "
                "lane 0"},
        Misdeed{"write-input",
                kEnd,
                FaultKind::kInputChanged,
                ATTEST_ROLE_K,
                {0, 0, 0, 3},
                0,
                "wrote to the input k, batch 0, head 0, key 0, lane 3"},
        Misdeed{"force-input",
                kBegin,
                FaultKind::kInputChanged,
                ATTEST_ROLE_K,
                {0, 0, 0, 3},
                0,
                "changed the input k, batch 0, head 0, key 0, lane 3"},
        Misdeed{"overwrite",
                kEnd,
                FaultKind::kWriteFault,
                ATTEST_ROLE_OUT,
                {1, 1, 3, 3},
                4,
                "wrote 4 bytes past the end of out, nearest to batch 1, head 1, query 3, lane 3"},
        Misdeed{"overwrite",
                kBegin,
                FaultKind::kStrayWrite,
                ATTEST_ROLE_OUT,
                {1, 1, 3, 3},
                4,
                "wrote 4 bytes past the end of out, nearest to batch 1, head 1, query 3, lane 3"},
        Misdeed{"underwrite",
                kEnd,
                FaultKind::kStrayWrite,
                ATTEST_ROLE_OUT,
                {0, 0, 0, 0},
                -4,
                "wrote 4 bytes before the beginning of out, nearest to batch 0, head 0, query 0, "
                "lane 0"},
        Misdeed{"underwrite",
                kBegin,
                FaultKind::kWriteFault,
                ATTEST_ROLE_OUT,
                {0, 0, 0, 0},
                -4,
                "wrote 4 bytes before the beginning of out, nearest to batch 0, head 0, query 0, "
                "lane 0"},
        Misdeed{"skip-row",
                kEnd,
                FaultKind::kUnwritten,
                ATTEST_ROLE_OUT,
                {0, 0, 1, 0},
                0,
                "left 4 of 64 elements of out unwritten, first batch 0, head 0, query 1, lane 0"},
        Misdeed{"skip-out",
                kEnd,
                FaultKind::kUnwritten,
                ATTEST_ROLE_OUT,
                {0, 0, 0, 0},
                0,
                "left 64 of 64 elements of out unwritten, first batch 0, head 0, query 0, "
                "lane 0"}));

TEST(SessionFaults, AWriteIntoAGapIsFoundBesideTheNearestElement) {
  Call call = SmallCall();
  CallTensor& out = TensorOf(&call, ATTEST_ROLE_OUT);
  out.strides = {48, 24, 6, 1};  // two gap elements after each row of four
  out.image.resize((48 + 24 + 18 + 4) * sizeof(float));
  TensorOf(&call, ATTEST_ROLE_V).shape = {2, 2, 4, 1};
  EXPECT_FALSE(RunHostile("ok", call).fault);
  const CallResult result = RunHostile("write-gap", call);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(
      result.fault->detail,
      "wrote in a gap between the elements of out, nearest to batch 0, head 0, query 0, lane 3");
  EXPECT_EQ(result.fault->kind, FaultKind::kStrayWrite);
  EXPECT_EQ(result.fault->index, (Index{0, 0, 0, 3}));
  EXPECT_EQ(result.fault->distance_bytes, 0);
  EXPECT_EQ(result.status, CallStatus::kOk);
}

TEST(SessionFaults, SlackThatAlignmentForcesIsReadableButNotWritable) {
  Call call = SmallCall();
  call.min_alignment = 512;  // 256 bytes of slack behind each tensor
  EXPECT_FALSE(RunHostile("overread", call).fault);
  const CallResult result = RunHostile("overwrite", call);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, FaultKind::kStrayWrite);
  EXPECT_EQ(result.fault->distance_bytes, 4);
}

TEST(SessionFaults, AReadOfAnEmptyTensorIsCaught) {
  Call call = SmallCall();
  CallTensor& k = TensorOf(&call, ATTEST_ROLE_K);
  k.shape = {2, 2, 0, 4};
  k.image.clear();
  for (const Placement placement : {kEnd, kBegin}) {
    call.placement = placement;
    const CallResult result = RunHostile("overread", call);
    ASSERT_TRUE(result.fault);
    EXPECT_EQ(result.fault->detail, "read 4 bytes past k, which is empty");
    EXPECT_EQ(result.fault->role, ATTEST_ROLE_K);
    EXPECT_TRUE(result.fault->index.empty());
  }
}

struct Plain {
  const char* variant;
  FaultKind kind;
  const char* detail;  // begins so
};

class PlainFaultTest : public ::testing::TestWithParam<Plain> {};

TEST_P(PlainFaultTest, IsNamedByItsKind) {
  const CallResult result = RunHostile(GetParam().variant, SmallCall(), kImpatient);
  ASSERT_TRUE(result.fault);
  EXPECT_THAT(result.fault->detail, StartsWith(GetParam().detail));
  EXPECT_EQ(result.fault->kind, GetParam().kind);
  EXPECT_EQ(result.fault->role, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Misdeeds, PlainFaultTest,
    ::testing::Values(
        Plain{"null-read", FaultKind::kReadFault, "read from address 0x0: a null pointer"},
        Plain{"wild-write", FaultKind::kWriteFault,
              "wrote to address 0x5a5a5a5a5000: outside every tensor"},
        Plain{"jump", FaultKind::kCrash, "jumped to address 0x1000"},
        Plain{"stack-overflow", FaultKind::kCrash, "stack overflow"},
        Plain{"abort", FaultKind::kCrash, "SIGABRT"}, Plain{"raise", FaultKind::kCrash, "SIGSEGV"},
        Plain{"divide", FaultKind::kCrash, "SIGFPE"},
        Plain{"throw", FaultKind::kCrash,
              "threw an exception through the C ABI: not caught inside"},
        Plain{"throw-int", FaultKind::kCrash, "threw an exception through the C ABI: of a type"},
        Plain{"exit", FaultKind::kExit, "ended the process with exit code 7"},
        Plain{"thread-exit", FaultKind::kExit, "ended the process with exit code 0"},
        Plain{"hang", FaultKind::kHang, "no answer within 600 ms"},
        Plain{"hang-deaf", FaultKind::kHang, "no answer within 600 ms"},
        Plain{"endless-print", FaultKind::kHang, "no answer within 600 ms"},
        Plain{"flush-to-zero", FaultKind::kFloatEnvironment,
              "changed the floating-point environment: flush-to-zero"},
        Plain{"rounding", FaultKind::kFloatEnvironment,
              "changed the floating-point environment: rounding mode"},
        Plain{"fork-and-die", FaultKind::kCrash, "SIGABRT"},
        Plain{"garble", FaultKind::kProtocol, "the worker answered nonsense: \"garbage\""},
        Plain{"flood", FaultKind::kProtocol, "the worker sent an endless line"},
        Plain{"odd-status", FaultKind::kProtocol, "returned the unknown status 17"}));

TEST(SessionFaults, AMisalignedVectorAccessIsToldFromAWildPointerAsFarAsPossible) {
#if defined(__x86_64__)
  const CallResult result = RunHostile("misaligned");
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, FaultKind::kCrash);
  EXPECT_THAT(result.fault->detail, HasSubstr("more alignment than the 16 bytes given"));
#else
  GTEST_SKIP() << "arm64 allows misaligned vector accesses";
#endif
}

TEST(SessionFaults, PassingTheMemoryLimitIsNamedHoweverTheKernelTakesIt) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need unlimited address space";
  SessionOptions options;
  options.memory_limit_bytes = uint64_t{2} << 30;
  for (const char* variant : {"bad-alloc", "malloc"}) {
    const CallResult result = RunHostile(variant, SmallCall(), options);
    ASSERT_TRUE(result.fault) << variant;
    EXPECT_EQ(result.fault->kind, FaultKind::kMemoryLimit) << result.fault->detail;
  }
}

TEST(SessionFaults, ANanOfAllOnesIsNotTakenForUnwritten) {
  const CallResult result = RunHostile("nan-bits");
  EXPECT_FALSE(result.fault) << result.fault->detail;
  EXPECT_EQ(result.status, CallStatus::kOk);
  EXPECT_EQ(result.outputs.at(0).at(7), std::byte{0xFF});
}

TEST(SessionFaults, WhatMayStayUnwrittenIsNoFaultAndTheRestIs) {
  Call call = SmallCall();
  CallTensor& out = TensorOf(&call, ATTEST_ROLE_OUT);
  out.may_stay_unwritten.assign(64, 0);
  // the four lanes of the row that the kernel skips
  std::fill_n(out.may_stay_unwritten.begin() + 4, 4, uint8_t{1});
  EXPECT_FALSE(RunHostile("skip-row", call).fault);
  EXPECT_FALSE(RunHostile("ok", call).fault);
  out.may_stay_unwritten[6] = 0;
  const CallResult result = RunHostile("skip-row", call);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, FaultKind::kUnwritten);
  EXPECT_EQ(result.fault->index, (std::vector<int64_t>{0, 0, 1, 2}));
  EXPECT_THAT(result.fault->detail, HasSubstr("left 1 of 64 elements"));
}

TEST(SessionFaults, TheArenaCannotBeShrunkUnderTheHarness) {
  EXPECT_FALSE(RunHostile("shrink-arena").fault);
}

TEST(SessionFaults, ClosingEveryDescriptorIsAFaultAndNoMore) {
  const CallResult result = RunHostile("close-all", SmallCall(), kImpatient);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, FaultKind::kProtocol);
}

TEST(SessionFaults, AForkThatReturnsDoesNotSpeak) {
  const auto session = OpenHostile("fork-and-return");
  const std::vector<Call> calls(3, SmallCall());
  for (int round = 0; round < 5; ++round)
    for (const CallResult& result : session->Run(calls)) EXPECT_FALSE(result.fault);
}

TEST(SessionFaults, AnUnsupportedCallKeepsTheKernelsReasonOnOneLine) {
  const CallResult result = RunHostile("unsupported");
  EXPECT_FALSE(result.fault);
  EXPECT_EQ(result.status, CallStatus::kUnsupported);
  EXPECT_THAT(result.message, StartsWith("not on Tuesdays"));
  EXPECT_TRUE(result.outputs.empty());
}

TEST(SessionFaults, AMalformedCallIsTheHarnessesFaultAndCostsNothingElse) {
  std::vector<Call> calls(3, SmallCall());
  calls[1].min_alignment = 3;
  const auto results = OpenHostile("ok")->Run(calls);
  EXPECT_FALSE(results[0].fault);
  ASSERT_TRUE(results[1].fault);
  EXPECT_EQ(results[1].fault->kind, FaultKind::kProtocol);
  EXPECT_THAT(results[1].fault->detail, StartsWith("the harness made a malformed call: min_align"));
  EXPECT_FALSE(results[2].fault);
}

}  // namespace
}  // namespace attest
