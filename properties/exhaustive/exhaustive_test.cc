// The sweep itself, in shards so that ctest runs them side by side. Whatever disagrees is printed
// as a case file that `attest replay FILE KERNEL` takes.
#include "properties/exhaustive/small_cases.h"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "impl/reference/plugin/reference_kernel.h"
#include "impl/tiled/tiled.h"
#include "properties/exhaustive/agreement.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

constexpr int64_t kShards = 4;
constexpr int kShown = 3;  // more would only repeat the fault

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ATTEST_SANITIZED
#endif
#endif
#ifdef ATTEST_SANITIZED
constexpr int64_t kDefaultStride = 101;  // sanitized code takes some ten times as long
#else
constexpr int64_t kDefaultStride = 1;
#endif

// ATTEST_EXHAUSTIVE_STRIDE=N visits every N-th case instead.
int64_t Stride() {
  const char* text = std::getenv("ATTEST_EXHAUSTIVE_STRIDE");
  const int64_t stride = text != nullptr ? std::atoll(text) : kDefaultStride;
  return stride > 0 ? stride : kDefaultStride;
}

std::vector<SweptKernel> Kernels() {
  std::vector<SweptKernel> kernels;
  kernels.push_back({"tiled?tile=2", *DirectKernel::Create(TiledKernelTable(), {{"tile", "2"}})});
  kernels.push_back({"reference", *DirectKernel::Create(ReferenceKernelTable())});
  return kernels;
}

// A case file; the references' quarrels concern no kernel.
std::string CaseFileOf(const Case& c, const Disagreement& d) {
  CaseFile file{c, std::nullopt, std::nullopt, d.sentence};
  if (!d.kernel.empty()) {
    file.property = "equivalence.matches_reference";
    file.kernel = d.kernel;
  }
  return ToToml(file);
}

class ExhaustiveTest : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Shard, ExhaustiveTest, ::testing::Range(int64_t{0}, kShards));

TEST_P(ExhaustiveTest, ReferencesAndKernelsAgreeOnEverySmallProblem) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<SweptKernel> kernels = Kernels();
  const SmallScope scope{3, Stride(), GetParam(), kShards};
  int64_t failed = 0;
  const int64_t visited = ForEachSmallCase(scope, [&](const Case& c) {
    for (const Disagreement& d : Disagreements(c, kernels)) {
      if (failed++ >= kShown) continue;
      ADD_FAILURE() << d.kernel << ": " << d.sentence << "\n" << CaseFileOf(c, d);
    }
    return true;
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("shard {} of {}: {} of {} small cases (stride {}), {} disagreements, {:.1f} s\n",
             GetParam() + 1, kShards, visited, CountSmallCases(scope), scope.stride, failed,
             seconds.count());
  EXPECT_EQ(failed, 0);
  EXPECT_GT(visited, 0);
}

}  // namespace
}  // namespace attest
