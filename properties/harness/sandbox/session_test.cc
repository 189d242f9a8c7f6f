#include "properties/harness/sandbox/session.h"

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <attest/kernel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string HostilePath(const std::string& file = "attest_test_hostile.so") {
  return std::string(ATTEST_TEST_PLUGINS) + "/" + file;
}

std::unique_ptr<KernelSession> Open(const std::string& variant, SessionOptions options = {}) {
  options.deadline = std::min(options.deadline, milliseconds(300));
  const auto spec = ResolveKernel(HostilePath() + ":" + variant);
  EXPECT_TRUE(spec) << spec.error();
  auto session = KernelSession::Open(*spec, options);
  EXPECT_TRUE(session) << session.error();
  return std::move(*session);
}

std::string OpenError(const std::string& text) {
  const auto spec = ResolveKernel(text);
  if (!spec) return spec.error();
  const auto session = KernelSession::Open(*spec);
  return session ? "(opened)" : session.error();
}

CallTensor Tensor(int32_t role, std::vector<int64_t> shape, std::vector<int64_t> strides,
                  float value) {
  CallTensor t;
  t.role = role;
  t.is_output = role >= ATTEST_ROLE_OUT;
  int64_t extent = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) extent += (shape[axis] - 1) * strides[axis];
  const std::vector<float> values(static_cast<size_t>(extent), value);
  t.image.resize(values.size() * sizeof(float));
  std::memcpy(t.image.data(), values.data(), t.image.size());
  t.shape = std::move(shape);
  t.strides = std::move(strides);
  return t;
}

// q, k and out of [1, 2, 3, 4]; out has gaps between its rows. Sizes are multiples of 16 bytes, so
// that in end placement the slack of k is zero.
Call MakeCall(float first, Placement placement = Placement::kEnd) {
  Call call;
  call.placement = placement;
  call.options.push_back({ATTEST_OPTION_SCALE, true, 0, 0.5});
  call.tensors.push_back(Tensor(ATTEST_ROLE_Q, {1, 2, 3, 4}, {24, 12, 4, 1}, first));
  call.tensors.push_back(Tensor(ATTEST_ROLE_K, {1, 2, 3, 4}, {24, 12, 4, 1}, 0));
  call.tensors.push_back(Tensor(ATTEST_ROLE_OUT, {1, 2, 3, 4}, {36, 18, 6, 1}, 0));
  return call;
}

CallResult RunOne(KernelSession& session, const Call& call) {
  return session.Run({&call, 1})[0];
}

Fault FaultOf(const std::string& variant, Placement placement = Placement::kEnd) {
  auto session = Open(variant);
  const CallResult result = RunOne(*session, MakeCall(-1, placement));
  EXPECT_TRUE(result.fault) << variant;
  return result.fault.value_or(Fault{FaultKind::kProtocol, -1, {}, 0, "(no fault)"});
}

float FirstOutput(const CallResult& result) {
  float value = NAN;
  if (!result.outputs.empty()) std::memcpy(&value, result.outputs[0].data(), sizeof value);
  return value;
}

TEST(SessionTest, AGoodCallComesBackWithItsOutputs) {
  auto session = Open("good");
  EXPECT_EQ(session->identity().name, "hostile");
  const CallResult result = RunOne(*session, MakeCall(3));
  EXPECT_EQ(result.status, CallStatus::kOk);
  EXPECT_FALSE(result.fault) << result.fault->detail;
  EXPECT_EQ(FirstOutput(result), 3);
  EXPECT_EQ(result.outputs[0].size(), (36 - 18 + 3 * 6 - 2) * 4u);
}

TEST(SessionTest, ReadsOutsideATensorAreNamedWithTheirDistance) {
  const Fault past = FaultOf("read-past-k");
  EXPECT_EQ(past.kind, FaultKind::kReadFault);
  EXPECT_EQ(past.role, ATTEST_ROLE_K);
  EXPECT_EQ(past.distance_bytes, 4);
  EXPECT_EQ(past.detail,
            "read 4 bytes past the end of k, beyond k[batch 0, head 1, key 2, lane 3]");
  const Fault before = FaultOf("read-before-k", Placement::kBegin);
  EXPECT_EQ(before.kind, FaultKind::kReadFault);
  EXPECT_EQ(before.distance_bytes, -4);
  EXPECT_THAT(before.detail, HasSubstr("before k[batch 0, head 0, key 0, lane 0]"));
}

