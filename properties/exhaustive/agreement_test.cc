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

// Faults that no case of 3 x 3 with a mask can show.
const std::set<std::string_view> kOutOfReach = {
    // Need a second or third tile of keys, or a second one of queries.
    "sink-omitted", "tile-skipped", "late-rescale-missing", "values-not-rescaled", "maximum-stale",
    "tile-tail-kept", "mask-tile-misplaced", "split-lse-in-base-2", "sink-in-every-split",
    // Need a head_dim other than 1, a value_dim other than it, more heads, or sizes beyond these.
    "scale-left-out", "head-dim-capped", "inner-stride-one", "value-lanes-by-head-dim",
    "present-values-by-head-dim", "zero-head-dim-is-empty", "group-size-power-of-two",
    "alibi-slopes-geometric", "offset-in-16-bits", "window-in-16-bits",
    // Need tensors of more than 2^31 elements.
    "key-offset-in-32-bits", "page-offset-in-32-bits", "out-offset-in-32-bits",
    // Need values or types that no small case has.
    "finite-running-max", "constant-subtracted", "hidden-tile-guard", "products-in-f16",
    "sums-in-storage-type", "scores-scaled-late", "scores-clamped", "softcap-in-f16",
    "softcap-at-most-16", "output-truncated",
    // Need threads, several calls or at the same time, storage, no mask, one of a row, or several rows of
    // unlike scores.
    "remainder-dropped", "splits-follow-threads", "plan-shared", "softcap-tail-attended",
    "past-needs-present", "first-present-by-position", "packed-single-query", "length-tile-full",
    "first-call-differs", "maximum-shared-by-rows", "broadcast-mask-for-query-0",
    "broadcast-bias-for-query-0"};

std::vector<SweptKernel> MutantAlone(std::string_view id) {
  std::vector<SweptKernel> kernels;
  kernels.push_back({std::string(id),
                     *DirectKernel::Create(MutantKernelTable(), {{"variant", std::string(id)}})});
  return kernels;
}

// Every 199th: some 22 000 cases, about a second for a kernel without fault.
constexpr int64_t kStride = 199;
constexpr int64_t kSparseStride = 1993;

// Whether the kernel gets a case wrong.
bool IsCaught(const std::vector<SweptKernel>& kernels, int64_t stride = kStride) {
  bool caught = false;
  ForEachSmallCase({3, stride}, [&](const Case& c) {
    caught = !Disagreements(c, kernels).empty();
    return !caught;
  });
  return caught;
}

TEST(AgreementTest, EveryFaultWithinReachIsCaught) {
  for (const Mutant& mutant : Mutants()) {
    if (mutant.is_of_backward()) continue;  // the sweep is of forward passes
    // A tenth of the cases shows whether an exception is none any more.
    const bool is_exception = kOutOfReach.contains(mutant.id);
    const int64_t stride = is_exception ? kSparseStride : kStride;
    EXPECT_NE(IsCaught(MutantAlone(mutant.id), stride), is_exception) << mutant.id;
  }
}

TEST(AgreementTest, TheKernelsWithoutFaultPass) {
  std::vector<SweptKernel> kernels = MutantAlone("blocked");
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
