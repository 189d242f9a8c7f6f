#include "properties/harness/sandbox/worker/backward.h"

#include <array>
#include <string>

#include <gtest/gtest.h>

namespace attest {
namespace {

attest_status Succeed(void*, attest_call*) {
  return ATTEST_OK;
}

attest_status Refuse(void*, attest_call*) {
  return ATTEST_UNSUPPORTED;
}

// Writes to every tensor it gets.
attest_status Scribble(void*, attest_call* call) {
  for (uint32_t n = 0; n < call->num_arguments; ++n) {
    *static_cast<float*>(call->arguments[n].tensor->data) += 1;
  }
  return ATTEST_OK;
}

// A call with dout, out and dq, of one element each, in this order.
class BackwardTest : public testing::Test {
 protected:
  BackwardTest() {
    for (size_t n = 0; n < tensors_.size(); ++n) {
      tensors_[n] = {&data_[n], {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, &one_, &one_, 0};
    }
    arguments_ = {{{ATTEST_ROLE_DOUT, &tensors_[0]},
                   {ATTEST_ROLE_OUT, &tensors_[1]},
                   {ATTEST_ROLE_DQ, &tensors_[2]}}};
  }

  attest_status Run(attest_status (*forward)(void*, attest_call*),
                    attest_status (*backward)(void*, attest_call*)) {
    attest_kernel_table table{};
    table.forward = forward;
    table.backward = backward;
    const uint32_t before = PutGradientsLast(arguments_);
    EXPECT_EQ(before, 1u);
    attest_call call{};
    call.num_arguments = static_cast<uint32_t>(arguments_.size());
    call.arguments = arguments_.data();
    call.message = message_.data();
    call.message_size = message_.size();
    return RunPasses(table, nullptr, &call, before, &changed_);
  }

  int64_t one_ = 1;
  std::array<float, 3> data_{};
  std::array<DLTensor, 3> tensors_{};
  std::array<attest_argument, 3> arguments_{};
  std::array<char, 200> message_{};
  int32_t changed_ = 0;
};

TEST_F(BackwardTest, ForwardSeesNoGradients) {
  EXPECT_EQ(Run(Scribble, Succeed), ATTEST_OK);
  EXPECT_EQ(arguments_[0].role, ATTEST_ROLE_OUT);
  EXPECT_EQ(data_, (std::array<float, 3>{0, 1, 0}));
  EXPECT_EQ(changed_, 0);
}

TEST_F(BackwardTest, AnOutputOfTheForwardPassThatChangesIsNamed) {
  EXPECT_EQ(Run(Succeed, Scribble), ATTEST_OK);
  EXPECT_EQ(changed_, ATTEST_ROLE_OUT);
}

TEST_F(BackwardTest, AForwardPassThatRefusesIsTheAnswer) {
  EXPECT_EQ(Run(Refuse, Scribble), ATTEST_UNSUPPORTED);
  EXPECT_EQ(data_[2], 0);
}

TEST_F(BackwardTest, ATableWithoutBackwardFailsWithAReason) {
  EXPECT_EQ(Run(Succeed, nullptr), ATTEST_FAILED);
  EXPECT_NE(std::string(message_.data()).find("backward is NULL"), std::string::npos);
}

}  // namespace
}  // namespace attest