TEST(SessionTest, WritesOutsideAnOutputAreNamedWithTheirDistance) {
  const Fault before = FaultOf("write-before-out");
  EXPECT_EQ(before.kind, FaultKind::kStrayWrite);
  EXPECT_EQ(before.role, ATTEST_ROLE_OUT);
  EXPECT_EQ(before.distance_bytes, -4);
  EXPECT_EQ(FaultOf("write-before-out", Placement::kBegin).kind, FaultKind::kWriteFault);
  const Fault gap = FaultOf("write-gap");
  EXPECT_EQ(gap.kind, FaultKind::kStrayWrite);
  EXPECT_THAT(gap.detail, HasSubstr("gap between elements of out"));
}

TEST(SessionTest, InputsCannotBeChangedUnseen) {
  const Fault plain = FaultOf("write-q");
  EXPECT_EQ(plain.kind, FaultKind::kInputChanged);
  EXPECT_EQ(plain.detail, "wrote to its input q[batch 0, head 0, query 0, lane 1]");
  EXPECT_EQ(FaultOf("force-write-q").kind, FaultKind::kInputChanged);
}

TEST(SessionTest, EveryOtherWayToMisbehaveHasItsOwnCause) {
  const std::pair<const char*, FaultKind> kCases[] = {{"segfault", FaultKind::kWriteFault},
                                                      {"exit", FaultKind::kExit},
                                                      {"abort", FaultKind::kCrash},
                                                      {"hang", FaultKind::kHang},
                                                      {"stack-overflow", FaultKind::kCrash},
                                                      {"throw", FaultKind::kCrash},
                                                      {"round-up", FaultKind::kFloatEnvironment},
                                                      {"odd-status", FaultKind::kProtocol},
                                                      {"babble", FaultKind::kProtocol},
                                                      {"unwritten", FaultKind::kUnwritten}};
  for (const auto& [variant, kind] : kCases) {
    EXPECT_EQ(FaultOf(variant).kind, kind) << variant << ": " << FaultOf(variant).detail;
  }
  EXPECT_THAT(FaultOf("stack-overflow").detail, HasSubstr("stack overflow"));
  EXPECT_THAT(FaultOf("throw").detail, HasSubstr("deliberate"));
  EXPECT_THAT(FaultOf("unwritten").detail, HasSubstr("left 23 of 24 elements of out unwritten"));
}

// Under AddressSanitizer, which needs terabytes of address space, there is no limit to test.
#ifndef __SANITIZE_ADDRESS__
TEST(SessionTest, TheMemoryLimitHolds) {
  SessionOptions options;
  options.memory_limit_bytes = uint64_t{1} << 30;
  auto session = Open("eat-memory", options);
  const CallResult result = RunOne(*session, MakeCall(-1));
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, FaultKind::kMemoryLimit) << result.fault->detail;
}
#endif

TEST(SessionTest, WritingNanOfAllOnesIsWriting) {
  auto session = Open("all-ones-nan");
  const CallResult result = RunOne(*session, MakeCall(-1));
  EXPECT_EQ(result.status, CallStatus::kOk);
  EXPECT_FALSE(result.fault) << result.fault->detail;
  EXPECT_TRUE(std::isnan(FirstOutput(result)));
}

TEST(SessionTest, ARefusalIsAStatusWithItsReason) {
  auto session = Open("unsupported");
  const CallResult result = RunOne(*session, MakeCall(-1));
  EXPECT_EQ(result.status, CallStatus::kUnsupported);
  EXPECT_EQ(result.message, "no such thing");
  EXPECT_FALSE(result.fault);
}

TEST(SessionTest, AFaultInABatchCostsTheOthersNothing) {
  for (const char* variant : {"abort", "exit", "hang", "write-gap", "close-control"}) {
    auto session = Open(variant);
    std::vector<Call> calls;
    for (int n = 0; n < 40; ++n) calls.push_back(MakeCall(n == 21 ? -1.0f : static_cast<float>(n)));
    const std::vector<CallResult> results = session->Run(calls);
    ASSERT_EQ(results.size(), calls.size());
    for (int n = 0; n < 40; ++n) {
      const CallResult& result = results[static_cast<size_t>(n)];
      EXPECT_EQ(result.fault.has_value(), n == 21) << variant << " call " << n;
      if (n != 21) {
        EXPECT_EQ(FirstOutput(result), static_cast<float>(n)) << variant;
      }
    }
  }
}

