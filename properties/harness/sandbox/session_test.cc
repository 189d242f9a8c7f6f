// Sessions from the user's side: loading, batches, restarts, output, and what is left behind.
#include "properties/harness/sandbox/session.h"

#include <attest/kernel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "properties/harness/sandbox/locate.h"
#include "properties/harness/sandbox/sanitized.h"
#include "properties/harness/sandbox/strided.h"
#include "properties/harness/sandbox/testing/calls.h"

namespace attest {
namespace {

using std::chrono::milliseconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr SessionOptions kImpatient{milliseconds{100}, uint64_t{8} << 30, 1};

std::string OpenError(const std::string& text) {
  const auto spec = ResolveKernel(text);
  if (!spec) return spec.error();
  const auto session = KernelSession::Open(*spec, kImpatient);
  return session ? "opened" : session.error();
}

std::string HostileError(const std::string& variant) {
  return OpenError(TestPlugin("hostile") + ":" + variant);
}

// A call whose misdeed is chosen by q's first element: see ActByValue in hostile.cc.
Call CallOf(float which) {
  Call call = SmallCall();
  std::memcpy(TensorOf(&call, ATTEST_ROLE_Q).image.data(), &which, sizeof which);
  return call;
}

float FirstOutput(const CallResult& result) {
  float value = -1;
  if (!result.outputs.empty()) std::memcpy(&value, result.outputs[0].data(), sizeof value);
  return value;
}

size_t OpenDescriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

TEST(SessionOpen, IdentityIsTheKernelsOwn) {
  const auto session = OpenHostile("ok");
  EXPECT_EQ(session->identity().name, "hostile");
  EXPECT_EQ(session->identity().version, "1");
  EXPECT_EQ(session->identity().contract_json, "{\"contract\": \"attest-1\"}");
  EXPECT_THAT(session->spec().text, EndsWith("hostile.so:ok"));
}

TEST(SessionRun, AFarOutputIsWrittenInEachOfItsParts) {
  const auto session = OpenHostile("ok");
  Call call = SmallCall();  // without v, out is 0.5 everywhere, by its strides
  std::erase_if(call.tensors, [](const CallTensor& t) { return t.role == ATTEST_ROLE_V; });
  CallTensor& out = TensorOf(&call, ATTEST_ROLE_OUT);
  const std::vector<int64_t> near = out.strides;
  const auto gap = static_cast<int64_t>(kFarGapBytes / sizeof(float));
  out.far_parts = 4;
  out.far_strides = {near[0] + 2 * gap, near[1] + gap, near[2], near[3]};
  for (int again = 0; again < 2; ++again) {
    const auto results = session->Run(std::span<const Call>(&call, 1));
    ASSERT_FALSE(results[0].fault) << results[0].fault->detail;
    ASSERT_EQ(results[0].status, CallStatus::kOk) << results[0].message;
    const float* written = reinterpret_cast<const float*>(results[0].outputs[0].data());
    EXPECT_EQ(std::count(written, written + CountElements(out), 0.5f), CountElements(out));
  }
  out.far_parts = 1;  // none but the first is there now
  const CallResult lost = RunHostile("ok", call);
  ASSERT_TRUE(lost.fault);
  EXPECT_EQ(lost.fault->kind, FaultKind::kWriteFault) << lost.fault->detail;
}

TEST(SessionOpen, LoadingErrorsAreOneLineEach) {
  EXPECT_EQ(OpenError("/nowhere/lib.so"), "/nowhere/lib.so: no such file");
  EXPECT_THAT(OpenError("/proc/self/cmdline"), HasSubstr("cmdline: cannot be loaded: "));
  EXPECT_THAT(OpenError(TestPlugin("no_symbol")),
              EndsWith("no_symbol.so: does not export attest_kernel(); see attest/kernel.h"));
  EXPECT_THAT(OpenError(TestPlugin("wrong_version")),
              EndsWith("it speaks ABI version 7, this attest speaks version 1; rebuild it"));
  EXPECT_THAT(OpenError(TestPlugin("small_table")), HasSubstr("its table has struct_size 24, but"));
  EXPECT_THAT(HostileError("typo"),
              EndsWith("hostile.so: create answered INVALID_ARGUMENT: no variant typo here"));
  EXPECT_THAT(HostileError("no-contract"), EndsWith("contract() returned NULL"));
}

TEST(SessionOpen, DyingWhileLoadingIsAnErrorNotADeath) {
  EXPECT_THAT(HostileError("die-loading"), EndsWith("while loading: crashed (SIGABRT)"));
  EXPECT_THAT(HostileError("exit-loading"),
              EndsWith("while loading: ended the process with exit code 5"));
  EXPECT_THAT(HostileError("hang-loading"), EndsWith("while loading: no answer within 1000 ms"));
  EXPECT_THAT(HostileError("throw-loading"), EndsWith("threw an exception while loading: no luck"));
  EXPECT_THAT(ChildProcesses(), IsEmpty());
}

TEST(SessionOpen, AMissingWorkerIsAnError) {
  ::setenv("ATTEST_WORKER", "/nowhere/worker", 1);
  EXPECT_EQ(HostileError("ok"),
            "cannot start the worker /nowhere/worker: No such file or directory");
  ::setenv("ATTEST_WORKER", "/bin/true", 1);
  EXPECT_THAT(HostileError("ok"), EndsWith("while loading: ended the process with exit code 0"));
  ::unsetenv("ATTEST_WORKER");
}

TEST(Session, OutputsComeBackBitForBit) {
  Call call = SmallCall();
  for (const Placement placement : {Placement::kEnd, Placement::kBegin}) {
    call.placement = placement;
    const CallResult result = RunHostile("ok", call);
    EXPECT_FALSE(result.fault);
    EXPECT_EQ(result.status, CallStatus::kOk);
    ASSERT_EQ(result.outputs.size(), 1u);
    EXPECT_EQ(result.outputs[0], TensorOf(&call, ATTEST_ROLE_V).image);
  }
}

TEST(Session, FloatsOf8BitsReachTheKernelAsBytes) {
  for (const DType dtype : {DType::kE4M3, DType::kE5M2, DType::kBool, DType::kF32}) {
    Call call = SmallCall();
    TensorOf(&call, ATTEST_ROLE_K).dtype = dtype;
    const CallStatus expected = dtype == DType::kF32 ? CallStatus::kUnsupported : CallStatus::kOk;
    EXPECT_EQ(RunHostile("needs-bytes", call).status, expected) << Name(dtype);
  }
}

TEST(Session, NoCallsAndCallsWithoutTensorsAreFine) {
  const auto session = OpenHostile("ok");
  EXPECT_TRUE(session->Run({}).empty());
  const Call empty;
  const auto results = session->Run({&empty, 1});
  EXPECT_EQ(results.at(0).status, CallStatus::kOk);
  EXPECT_TRUE(results.at(0).outputs.empty());
}

TEST(Session, SizesMayGrowAndShrinkFromRunToRun) {
  const auto session = OpenHostile("ok");
  for (const int64_t rows : {4, 4096, 0, 1, 100000, 3, 70000, 2}) {
    Call call;
    for (const int32_t role : {ATTEST_ROLE_V, ATTEST_ROLE_OUT})
      call.tensors.push_back(DenseTensor(role, {1, 1, rows, 4}));
    const std::vector<Call> calls(3, call);
    for (const CallResult& result : session->Run(calls)) {
      EXPECT_FALSE(result.fault) << rows << ": " << result.fault->detail;
      ASSERT_EQ(result.outputs.size(), 1u);
      EXPECT_EQ(result.outputs[0], call.tensors[0].image);
    }
  }
}

TEST(Session, ACallWithMoreTensorsThanBeforeFindsSlots) {
  const auto session = OpenHostile("ok");
  Call call = SmallCall();
  EXPECT_FALSE(session->Run({&call, 1})[0].fault);
  for (const int32_t role : {ATTEST_ROLE_BIAS, ATTEST_ROLE_KEY_LENGTHS, ATTEST_ROLE_MASK})
    call.tensors.push_back(DenseTensor(role, {2, 2}));
  EXPECT_FALSE(session->Run({&call, 1})[0].fault);
}

TEST(Session, OneBatchIsOneRoundTrip) {
  const auto session = OpenHostile("ok");
  const std::vector<Call> calls(8, SmallCall());
  session->Run(calls);
  EXPECT_EQ(session->stats().calls, 8);
  EXPECT_EQ(session->stats().round_trips, 1);
  EXPECT_EQ(session->stats().restarts, 0);
  EXPECT_GT(session->stats().seconds_in_worker, 0);
}

TEST(Session, FaultsInABatchCostTheirNeighboursNothing) {
  const auto session = OpenHostile("by-value", kImpatient);
  std::vector<Call> calls;
  for (const float which : {0, 1, 0, 0, 2, 4, 0, 3, 0}) calls.push_back(CallOf(which));
  const auto results = session->Run(calls);
  const std::vector<std::optional<FaultKind>> expected = {
      {}, FaultKind::kReadFault, {}, {}, FaultKind::kExit, FaultKind::kCrash,
      {}, FaultKind::kHang,      {}};
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].fault.has_value(), expected[i].has_value()) << i;
    if (results[i].fault && expected[i]) {
      EXPECT_EQ(results[i].fault->kind, *expected[i]) << i;
    }
    EXPECT_EQ(results[i].status, expected[i] ? CallStatus::kFault : CallStatus::kOk) << i;
    EXPECT_EQ(FirstOutput(results[i]), expected[i] ? -1.0f : 1.0f) << i;
  }
  EXPECT_EQ(session->stats().restarts, 4);
}

