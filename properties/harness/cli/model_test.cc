// attest check-model as a user meets it: the examples pass, a faulty model has a finding that replays, every
// report says the same, and bad input is one line.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pugixml.hpp>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

using testing::HasSubstr;

const std::string kExamples = std::string(ATTEST_SOURCE_DIR) + "/impl/abi/example/";
const std::string kFaulty = std::string(SUM_MODEL) + ":sees-the-next";

class CheckModel : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_model_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ProgramResult Run(std::vector<std::string> arguments) const {
    return RunAttest(arguments, folder_);
  }
  void WriteText(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }

  std::string folder_;
};

TEST_F(CheckModel, TheExampleInNumpyPasses) {
  const ProgramResult result = Run({"check-model", "python:" + kExamples + "model.py:model",
                                    "--plan", "smoke", "--property", "[cdt]*"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("teacher_forcing.loss_cannot_beat_chance"));
}

TEST_F(CheckModel, TheExampleInTorchPasses) {
  if (std::system("/usr/bin/python3 -c 'import torch' > /dev/null 2>&1") != 0) {
    GTEST_SKIP() << "no torch for /usr/bin/python3: ci/setup --with torch installs it";
  }
  ASSERT_EQ(setenv("ATTEST_PYTHON", "/usr/bin/python3", 1), 0);
  const ProgramResult result =
      Run({"check-model", "python:" + kExamples + "torch_model.py:model", "--plan", "smoke",
           "--property", "padding.b*", "--property", "no_*"});
  unsetenv("ATTEST_PYTHON");
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

TEST_F(CheckModel, AFindingIsInEveryReportAndReplays) {
  const ProgramResult result =
      Run({"check-model", kFaulty, "--plan", "smoke", "--property", "no_future.l*", "--json",
           "run.json", "--junit", "run.xml", "--report", "report"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("observed  intended"));
  EXPECT_THAT(result.out, HasSubstr("likely cause: as if the diagonal lay 1 token too far"));

  const auto lines = ReadJsonLines(folder_ + "/run.json");
  const auto finding = std::ranges::find_if(
      lines, [](const auto& line) { return line.value("type", "") == "finding"; });
  ASSERT_NE(finding, lines.end());
  EXPECT_EQ(finding->at("class"), "diagonal-slid");
  EXPECT_THAT(finding->at("case").get<std::string>(), HasSubstr("tokens = [[0, 0]]"));
  EXPECT_EQ(lines.back().at("exit_code"), 1);

  pugi::xml_document junit;
  ASSERT_TRUE(junit.load_file((folder_ + "/run.xml").c_str()));
  EXPECT_TRUE(
      junit.select_node("//testcase[@name='no_future.later_tokens_do_not_matter']/failure"));
  EXPECT_THAT(ReadText(folder_ + "/report/index.html"), HasSubstr("diagonal-slid"));
  EXPECT_THAT(ReadText(folder_ + "/report/report.md"), HasSubstr("diagonal"));

  const std::string file = finding->at("case_file");
  const ProgramResult again = Run({"replay", file});
  EXPECT_EQ(again.status, 1) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr(finding->at("sentence").get<std::string>()));
  EXPECT_EQ(Run({"replay", file, SUM_MODEL}).status, 0);
  EXPECT_THAT(again.out, HasSubstr("observed: " + kFaulty + ", at once; position 0 of item 0 of"));
  const ProgramResult refused = Run({"replay", file, "--contract", "jax"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("--contract and --strict are of kernels"));
}

TEST_F(CheckModel, ACaseShrinksToTheSmallestThatFailsAlike) {
  WriteText("case.toml",
            "model_case = 1\nproperty = \"no_future.later_tokens_do_not_matter\"\nmodel = \"" +
                kFaulty + "\"\n[case]\ntokens = [[5, 6, 7, 8]]\nothers = [[1, 2, 3, 4]]\n");
  const ProgramResult result = Run({"shrink", "case.toml", "-o", "small.toml"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("fails again in 3 of 3 reruns"));
  EXPECT_THAT(ReadText(folder_ + "/small.toml"), HasSubstr("tokens = [[0, 0]]"));
  EXPECT_EQ(Run({"replay", "small.toml"}).status, 1);
  const ProgramResult right = Run({"shrink", "case.toml", SUM_MODEL});
  EXPECT_EQ(right.status, 2);
  EXPECT_THAT(right.err, HasSubstr("nothing to shrink (PASS)"));
  EXPECT_EQ(Run({"shrink", "case.toml", "-o", "case.toml"}).status, 3);
}

TEST_F(CheckModel, AWaivedFindingIsShownAndDoesNotFail) {
  const auto waiver = [&](const char* when) {
    WriteText("waivers.toml", std::string("[[waiver]]\nkernel = \"*sum_model*\"\nversions = "
                                          "\"*\"\nsignature = \"no_future.*/value\"\nwhen = [\"") +
                                  when + "\"]\nreason = \"known since May\"\n");
    return Run({"check-model", kFaulty, "--plan", "smoke", "--property", "no_future.*", "--waivers",
                "waivers.toml"});
  };
  const ProgramResult waived = waiver("len > 1");
  EXPECT_EQ(waived.status, 0) << waived.out << waived.err;
  EXPECT_THAT(waived.out, HasSubstr("known since May"));
  EXPECT_EQ(waiver("len > 20").status, 1);
  EXPECT_THAT(waiver("causal").err, HasSubstr("waivers.toml:5: when: 'causal' is no word"));
}

// What a model does once in its process, dropout that is on until the first call turns it off, no other call shows.
TEST_F(CheckModel, TheFirstCallOfAllIsMadeAgain) {
  const ProgramResult result =
      Run({"check-model", std::string(SUM_MODEL) + ":first-call-differs", "--plan", "smoke"});
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("logits.reruns_are_the_same/value/logits"));
}

// Each property has its first cases before any has its last.
TEST_F(CheckModel, PropertiesRunBreadthFirst) {
  const ProgramResult result = Run({"check-model", std::string(SUM_MODEL) + ":reorder-forgotten",
                                    "--stop-after", "1", "--plan", "ci", "--json", "run.json"});
  EXPECT_EQ(result.status, 1) << result.err;
  const auto lines = ReadJsonLines(folder_ + "/run.json");
  const auto finding = std::ranges::find_if(
      lines, [](const auto& line) { return line.value("type", "") == "finding"; });
  ASSERT_NE(finding, lines.end());
  EXPECT_LT(finding->at("kernel_cases").get<int64_t>(), 16 * 40);
}

TEST_F(CheckModel, APortIsHeldToItsOriginal) {
  const std::vector<std::string> rest{"--against",  std::string(SUM_MODEL) + "?seed=1",
                                      "--plan",     "smoke",
                                      "--property", "logits.match*"};
  std::vector<std::string> same{"check-model", SUM_MODEL},
      other{"check-model", std::string(SUM_MODEL) + "?seed=2"};
  same.insert(same.end(), rest.begin(), rest.end());
  other.insert(other.end(), rest.begin(), rest.end());
  EXPECT_EQ(Run(same).status, 0);
  const ProgramResult result = Run(other);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("due is what the other model says"));
  EXPECT_THAT(result.out, HasSubstr("of one token alone it differs, too"));
}

TEST_F(CheckModel, WhatIsNoModelIsOneLineAndExitThree) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"check-model", "reference"}, "is no model but a kernel"},
      {{"check", SUM_MODEL}, "is no kernel but a model"},
      {{"check-model", "./nothing.so"}, "no such file"},
      {{"check-model", SUM_MODEL, "--property", "causal.*"}, "attest list model-properties"},
      {{"check-model", std::string(SUM_MODEL) + "?kind=gpt"}, "malformed contract: kind: \"gpt\""},
      {{"check-model", "python:" + kExamples + "model.py:norm"}, "norm"},
      {{"check-model"}, "MODEL"}};
  for (const auto& [arguments, says] : wrong) {
    const ProgramResult result = Run(arguments);
    EXPECT_EQ(result.status, 3) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
}

