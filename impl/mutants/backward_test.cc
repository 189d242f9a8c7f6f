#include "impl/mutants/backward.h"

#include <gtest/gtest.h>

#include <random>

#include "impl/abi/testing/expect.h"
#include "impl/abi/testing/random_problem.h"
#include "impl/mutants/testing.h"

namespace attest {
namespace {

Problem GradientProblem(std::mt19937_64& random, int round) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  Problem p = RandomProblem(random, kDTypes[round % 4]);
  if (round % 3 != 0) AddRandomFeatures(random, p);
  p.fp8.reset();
  p.want_scores.reset();
  p.want_weights = false;
  p.want_gradients = true;
  return p;
}

// Query 0 sees both keys, query 1 the second alone, by a mask of as many tiles each way.
Problem SquareBlocks() {
  Problem p;
  p.q_len = p.kv_len = p.head_dim = p.value_dim = 2;
  p.block_mask = BlockMask{1, 1, {{1, 1, 2, 2}, 4, {1, 1, 0, 1}}};
  p.want_lse = p.want_gradients = true;
  return p;
}

TEST(PlainBackwardTest, StaysWithinTheWorstCaseBound) {
  const DirectKernel kernel = Make();
  std::mt19937_64 random(41);
  for (int round = 0; round < 300; ++round) {
    const Problem p = GradientProblem(random, round);
    Inputs inputs = RandomInputs(random, p);
    if (round % 2 == 1) PoisonHidden(p, inputs);
    ASSERT_TRUE(MatchesGradient(p, inputs, kernel.Run(p, inputs))) << "round " << round;
    if (!IsPackable(p)) continue;
    const DirectResult packed = kernel.Run(p, inputs, DirectForm{{}, DirectStorage::kPacked});
    ASSERT_TRUE(MatchesGradient(p, inputs, packed)) << "round " << round << ", packed";
  }
}

// Each fault of the backward pass shows there on some random problems, and leaves the forward alone.
TEST(BackwardMutantsTest, EachDiffersFromTheCorrectKernel) {
  for (const Mutant& mutant : Mutants()) {
    if (!mutant.is_of_backward()) continue;
    const DirectKernel correct = Make();
    const DirectKernel kernel = Make(mutant.id, /*threads=*/3);
    std::mt19937_64 random(42);
    int differing = 0;
    for (int round = 0; round < 600 && differing < 3; ++round) {
      const bool needs_blocks = mutant.mutation == Mutation::kBackwardBlocksTransposed;
      const Problem p = needs_blocks ? SquareBlocks() : GradientProblem(random, round);
      Inputs inputs = RandomInputs(random, p);
      DirectForm form;
      if (mutant.mutation == Mutation::kPackedDoutOfItem0) {
        if (!IsPackable(p)) continue;
        form.storage = DirectStorage::kPacked;
      }
      if (mutant.mutation == Mutation::kHiddenPairTimesZero) PoisonHidden(p, inputs);
      const DirectResult due = correct.Run(p, inputs, form);
      const DirectResult seen = kernel.Run(p, inputs, form);
      ASSERT_TRUE(SameBits(due.out, seen.out)) << mutant.id;
      differing += SameBits(due, seen) ? 0 : 1;
      // The same sizes with other data: what is kept from the last call shows.
      for (double& x : inputs.dout.values) x = -x;
      differing += SameBits(correct.Run(p, inputs, form), kernel.Run(p, inputs, form)) ? 0 : 1;
    }
    EXPECT_GE(differing, 3) << mutant.id;
  }
}

}  // namespace
}  // namespace attest
