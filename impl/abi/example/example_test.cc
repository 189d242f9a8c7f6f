// The examples as a stranger would meet them: loaded from the shared object and called by the ABI.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <random>

#include "impl/abi/testing/direct_call.h"
#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/random_problem.h"

namespace attest {
namespace {

const attest_kernel_table* Load(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto* symbol =
      reinterpret_cast<const attest_kernel_table* (*)()>(dlsym(library, "attest_kernel"));
  return symbol == nullptr ? nullptr : symbol();
}

// Cuts a random problem down to what the kernel's contract offers.
Problem Reduce(Problem p, const Contract& contract) {
  if (!contract.Has(Feature::kCausal)) p.causal = false;
  if (!contract.Has(Feature::kKeyLengths)) p.key_lengths.reset();
  p.q_heads = p.kv_heads;
  p.diagonal_offset.clear();
  p.window = {};
  p.mask.reset();
  p.bias.reset();
  p.want_lse = false;
  p.want_weights = false;
  return p;
}

class ExampleTest : public testing::TestWithParam<const char*> {};

TEST_P(ExampleTest, StaysWithinTheBoundOnWhatItOffers) {
  const attest_kernel_table* table = Load(GetParam());
  ASSERT_NE(table, nullptr) << GetParam();
  const auto kernel = DirectKernel::Create(table);
  ASSERT_TRUE(kernel) << kernel.error();
  const auto contract = ParseContract(kernel->Contract());
  ASSERT_TRUE(contract) << contract.error();
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    const Problem p = Reduce(RandomProblem(random, DType::kF32), *contract);
    Inputs inputs = RandomInputs(random, p);
    if (round % 2 == 1) PoisonHidden(p, inputs);
    const DirectResult result = kernel->Run(p, inputs);
    ASSERT_EQ(result.status, ATTEST_OK) << result.message;
    ASSERT_TRUE(MatchesReference(p, inputs, result)) << "round " << round;
  }
}

TEST_P(ExampleTest, RefusesWhatItDoesNotKnow) {
  const auto kernel = DirectKernel::Create(Load(GetParam()));
  ASSERT_TRUE(kernel) << kernel.error();
  Problem p;
  const Inputs inputs{Array(p.QShape(), 1), Array(p.KShape(), 1), Array(p.VShape(), 1),
                      Array({1, 1, 1, 1}, 1)};
  EXPECT_EQ(kernel->Run(p, inputs).status, ATTEST_OK);
  p.window.left = 0;
  EXPECT_EQ(kernel->Run(p, inputs).status, ATTEST_UNSUPPORTED);
  p.window = {};
  p.bias = BitPlane{{1, 1, 1, 1}, 4, {1}};
  EXPECT_EQ(kernel->Run(p, inputs).status, ATTEST_UNSUPPORTED);
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleTest, testing::Values(MINIMAL_SO, EXAMPLE_SO));

}  // namespace
}  // namespace attest
