// Each misdeed of the hostile plug-in is found, and named by kind, tensor, element and distance.
#include <attest/kernel.h>
#include <fmt/format.h>
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
        Misdeed{"read-past",
                kEnd,
                FaultKind::kReadFault,
                ATTEST_ROLE_K,
                {1, 1, 3, 3},
                4,
                "read 4 bytes past the end of k, nearest to batch 1, head 1, key 3, lane 3"},
        Misdeed{"read-far-past",
                kEnd,
                FaultKind::kReadFault,
                ATTEST_ROLE_K,
                {1, 1, 3, 3},
                40000,
                "read 40000 bytes past the end of k, nearest to batch 1, head 1, key 3, lane 3"},
        Misdeed{"read-before",
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
                {1, 1, 3, 3},
                0,
                "wrote to the input k, batch 1, head 1, key 3, lane 3"},
        Misdeed{"force-input",
                kBegin,
                FaultKind::kInputChanged,
                ATTEST_ROLE_K,
                {1, 1, 3, 3},
                0,
                "changed the input k, batch 1, head 1, key 3, lane 3"},
        Misdeed{"write-past",
                kEnd,
                FaultKind::kWriteFault,
                ATTEST_ROLE_OUT,
                {1, 1, 3, 3},
                4,
                "wrote 4 bytes past the end of out, nearest to batch 1, head 1, query 3, lane 3"},
        Misdeed{"write-past",
                kBegin,
                FaultKind::kStrayWrite,
                ATTEST_ROLE_OUT,
                {1, 1, 3, 3},
                4,
                "wrote 4 bytes past the end of out, nearest to batch 1, head 1, query 3, lane 3"},
        Misdeed{"write-before",
                kEnd,
                FaultKind::kStrayWrite,
                ATTEST_ROLE_OUT,
                {0, 0, 0, 0},
                -4,
                "wrote 4 bytes before the beginning of out, nearest to batch 0, head 0, query 0, "
                "lane 0"},
        Misdeed{"write-before",
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
  EXPECT_FALSE(RunHostile("read-past", call).fault);
  const CallResult result = RunHostile("write-past", call);
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
    const CallResult result = RunHostile("read-past", call);
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
        Plain{"segfault", FaultKind::kReadFault, "read from address 0x0: a null pointer"},
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
        Plain{"close-control", FaultKind::kProtocol, "the worker could not answer"},
        Plain{"fork", FaultKind::kLeftProcess, "left 1 forked process running"},
        Plain{"fork-away", FaultKind::kLeftProcess, "left 1 forked process running"},
        Plain{"fork-many", FaultKind::kLeftProcess, "left 8 forked processes running"},
        Plain{"kill-parent", FaultKind::kCrash, "killed by SIGKILL"},
        Plain{"kill-group", FaultKind::kCrash, "killed by SIGKILL"},
        Plain{"odd-status", FaultKind::kProtocol, "returned the unknown status 17"}));

// q, k, v and every other role a dense tensor of 256 bytes, so that no slack hides anything.
TEST(SessionFaults, AccessesBesideATensorAreNamedWhateverItsRole) {
  Call call = SmallCall();
  std::vector<int32_t> roles;
  for (int32_t role = ATTEST_ROLE_MASK; role <= ATTEST_ROLE_RING_START; ++role)
    roles.push_back(role);
  for (int32_t role = ATTEST_ROLE_LSE; role <= ATTEST_ROLE_PRESENT_V; ++role) roles.push_back(role);
  for (const int32_t role : roles) call.tensors.push_back(DenseTensor(role, {2, 2, 4, 4}));
  for (const int32_t role : {ATTEST_ROLE_Q, ATTEST_ROLE_K, ATTEST_ROLE_V, ATTEST_ROLE_OUT})
    roles.push_back(role);
  for (const auto& [variant, placement] : {std::pair{"read-past", kEnd},
                                           {"write-past", kEnd},
                                           {"read-before", kBegin},
                                           {"write-before", kBegin}}) {
    call.placement = placement;
    for (const int32_t role : roles) {
      const CallResult result = RunHostile(fmt::format("{}?role={}", variant, role), call);
      ASSERT_TRUE(result.fault) << variant << " " << role;
      EXPECT_EQ(result.fault->role, role) << result.fault->detail;
      EXPECT_EQ(result.fault->distance_bytes, placement == kEnd ? 4 : -4) << result.fault->detail;
    }
  }
}

