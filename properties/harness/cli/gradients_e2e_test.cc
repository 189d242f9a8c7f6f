// The backward pass as a user meets it: a plug-in in Python with one, one that promises it and has none, a
// fault that is named and replays.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

using testing::HasSubstr;

class GradientsEndToEnd : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_gradients_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ProgramResult Check(const std::string& kernel) const {
    return RunAttest({"check", kernel, "--property", "gradients.match*", "--plan", "smoke",
                      "--report", "report"},
                     folder_);
  }

  std::string folder_;
};

TEST_F(GradientsEndToEnd, ABackwardPassInPythonIsChecked) {
  const ProgramResult run = Check("python:" ATTEST_SOURCE_DIR "/impl/abi/example/backward.py");
  EXPECT_EQ(run.status, 0) << run.out << run.err;
}

TEST_F(GradientsEndToEnd, ABackwardPassThatIsPromisedAndMissingIsAFinding) {
  std::ofstream(folder_ + "/mine.py")
      << "CONTRACT = {'contract': 'attest-1', 'dtypes': ['f32'], 'features': [], 'lse': 'none', "
         "'backward': []}\n\n\ndef attention(q, k, v, *, scale):\n    return 0 * q\n";
  const ProgramResult run = Check("python:mine.py");
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("attention_backward must stand beside the function"));
}

// In JavaScript: what is exported is seen as the kernel is loaded.
TEST_F(GradientsEndToEnd, ABackwardPassInJavaScriptIsChecked) {
  const ProgramResult run = Check("node:" ATTEST_SOURCE_DIR "/impl/abi/example/backward.mjs");
  EXPECT_EQ(run.status, 0) << run.out << run.err;
}

TEST_F(GradientsEndToEnd, ABackwardPassThatJavaScriptLacksIsBadInput) {
  std::ofstream(folder_ + "/mine.mjs")
      << "export const contract = {contract: 'attest-1', dtypes: ['f32'], features: [], lse: "
         "'none', "
         "backward: []};\nexport const attention = ({q}) => q.data;\n";
  const ProgramResult run = Check("node:mine.mjs");
  EXPECT_EQ(run.status, 3) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("attentionBackward must be exported beside attention"));
}

TEST_F(GradientsEndToEnd, AFaultIsNamedAndReplays) {
  const ProgramResult run = Check("mutant:dq-unscaled");
  EXPECT_EQ(run.status, 1) << run.out << run.err;
  EXPECT_THAT(run.out, HasSubstr("gradients.match_the_reference/value/dq/gradient-scale"));
  EXPECT_THAT(run.out, HasSubstr("as if the scale were left out of dq"));
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/report")) {
    if (entry.path().extension() == ".toml") found = entry.path();
  }
  ASSERT_FALSE(found.empty());
  const ProgramResult replay = RunAttest({"replay", found}, folder_);
  EXPECT_EQ(replay.status, 1) << replay.out << replay.err;
  EXPECT_THAT(replay.out, HasSubstr("dq[batch"));
}

}  // namespace
}  // namespace attest