TEST(SessionTest, CallsOfDifferentSizesShareASession) {
  auto session = Open("good");
  for (const int64_t len : {1, 300, 2, 40000, 3}) {
    Call call = MakeCall(5);
    call.tensors[1] = Tensor(ATTEST_ROLE_K, {1, 2, len, 4}, {8 * len, 4 * len, 4, 1}, 1);
    const CallResult result = RunOne(*session, call);
    EXPECT_EQ(FirstOutput(result), 5) << (result.fault ? result.fault->detail : "");
  }
  EXPECT_EQ(session->stats().restarts, 0);
}

TEST(SessionTest, ATensorWithoutElementsIsNoTrouble) {
  auto session = Open("good");
  Call call = MakeCall(5);
  call.tensors[1].shape[2] = 0;
  call.tensors[1].image.clear();
  EXPECT_EQ(FirstOutput(RunOne(*session, call)), 5);
}

TEST(SessionTest, WhatTheKernelPrintsIsKeptAndBounded) {
  auto session = Open("print");
  EXPECT_EQ(FirstOutput(RunOne(*session, MakeCall(-1))), -1);
  const std::string printed = session->TakeOutput();
  EXPECT_LE(printed.size(), 64 * 1024u);
  EXPECT_THAT(printed, HasSubstr("a line of no interest"));
}

size_t OpenDescriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

size_t Children() {
  std::ifstream file("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  size_t count = 0;
  for (pid_t pid; file >> pid;) ++count;
  return count;
}

TEST(SessionTest, HostilityLeavesNothingBehind) {
  const size_t descriptors = OpenDescriptors();
  for (const char* variant : {"abort", "exit", "fork", "fork-and-return", "read-past-k"}) {
    auto session = Open(variant);
    for (int n = 0; n < 60; ++n) RunOne(*session, MakeCall(n % 2 ? -1.0f : 1.0f));
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_EQ(Children(), 0u);
  // Forks of the kernel are no children of ours, but die with their group.
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string command;
    std::getline(file, command, '\0');
    if (!command.ends_with("attest_worker")) continue;
    std::string title;
    std::getline(file, title, '\0');
    EXPECT_EQ(title.find(HostilePath() + ":fork"), std::string::npos) << entry.path();
  }
}

TEST(SessionTest, StateOfTheKernelLivesOnBetweenCalls) {
  auto session = Open("count-calls");
  EXPECT_EQ(FirstOutput(RunOne(*session, MakeCall(1))), 1);
  EXPECT_EQ(FirstOutput(RunOne(*session, MakeCall(1))), 2);
}

TEST(SessionTest, EachWayNotToLoadIsOneLine) {
  const std::pair<std::string, const char*> kCases[] = {
      {"nosuch", "unknown kernel 'nosuch'; installed: "},
      {"./nosuch.so", "no such file"},
      {HostilePath("attest_test_no_symbol.so"), "does not export attest_kernel()"},
      {HostilePath("attest_test_wrong_abi.so"), "ABI version 999"},
      {HostilePath() + ":refuse", "not today nor tomorrow"},
      {HostilePath() + ":crash-in-create", "crashed while loading with SIGABRT"},
      {HostilePath() + "?tile", "no create option"},
      {HostilePath() + ":", "no variant"},
      {"/proc/self/cmdline", "cannot be loaded"}};
  for (const auto& [text, says] : kCases) {
    const std::string error = OpenError(text);
    EXPECT_THAT(error, HasSubstr(says));
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(KernelSpecTest, NamesSplitIntoLibraryVariantAndOptions) {
  const auto spec = ResolveKernel(HostilePath() + ":flash?tile=16&mode=a=b");
  ASSERT_TRUE(spec) << spec.error();
  EXPECT_EQ(spec->library, HostilePath());
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"variant", "flash"}, {"tile", "16"}, {"mode", "a=b"}};
  EXPECT_EQ(spec->options, expected);
}

}  // namespace
}  // namespace attest
