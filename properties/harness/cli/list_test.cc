// What the program says of itself: help, lists, and the note on a kernel that is not what it may be taken for.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Words : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_words_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ProgramResult Run(const std::vector<std::string>& arguments) const {
    return RunAttest(arguments, folder_);
  }

  std::string folder_;
};

TEST_F(Words, HelpAndVersionSucceed) {
  EXPECT_EQ(Run({"--help"}).status, 0);
  EXPECT_THAT(Run({"check", "--help"}).out, HasSubstr("FILE.partial"));
  for (const char* command : {"check", "probe", "replay", "shrink", "vectors", "fuzz"}) {
    EXPECT_THAT(Run({command, "--help"}).out, HasSubstr("python:FILE[:FUNCTION]")) << command;
  }
  EXPECT_THAT(Run({"--version"}).out, StartsWith("attest "));
}

TEST_F(Words, ListNamesPropertiesContractsKernelsAndMutants) {
  const std::string out = Run({"list"}).out;
  for (const char* name :
       {"equivalence.matches_reference", "attest-1", "tiled", "mutant:zeros",
        "mutant:ID for each of 'attest list mutants'", "tile=1|3", "model:encoder-decoder"}) {
    EXPECT_THAT(out, HasSubstr(name));
  }
}

TEST_F(Words, ListShowsHowTwoContractsDiffer) {
  const ProgramResult result = Run({"list", "contracts", "--diff", "jax", "torch-mha"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("mask_true_means +attend +hide\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n +- window\n"));
  EXPECT_THAT(result.out, ContainsRegex("\n +\\+ weights\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("layouts")));
  EXPECT_THAT(Run({"list", "contracts", "--diff", "jax", "jax"}).out, HasSubstr("no difference"));
}

// Bare, it is correct: who means to see a fault caught learns how to choose one.
TEST_F(Words, AMutantWithoutItsFaultSaysSo) {
  const auto check = [&](const char* kernel) {
    return Run({"check", kernel, "--plan", "smoke", "--property", "row_sums.ones_give_one"}).out;
  };
  EXPECT_THAT(check("mutant"), HasSubstr("mutant:ID, 'attest list mutants' shows them"));
  EXPECT_THAT(check("hostile"), HasSubstr("hostile:ID, 'attest list hostile' shows them"));
  EXPECT_THAT(check("mutant:blocked"), Not(HasSubstr("without a fault")));
}

}  // namespace
}  // namespace attest
