// Weights are not an explanation: the case of corpus/examples has two rows of different weights and
// one output, and attest replay shows them.
#include <gtest/gtest.h>

#include <cmath>

#include "impl/reference/reference.h"
#include "properties/harness/case/toml.h"
#include "properties/harness/report/weights_text.h"

namespace attest {
namespace {

TEST(ExplanationTest, DifferentWeightsGiveOneOutput) {
  const auto file = ReadCaseFile(EXPLANATION_CASE);
  ASSERT_TRUE(file) << file.error();
  const Reference reference = ComputeReference(file->c.problem, Materialise(file->c), Semantics());
  EXPECT_EQ(WeightsText(file->c, Semantics()),
            "query 0  weighs 0.333 0.333 0.333  and gives 1 3\n"
            "query 1  weighs 0.25 0.5 0.25  and gives 1 3\n");
  double moved = 0;
  for (int64_t key = 0; key < 3; ++key) {
    moved += std::abs(reference.weights.At(0, 0, 0, key) - reference.weights.At(0, 0, 1, key));
  }
  EXPECT_NEAR(moved, 1.0 / 3, 0x1p-50) << "a sixth from either side to the middle";
  for (int64_t lane = 0; lane < 2; ++lane) {
    // Each is a sum of three products below 5, with a few roundings.
    EXPECT_NEAR(reference.out.At(0, 0, 0, lane), reference.out.At(0, 0, 1, lane), 16 * 0x1p-52);
  }
}

}  // namespace
}  // namespace attest