TEST(SessionFaults, AThreadThatWritesAfterTheCallIsFound) {
  const auto session = OpenHostile("write-later");
  const std::vector<Call> calls(16, SmallCall());
  bool is_found = false;
  for (int round = 0; round < 200 && !is_found; ++round)
    for (const CallResult& result : session->Run(calls))
      is_found = is_found || (result.fault && result.fault->kind == FaultKind::kLateWrite);
  EXPECT_TRUE(is_found);
}

TEST(SessionFaults, AWriteToTheOutputsOfTheCallBeforeIsFoundThoughCallsAreMadeTogether) {
  const auto session = OpenHostile("write-previous");
  Call call = SmallCall();
  const auto results = session->Run(std::vector<Call>(3, call));
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(results[i].fault) << i;
    EXPECT_EQ(results[i].fault->kind, FaultKind::kLateWrite);
    EXPECT_EQ(results[i].fault->index, (Index{0, 0, 0, 0}));
    EXPECT_EQ(results[i].outputs.at(0), TensorOf(&call, ATTEST_ROLE_V).image);
  }
  EXPECT_FALSE(results[2].fault);
}

TEST(SessionFaults, OnlyMemoryThatGrowsWithEachCallIsALeak) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep freed memory";
  const std::vector<Call> calls(16, SmallCall());
  for (const char* variant : {"leak", "leak?every=2", "ok"}) {
    const auto session = OpenHostile(variant);
    int faults = 0;
    for (int round = 0; round < 12; ++round)
      for (const CallResult& result : session->Run(calls)) {
        faults += result.fault ? 1 : 0;
        if (!result.fault) continue;
        EXPECT_EQ(result.fault->kind, FaultKind::kLeak);
        EXPECT_THAT(result.fault->detail,
                    testing::MatchesRegex(".* bytes a call, over 1... calls alike"));
      }
    EXPECT_EQ(faults, std::string_view(variant) == "ok" ? 0 : 1) << variant;
  }
}

TEST(SessionFaults, WhatACallScribblesOverIsNotTakenForAnAnswer) {
  const auto session = OpenHostile("scribble?every=4");
  Call call = SmallCall();
  const std::vector<Call> calls(9, call);
  const auto results = session->Run(calls);
  // Which of a batch scribbled cannot be told, for all share the memory and the worker is ahead of the
  // harness; but what is given as an answer is one.
  for (const CallResult& result : results) {
    if (result.fault) continue;
    EXPECT_EQ(result.outputs.at(0), TensorOf(&call, ATTEST_ROLE_V).image);
  }
  EXPECT_TRUE(std::ranges::any_of(results, [](const CallResult& result) {
    return result.fault && result.fault->kind == FaultKind::kInputChanged;
  }));
}

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
  for (const char* variant : {"allocate-on", "allocate-unchecked"}) {
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

TEST(SessionFaults, AnArenaThatTheKernelMadeLongerStillGrows) {
  const auto session = OpenHostile("grow-arena");
  for (const int64_t rows : {4, 100000}) {
    Call call;
    for (const int32_t role : {ATTEST_ROLE_V, ATTEST_ROLE_OUT})
      call.tensors.push_back(DenseTensor(role, {1, 1, rows, 4}));
    const CallResult result = session->Run({&call, 1}).front();
    EXPECT_FALSE(result.fault) << result.fault->detail;
  }
}

TEST(SessionFaults, ClosingEveryDescriptorIsAFaultAndNoMore) {
  for (const char* variant : {"close-and-wait", "close-all"}) {
    const CallResult result = RunHostile(variant, SmallCall(), kImpatient);
    ASSERT_TRUE(result.fault);
    EXPECT_EQ(result.fault->kind, FaultKind::kProtocol);
  }
}

// Later calls of the request are computed, and none is heard of.
TEST(SessionFaults, ClosingTheControlSocketIsTheFaultOfTheCallThatDoesIt) {
  const auto session = OpenHostile("close-control?every=3");
  const std::vector<Call> calls(5, SmallCall());
  const auto results = session->Run(calls);
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(results[i].fault.has_value(), i == 2) << i;
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
