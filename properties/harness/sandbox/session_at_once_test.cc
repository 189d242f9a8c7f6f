// Calls made at the same time, and kernels made with other thread counts.
#include <attest/kernel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "properties/harness/sandbox/testing/calls.h"

namespace attest {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Calls of these tests take 30 ms; the first of a worker gets ten times this.
SessionOptions Patient() {
  SessionOptions options;
  options.deadline = milliseconds{500};
  return options;
}

std::vector<CallResult> RunAtOnce(KernelSession& session, size_t count) {
  const std::vector<Call> calls(count, SmallCall());
  auto results = session.RunAtOnce(calls);
  EXPECT_TRUE(results) << results.error().reason;
  return results.value_or(std::vector<CallResult>());
}

std::vector<float> FirstOutputs(const std::vector<CallResult>& results) {
  std::vector<float> values;
  for (const CallResult& result : results) {
    values.push_back(-1);
    if (!result.outputs.empty()) std::memcpy(&values.back(), result.outputs[0].data(), 4);
  }
  return values;
}

TEST(SessionAtOnceTest, CallsOverlap) {
  const auto session = OpenHostile("count-at-once", Patient());
  EXPECT_EQ(std::ranges::max(FirstOutputs(RunAtOnce(*session, 4))), 4);
  const Call call = SmallCall();
  EXPECT_EQ(FirstOutputs(session->Run({&call, 1})), std::vector<float>{1});
}

TEST(SessionAtOnceTest, EachCallHasItsOwnResult) {
  const auto session = OpenHostile("ok", Patient());
  std::vector<Call> calls(4, SmallCall());
  for (size_t n = 0; n < calls.size(); ++n) {
    const auto first = static_cast<float>(100 + n);
    std::memcpy(TensorOf(&calls[n], ATTEST_ROLE_V).image.data(), &first, sizeof first);
  }
  const auto results = session->RunAtOnce(calls);
  ASSERT_TRUE(results) << results.error().reason;
  EXPECT_EQ(FirstOutputs(*results), (std::vector<float>{100, 101, 102, 103}));
  EXPECT_EQ(session->stats().round_trips, 1);
}

TEST(SessionAtOnceTest, AFaultOfCallsAtOnceIsNamedAsSuch) {
  const auto session = OpenHostile("die-at-once", Patient());
  for (const CallResult& result : RunAtOnce(*session, 3)) {
    ASSERT_TRUE(result.fault);
    EXPECT_EQ(result.fault->kind, FaultKind::kWriteFault);
    EXPECT_THAT(result.fault->detail,
                AllOf(HasSubstr("past the end of k"),
                      HasSubstr("(while 3 calls ran at once; none of them fails alone)")));
  }
  const Call call = SmallCall();
  EXPECT_FALSE(session->Run({&call, 1})[0].fault);
}

TEST(SessionAtOnceTest, AFaultThatACallHasAloneIsThatCallsOwn) {
  const auto session = OpenHostile("by-value", Patient());
  std::vector<Call> calls(3, SmallCall());
  for (size_t n = 0; n < calls.size(); ++n) {
    const auto misdeed = static_cast<float>(n == 1 ? 4 : 0);  // the second aborts
    std::memcpy(TensorOf(&calls[n], ATTEST_ROLE_Q).image.data(), &misdeed, sizeof misdeed);
  }
  const auto results = session->RunAtOnce(calls);
  ASSERT_TRUE(results) << results.error().reason;
  EXPECT_FALSE((*results)[0].fault);
  ASSERT_TRUE((*results)[1].fault);
  EXPECT_EQ((*results)[1].fault->detail, "SIGABRT");
  EXPECT_FALSE((*results)[2].fault);
}

TEST(SessionAtOnceTest, CallsThatHangTogetherAreFoundWithinTheirDeadlines) {
  SessionOptions options;
  options.deadline = milliseconds{100};
  const auto session = OpenHostile("hang-at-once", options);
  const Call call = SmallCall();
  session->Run({&call, 1});  // the first has ten times the deadline
  const auto results = RunAtOnce(*session, 2);
  ASSERT_TRUE(results.at(0).fault);
  EXPECT_EQ(results[0].fault->kind, FaultKind::kHang);
  EXPECT_THAT(results[0].fault->detail, HasSubstr("no answer within 200 ms"));
}

TEST(SessionAtOnceTest, AThreadThatTheKernelEndsIsAFault) {
  const auto session = OpenHostile("end-thread", Patient());
  const auto results = RunAtOnce(*session, 2);
  ASSERT_TRUE(results.at(0).fault);
  EXPECT_THAT(results[0].fault->detail, HasSubstr("the end of the calling thread"));
}

TEST(SessionThreadsTest, AnotherCountIsAnotherSessionMadeOnce) {
  const auto session = OpenHostile("count-calls", Patient());
  EXPECT_EQ(*session->WithThreads(1), session.get());
  KernelSession* three = session->WithThreads(3).value_or(nullptr);
  ASSERT_NE(three, nullptr);
  EXPECT_NE(three, session.get());
  EXPECT_EQ(session->WithThreads(3).value_or(nullptr), three);
  const Call call = SmallCall();
  EXPECT_EQ(FirstOutputs(three->Run({&call, 1})), std::vector<float>{1});
  EXPECT_EQ(FirstOutputs(session->Run({&call, 1})), std::vector<float>{1});
}

TEST(SessionThreadsTest, AKernelThatTakesNoSuchCountSaysSo) {
  const auto session = OpenHostile("not-with-two-threads", Patient());
  EXPECT_TRUE(session->WithThreads(3));
  const auto two = session->WithThreads(2);
  ASSERT_FALSE(two);
  EXPECT_FALSE(two.error().is_fault);
  EXPECT_THAT(two.error().reason,
              AllOf(HasSubstr("with 2 threads: "), HasSubstr("create answered UNSUPPORTED")));
}

TEST(SessionThreadsTest, AKernelThatDiesOverACountIsAtFault) {
  const auto two = OpenHostile("die-with-two-threads", Patient())->WithThreads(2);
  ASSERT_FALSE(two);
  EXPECT_TRUE(two.error().is_fault);
  EXPECT_THAT(two.error().reason, HasSubstr("crashed (SIGABRT)"));
}

}  // namespace
}  // namespace attest