TEST(Session, InAHurryAHangIsNoticedAfterAPartOfTheDeadline) {
  const auto session = OpenHostile("by-value", {std::chrono::milliseconds{800}});
  const std::vector<Call> honest{CallOf(0)}, hanging{CallOf(3)};
  EXPECT_FALSE(session->Run(honest)[0].fault);  // the first says nothing of how long others take
  session->SetHurried(true);
  const auto hurried = session->Run(hanging);
  ASSERT_TRUE(hurried[0].fault);
  EXPECT_EQ(hurried[0].fault->detail, "no answer within 100 ms");
  session->SetHurried(false);
  EXPECT_FALSE(session->Run(honest)[0].fault);
  const auto patient = session->Run(hanging);
  ASSERT_TRUE(patient[0].fault);
  EXPECT_EQ(patient[0].fault->detail, "no answer within 800 ms");
}

TEST(Session, ResultsBeforeADeathAreKeptNotRunAgain) {
  const auto session = OpenHostile("abort?every=3");
  const std::vector<Call> calls(4, SmallCall());
  const auto results = session->Run(calls);
  // The third call ever made of a worker kills it; two were answered, and one is left for the next.
  EXPECT_FALSE(results[0].fault);
  EXPECT_FALSE(results[1].fault);
  EXPECT_TRUE(results[2].fault);
  EXPECT_FALSE(results[3].fault);
  EXPECT_EQ(session->stats().calls, 4);
}

