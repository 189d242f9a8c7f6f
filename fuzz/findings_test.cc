#include "fuzz/findings.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "fuzz/status.h"
#include "properties/harness/case/toml.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

class FindingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / "attest_findings_test";
    fs::remove_all(folder_);
    ::setenv("ATTEST_FINDINGS", folder_.c_str(), 1);
    ::unsetenv("ATTEST_FUZZ_KERNEL");
    kernel_ = std::move(OpenKernels({"mutant:zeros"}).front());
  }
  void TearDown() override { fs::remove_all(folder_); }

  Failure FailureOf(const Case& c) {
    CaseResult result = RunCase(*FindProperty("equivalence.matches_reference"), c, kernel_.contract,
                                *kernel_.runner);
    return result.failures.at(0);
  }

  fs::path folder_;
  FuzzedKernel kernel_;
};

TEST_F(FindingsTest, OneSignatureIsWrittenAndAbortsOnce) {
  Case c;
  c.problem.q_len = c.problem.kv_len = 3;
  const Failure failure = FailureOf(c);
  Findings first;
  EXPECT_DEATH(first.Consider(failure, kernel_), "replay: attest replay .* 'mutant:zeros'");
  ASSERT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  const auto file = ReadCaseFile(fs::directory_iterator(folder_)->path().string());
  ASSERT_TRUE(file) << file.error();
  EXPECT_EQ(file->kernel, "mutant:zeros");
  EXPECT_EQ(file->property, "equivalence.matches_reference");
  EXPECT_EQ(file->c.problem.q_len, 1) << "not shrunk";
  first.Consider(failure, kernel_);  // passed over now
  Findings second;
  second.Consider(failure, kernel_);
}

TEST_F(FindingsTest, WithoutAClassItIsKnownByAnyFileThatSharesTheRest) {
  Failure failure = FailureOf(Case{});
  fs::create_directories(folder_);
  ASSERT_TRUE(ReplaceFile(
      folder_ / "mutant-zeros-equivalence.matches_reference-value-out-some-class.toml", ""));
  failure.signature.cause_class.clear();
  Findings findings;
  findings.Consider(failure, kernel_);  // lives on
  failure.signature.output = "lse";
  EXPECT_DEATH(findings.Consider(failure, kernel_), "");
}

}  // namespace
}  // namespace attest