// What JSON has no form for, and what is no list, are told by their key.
TEST_F(CheckModel, AContractInPythonIsRefusedByItsKey) {
  const std::pair<const char*, const char*> wrong[] = {
      {"\"vocab\": float(\"nan\")", "contract: vocab: nan (float) is nothing that JSON holds"},
      {"\"vocab\": 8, \"padding\": None", "malformed contract: padding: null is no list"}};
  for (const auto& [member, says] : wrong) {
    WriteText("mine.py", std::string("CONTRACT = {\"contract\": \"attest-model-1\", \"kind\": "
                                     "\"decoder\", \"max_len\": 9, ") +
                             member + "}\ndef model(tokens, lengths): pass\n");
    const ProgramResult result = Run({"check-model", "python:mine.py:model"});
    EXPECT_EQ(result.status, 3) << result.out << result.err;
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
}

TEST_F(CheckModel, ACrashIsAFindingAndTheRunGoesOn) {
  const ProgramResult result = Run({"check-model", std::string(SUM_MODEL) + ":crashes", "--plan",
                                    "smoke", "--property", "logits.*"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("logits.reruns_are_the_same/write_fault"));
  EXPECT_THAT(result.out, HasSubstr("logits.are_finite"));
}

}  // namespace
}  // namespace attest
