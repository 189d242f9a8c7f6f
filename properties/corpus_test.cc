// Replays corpus/regressions: every case must pass the property it names on each correct kernel,
// and, where it names a mutant, must still fail there. A bug that was met once is looked for ever
// after.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "properties/harness/case/toml.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

const char* const kCorrectKernels[] = {"reference",    "tiled",      "tiled?tile=1",
                                       "tiled?tile=3", "tiled:fast", "mutant"};

std::vector<fs::path> RegressionFiles() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(ATTEST_REGRESSIONS)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

struct OpenKernel {
  std::unique_ptr<KernelSession> session;
  Contract contract;
};

OpenKernel Open(const std::string& name) {
  OpenKernel kernel;
  const auto spec = ResolveKernel(name);
  EXPECT_TRUE(spec) << spec.error();
  if (!spec) return kernel;
  auto session = KernelSession::Open(*spec);
  EXPECT_TRUE(session) << session.error();
  if (!session) return kernel;
  kernel.session = std::move(*session);
  const auto contract = ParseContract(kernel.session->identity().contract_json);
  EXPECT_TRUE(contract) << contract.error();
  if (contract) kernel.contract = *contract;
  return kernel;
}

class RegressionTest : public ::testing::TestWithParam<fs::path> {};

TEST_P(RegressionTest, PassesOnCorrectKernelsAndFailsOnItsMutant) {
  const auto file = ReadCaseFile(GetParam().string());
  ASSERT_TRUE(file) << file.error();
  ASSERT_TRUE(file->property) << GetParam() << " names no property";
  const Property* property = FindProperty(*file->property);
  ASSERT_NE(property, nullptr) << GetParam() << ": no property is called " << *file->property;
  EXPECT_FALSE(file->c.origin.empty()) << GetParam() << " does not say where it comes from";
  for (const char* name : kCorrectKernels) {
    OpenKernel kernel = Open(name);
    ASSERT_NE(kernel.session, nullptr);
    const CaseResult result = RunCase(*property, file->c, kernel.contract, *kernel.session);
    EXPECT_TRUE(result.failures.empty())
        << name << ": " << result.failures.front().verdict.sentence;
  }
  if (!file->kernel || !file->kernel->starts_with("mutant:")) return;
  OpenKernel mutant = Open(*file->kernel);
  ASSERT_NE(mutant.session, nullptr);
  EXPECT_EQ(RunCase(*property, file->c, mutant.contract, *mutant.session).verdict.kind,
            VerdictKind::kFail)
      << *file->kernel << " is not caught any more";
}

std::string NameOf(const ::testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.stem().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Corpus, RegressionTest, ::testing::ValuesIn(RegressionFiles()), NameOf);

TEST(CorpusTest, ThereAreRegressions) {
  EXPECT_GE(RegressionFiles().size(), 10u);
}

}  // namespace
}  // namespace attest
