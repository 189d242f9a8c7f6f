// The properties as a GoogleTest suite: one test a property and kernel, named
// KERNEL/FAMILY.PROPERTY ("tiled_tile_16/causal.future_keys_do_not_matter"), so that GoogleTest's
// own filters and shards apply. From the environment: ATTEST_KERNELS (comma-separated; default the
// built-in ones), ATTEST_PLAN (quick), ATTEST_SEED (1), ATTEST_REPORT (folder for the cases of
// findings; default one in the temporary folder). A failing test prints the finding whole.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/output_file.h"
#include "properties/harness/runner/run_property.h"

namespace attest {
namespace {

constexpr char kBuiltInKernels[] = "reference,tiled,tiled?tile=1,tiled:fast,mutant";

std::string Environment(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : value;
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

struct OpenKernel {
  std::unique_ptr<KernelSession> session;
  Contract contract;
};

tl::expected<OpenKernel, std::string> Open(const std::string& text) {
  const auto spec = ResolveKernel(text);
  if (!spec) return tl::unexpected(spec.error());
  auto session = KernelSession::Open(*spec);
  if (!session) return tl::unexpected(session.error());
  auto contract = ContractOf((*session)->identity());
  if (!contract) return tl::unexpected(contract.error());
  return OpenKernel{std::move(*session), std::move(*contract)};
}

// A kernel's worker serves all its tests, which run one after the other in this process.
class Kernels : public testing::Environment {
 public:
  tl::expected<OpenKernel, std::string>& Get(const std::string& text) {
    const auto found = open_.find(text);
    return found != open_.end() ? found->second : open_.emplace(text, Open(text)).first->second;
  }
  void TearDown() override { open_.clear(); }

 private:
  std::map<std::string, tl::expected<OpenKernel, std::string>> open_;
};

// What all tests share; GoogleTest owns `kernels`.
struct Suite {
  RunOptions options;
  Kernels* kernels = nullptr;
};

// The `attest` beside this program.
std::string AttestProgram() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path() / "attest").string();
}

// The finding's text, with its case saved where the replay command looks for it.
std::string Explain(const Finding& finding) {
  const std::filesystem::path folder =
      Environment("ATTEST_REPORT", testing::TempDir() + "attest-report");
  ReportedFinding reported;
  reported.finding = finding;
  reported.file = (folder / CaseFileName(finding)).string();
  reported.command =
      fmt::format("{} replay {}", ShellQuote(AttestProgram()), ShellQuote(reported.file));
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const auto saved = WriteFile(reported.file, CaseFileText(finding));
  return FindingText(reported) + (saved ? "" : "  " + saved.error() + "\n");
}

class PropertyTest : public testing::Test {
 public:
  PropertyTest(std::string kernel, const Property& property, const Suite& suite)
      : kernel_(std::move(kernel)), property_(property), suite_(suite) {}

  void TestBody() override {
    auto& kernel = suite_.kernels->Get(kernel_);
    ASSERT_TRUE(kernel) << kernel.error();
    RunObserver observer;
    const PropertyResult result =
        RunProperty(property_, kernel->contract, *kernel->session, suite_.options, observer);
    RecordProperty("verdict", std::string(Name(result.verdict)));
    RecordProperty("cases", std::to_string(result.cases_run()));
    for (const Finding& finding : result.findings) ADD_FAILURE() << Explain(finding);
    if (result.verdict == VerdictKind::kUnsupported) GTEST_SKIP() << result.reason;
    const bool passed =
        result.verdict == VerdictKind::kPass || result.verdict == VerdictKind::kMarginal;
    if (!passed && result.findings.empty()) {
      ADD_FAILURE() << Name(result.verdict) << ": " << result.reason;
    }
  }

 private:
  const std::string kernel_;
  const Property& property_;
  const Suite& suite_;
};

std::string TestNamePart(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return text;
}

void Register(const std::string& kernel, const Property& property, const Suite& suite) {
  const std::string id(property.id);
  const size_t dot = id.find('.');
  const std::string family = TestNamePart(kernel) + "/" + id.substr(0, dot);
  testing::RegisterTest(family.c_str(), id.substr(dot + 1).c_str(), nullptr, nullptr, __FILE__,
                        __LINE__, [kernel, &property, &suite]() -> testing::Test* {
                          return new PropertyTest(kernel, property, suite);
                        });
}

// One line on stderr and exit status 3, as the command line has it.
int Refuse(const std::string& what) {
  std::fputs(("attest_properties: " + what + "\n").c_str(), stderr);
  return 3;
}

}  // namespace
}  // namespace attest

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  attest::Suite suite;
  const std::string plan = attest::Environment("ATTEST_PLAN", "quick");
  const attest::Plan* found = attest::FindPlan(plan);
  if (found == nullptr) return attest::Refuse("ATTEST_PLAN=" + plan + ": no such plan");
  suite.options.plan = *found;
  const std::string seed = attest::Environment("ATTEST_SEED", "1");
  char* end = nullptr;
  suite.options.seed = std::strtoull(seed.c_str(), &end, 0);
  if (*end != '\0') return attest::Refuse("ATTEST_SEED=" + seed + ": no whole number");
  const auto kernels =
      attest::Split(attest::Environment("ATTEST_KERNELS", attest::kBuiltInKernels));
  if (kernels.empty()) return attest::Refuse("ATTEST_KERNELS names no kernel");
  suite.kernels = new attest::Kernels;
  testing::AddGlobalTestEnvironment(suite.kernels);
  for (const std::string& kernel : kernels) {
    for (const attest::Property& property : attest::AllProperties()) {
      attest::Register(kernel, property, suite);
    }
  }
  return RUN_ALL_TESTS();
}