TEST(Session, MoreCallsThanFramesRunInOrder) {
  const auto session = OpenHostile("count-calls");
  const std::vector<Call> calls(50, SmallCall());
  const auto results = session->Run(calls);
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(FirstOutput(results[i]), static_cast<float>(i + 1));
}

TEST(Session, TheKernelsWordsAreKeptUntilTaken) {
  const auto session = OpenHostile("print");
  const Call call = SmallCall();
  EXPECT_EQ(session->TakeOutput(), "");
  session->Run({&call, 1});
  EXPECT_EQ(session->TakeOutput(), "hello from the kernel\nand from stderr");
  EXPECT_EQ(session->TakeOutput(), "");
}

TEST(Session, EndlessPrintingIsBounded) {
  const auto session = OpenHostile("endless-print", kImpatient);
  const Call call = SmallCall();
  session->Run({&call, 1});
  EXPECT_EQ(session->TakeOutput().size(), size_t{64} * 1024);
}

TEST(Session, AWorkerThatCannotBeRestartedFailsTheRemainingCalls) {
  const auto session = OpenHostile("by-value");
  ::setenv("ATTEST_WORKER", "/nowhere/worker", 1);
  const std::vector<Call> calls = {CallOf(0), CallOf(4), CallOf(0)};
  const auto results = session->Run(calls);
  ::unsetenv("ATTEST_WORKER");
  EXPECT_FALSE(results[0].fault);
  EXPECT_EQ(results[1].fault.value().kind, FaultKind::kCrash);
  EXPECT_EQ(results[2].fault.value().kind, FaultKind::kProtocol);
  EXPECT_THAT(results[2].fault.value().detail,
              HasSubstr("could not be restarted: cannot start the worker /nowhere/worker"));
  EXPECT_FALSE(session->Run(calls)[0].fault);
}

