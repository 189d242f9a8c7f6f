// The mutation gate: under plan quick and a fixed seed, each seeded fault and each null kernel must
// be killed, by a named property and with a case small enough to read. Prints one line a mutant.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "impl/mutants/mutants.h"
#include "properties/harness/cli/run_program.h"

namespace attest {

// Or GoogleTest prints the bytes.
void PrintTo(const Mutant& mutant, std::ostream* out) {
  *out << mutant.id;
}

namespace {

using Json = nlohmann::json;

int64_t Elements(const Json& finding) {
  const Json& s = finding["sizes"];
  const auto size = [&](const char* name) { return s[name].get<int64_t>(); };
  return size("batch") *
         (size("q_heads") * size("q_len") * (size("head_dim") + size("value_dim")) +
          size("kv_heads") * size("kv_len") * (size("head_dim") + size("value_dim")));
}

// The finding whose smallest case is the smallest of the run.
Json Smallest(const std::vector<Json>& findings) {
  return *std::min_element(findings.begin(), findings.end(),
                           [](const Json& a, const Json& b) { return Elements(a) < Elements(b); });
}

void PrintLine(const Mutant& mutant, const std::vector<Json>& findings, const Json& best) {
  const Json& s = best["sizes"];
  std::string line =
      fmt::format("{}: {} findings; first by {}; smallest by {}:", mutant.id, findings.size(),
                  findings[0]["property"].get<std::string>(), best["property"].get<std::string>());
  for (const auto& [name, value] : s.items()) line += fmt::format(" {} {}", name, value.dump());
  std::puts((line + fmt::format("; after {} cases", findings[0]["cases_to_first"].dump())).c_str());
}

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, IsKilledWithASmallCase) {
  const Mutant& mutant = GetParam();
  std::string folder = testing::TempDir() + "attest_mutant_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string kernel = "mutant:" + std::string(mutant.id);
  const ProgramResult run =
      RunAttest({"check", kernel, "--plan", "quick", "--seed", "1", "--json", "run.json"}, folder);
  std::vector<Json> findings;
  for (const Json& line : ReadJsonLines(folder + "/run.json")) {
    if (line["type"] == "finding" && line["verdict"] == "FAIL") findings.push_back(line);
  }
  std::filesystem::remove_all(folder);
  ASSERT_EQ(run.status, 1) << mutant.does << "\n" << run.out << run.err;
  ASSERT_FALSE(findings.empty());
  const Json best = Smallest(findings);
  PrintLine(mutant, findings, best);
  EXPECT_LE(best["sizes"]["q_len"], 3);
  EXPECT_LE(best["sizes"]["kv_len"], 5);
  EXPECT_LE(best["sizes"]["head_dim"], 2);
  EXPECT_LE(best["sizes"]["batch"],
            mutant.mutation == Mutation::kPaddingIgnoredAfterBatch0 ? 2 : 1);
  EXPECT_EQ(best["confirmed"], best["confirmations"]);
}

std::string TestName(const testing::TestParamInfo<Mutant>& info) {
  std::string name(info.param.id);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Mutants, MutantTest, testing::ValuesIn(Mutants().begin(), Mutants().end()),
                         TestName);

// Without a fault the same kernel passes: what kills the mutants is the fault.
TEST(PlainKernel, Passes) {
  std::string folder = testing::TempDir() + "attest_mutant_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const ProgramResult run = RunAttest({"check", "mutant"}, folder);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(run.status, 0) << run.out << run.err;
}

}  // namespace
}  // namespace attest
