// The sweep can fail: each seeded fault that a problem of 3 x 3 can show is caught by it.
#include "properties/exhaustive/agreement.h"

#include <set>
#include <string_view>

#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "impl/mutants/mutants.h"
#include "impl/mutants/plain.h"
#include "impl/reference/bound.h"
#include "impl/reference/extended_reference.h"
#include "properties/exhaustive/small_cases.h"

namespace attest {
namespace {

// Faults that need a second or third tile of four keys, a head_dim other than 1, or scores below
// -5e4.
const std::set<std::string_view> kOutOfReach = {
    "sink-omitted", "tile-skipped", "late-rescale-missing", "scale-left-out", "finite-running-max",
    // Of threads and of calls at the same time, and of sizes, values and types that no small case has.
    "remainder-dropped", "plan-shared", "softcap-tail-attended", "past-needs-present",
    "products-in-f16", "sums-in-storage-type"};

std::vector<SweptKernel> MutantAlone(std::string_view id) {
  std::vector<SweptKernel> kernels;
  kernels.push_back({std::string(id),
                     *DirectKernel::Create(MutantKernelTable(), {{"variant", std::string(id)}})});
  return kernels;
}

// Whether the kernel gets a case wrong.
bool IsCaught(const std::vector<SweptKernel>& kernels) {
  bool caught = false;
  // 199: some 22 000 cases, about a second for a kernel without fault.
  ForEachSmallCase({3, 199}, [&](const Case& c) {
    caught = !Disagreements(c, kernels).empty();
    return !caught;
  });
  return caught;
}

TEST(AgreementTest, EveryFaultWithinReachIsCaught) {
  for (const Mutant& mutant : Mutants()) {
    EXPECT_NE(IsCaught(MutantAlone(mutant.id)), kOutOfReach.contains(mutant.id)) << mutant.id;
  }
}

TEST(AgreementTest, TheKernelWithoutFaultPasses) {
  std::vector<SweptKernel> kernels;
  kernels.push_back({"mutant", *DirectKernel::Create(MutantKernelTable())});
  EXPECT_FALSE(IsCaught(kernels));
}

// Of a row that may overflow nothing could be said.
TEST(AgreementTest, EveryRowIsHeldToABound) {
  ForEachSmallCase({3, 199}, [&](const Case& c) {
    const Inputs inputs = Materialise(c);
    const Reference reference = ReferenceFor(c.problem, inputs, SweepContract());
    ErrorBound bound(c.problem, inputs, reference, SweepContract());
    bool all_held = true;
    ForEachRow(c.problem, [&](const Row& row) { all_held &= !bound.IsUnconstrained(row); });
    EXPECT_TRUE(all_held) << c.origin;
    return all_held;
  });
}

TEST(AgreementTest, ReferencesThatDifferAreNamed) {
  const Case c = SmallCase({3}, CountSmallCases({3}) - 1);
  const Inputs inputs = Materialise(c);
  Reference reference =
      ComputeReference(c.problem, inputs, Semantics{EmptyRow::kZero, LseEmptyRow::kMinusInf});
  EXPECT_FALSE(CompareReferences(c.problem, inputs, reference, SoftcapOrder::kBeforeBias));
  reference.out.values[0] += 1e-9;
  const auto difference =
      CompareReferences(c.problem, inputs, reference, SoftcapOrder::kBeforeBias);
  ASSERT_TRUE(difference);
  EXPECT_NE(difference->sentence.find("out[0, 0, 0, 0]"), std::string::npos)
      << difference->sentence;
}

}  // namespace
}  // namespace attest