TEST(Session, MayMoveToAnotherThreadAndOutliveTheOneThatOpenedIt) {
  std::unique_ptr<KernelSession> session;
  std::thread([&] { session = OpenHostile("ok"); }).join();
  const Call call = SmallCall();
  EXPECT_FALSE(session->Run({&call, 1})[0].fault);
  EXPECT_EQ(session->stats().restarts, 0);
}

TEST(Session, HundredsOfHostileCallsLeaveNothingBehind) {
  const size_t rounds = kSanitized ? 10 : 100;  // four deaths a round
  const auto session = OpenHostile("by-value");
  const std::vector<Call> calls = {CallOf(1), CallOf(2), CallOf(4), CallOf(1)};
  session->Run(calls);
  const size_t before = OpenDescriptors();
  for (size_t round = 0; round < rounds; ++round)
    for (const CallResult& result : session->Run(calls)) ASSERT_TRUE(result.fault);
  EXPECT_LE(OpenDescriptors(), before);
  EXPECT_LE(ChildProcesses().size(), 1u);
}

TEST(Session, ForksOfTheKernelDieWithTheSession) {
  const size_t before = OpenDescriptors();
  {
    const auto session = OpenHostile("fork-away");
    const std::vector<Call> calls(4, SmallCall());
    for (const CallResult& result : session->Run(calls))
      EXPECT_EQ(result.fault.value().kind, FaultKind::kLeftProcess);
  }
  EXPECT_THAT(ChildProcesses(), IsEmpty());
  EXPECT_EQ(OpenDescriptors(), before);
}

// The processes whose command line names the plug-in of this test's own copy.
std::vector<pid_t> ProcessesNaming(const std::string& text) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (line.find(text) != std::string::npos)
      found.push_back(std::stoi(entry.path().filename().string()));
  }
  return found;
}

// Waits until `count` processes name the plug-in; false after ten seconds.
bool WaitForProcesses(const std::string& text, size_t count) {
  for (int i = 0; i < 1000; ++i) {
    if (ProcessesNaming(text).size() == count) return true;
    std::this_thread::sleep_for(milliseconds{10});
  }
  return false;
}

TEST(Session, AComputingWorkerDiesWithItsHarness) {
  const std::string copy = TestPlugin("hostile-" + std::to_string(::getpid()));
  std::filesystem::copy_file(TestPlugin("hostile"), copy);
  std::string program = (ProgramFolder() / "attest_sandbox_orphan_maker").string();
  std::string argument = copy + ":hang";
  char* argv[] = {program.data(), argument.data(), nullptr};
  pid_t maker = -1;
  ASSERT_EQ(::posix_spawn(&maker, program.c_str(), nullptr, nullptr, argv, environ), 0);
  EXPECT_TRUE(WaitForProcesses(copy, 3));  // the maker, the guard and the worker
  ::kill(maker, SIGKILL);
  ::waitpid(maker, nullptr, 0);
  EXPECT_TRUE(WaitForProcesses(copy, 0));
  std::filesystem::remove(copy);
}

}  // namespace
}  // namespace attest
