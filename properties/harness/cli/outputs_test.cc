// What the program writes: never over what it reads, never nowhere, and never before the rest of the command
// line has been found good.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Outputs : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_outputs_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(Path(name)).parent_path());
    std::ofstream(Path(name)) << text;
  }
  // All that lies in the folder but what the test's own runs print.
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      contents[entry.path().string()] = entry.is_regular_file() ? ReadText(entry.path()) : "";
    }
    contents.erase(Path("stdout"));
    contents.erase(Path("stderr"));
    return contents;
  }
  // Exit status 3 and one line that says so, and nothing in the folder has changed.
  void ExpectRefused(const std::vector<std::string>& arguments, const std::string& says) const {
    const auto before = Contents();
    const ProgramResult result = RunAttest(arguments, folder_);
    std::string command;
    for (const std::string& word : arguments) command += " '" + word + "'";
    EXPECT_EQ(result.status, 3) << command << "\n" << result.out << result.err;
    EXPECT_THAT(result.err, StartsWith("attest: ")) << command;
    EXPECT_THAT(result.err, HasSubstr(says)) << command;
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "") << command;
    EXPECT_EQ(Contents(), before) << command;
  }

  std::string folder_;
};

struct Refused {
  std::vector<std::string> arguments;
  const char* says;
};

TEST_F(Outputs, NothingThatIsReadIsOverwritten) {
  Write("lib.so", "a library");
  Write("mine.py", "a kernel");
  Write("w.toml", "");
  Write("w.partial", "");
  Write("case.toml", "a case");
  Write("run.jsonl", "a run");
  Write("r/index.html", "a kernel");
  Write("vectors/test/model.onnx", "a model");
  Write("seeds/fuzz_kernel/1", "an input");
  fs::create_symlink("w.toml", Path("link"));
  const Refused table[] = {
      {{"check", "./lib.so", "--json", "lib.so"}, "lib.so would be read and written"},
      {{"check", "tiled", "--optional", "./lib.so", "--junit", "lib.so"}, "--junit lib.so: "},
      {{"check", "python:mine.py:attention?x=1", "--json", "./mine.py"}, "mine.py would be read"},
      {{"check", "python:r/index.html", "--report", "r"}, "--report r: "},
      {{"check", "tiled", "--waivers", "w.toml", "--json", "w.toml"}, "w.toml would be read"},
      {{"check", "tiled", "--waivers", "w.toml", "--json", "link"}, "w.toml would be read"},
      {{"check", "tiled", "--waivers", "w.partial", "--json", "w"}, "w.partial would be read"},
      {{"shrink", "case.toml", "tiled", "-o", "case.toml"}, "case.toml would be read"},
      {{"shrink", "case.toml", "./lib.so", "--out", "lib.so"}, "lib.so would be read"},
      {{"vectors", "vectors", "tiled", "--json", "vectors/test/model.onnx"}, "vectors would be"},
      {{"merge", "run.jsonl", "--json", "run.jsonl"}, "run.jsonl would be read"},
      {{"merge", "run.jsonl", "--junit", "./run.jsonl"}, "run.jsonl would be read"},
      {{"fuzz", "tiled", "--waivers", "w.toml", "--json", "w.toml"}, "w.toml would be read"},
      {{"fuzz", "tiled", "--seeds", "seeds", "--junit", "seeds/fuzz_kernel/1"}, "seeds would be"},
      {{"check", "tiled", "--json", "x", "--junit", "./x"}, "--json and --junit would both write"},
      {{"check", "tiled", "--json", "x", "--junit", "x.partial"}, "--json and --junit would both"},
      {{"power", "--json", "r/power.md", "--report", "r"}, "--json and --report would both write"},
      {{"check", "tiled", "--json", "x", "--report", "x"}, "--report makes a folder of that name"},
      {{"merge", "run.jsonl", "--junit", "x", "--report", "x/y"}, "--report makes a folder of"},
  };
  for (const Refused& refused : table) ExpectRefused(refused.arguments, refused.says);
}

TEST_F(Outputs, WhatCannotBeWrittenIsSaidBeforeAnythingRuns) {
  Write("file", "");
  Write("case.toml", "a case");
  Write("run.jsonl", "a run");
  const std::string nowhere = "/proc/attest";  // not even root can make it
  const Refused table[] = {
      {{"check", "tiled", "--report", "file"}, "--report file: is no folder"},
      {{"check", "tiled", "--report", "file/x"}, "--report file/x: is no folder"},
      {{"check", "tiled", "--report", nowhere},
       "--report: cannot write /proc/attest: Permission denied"},
      {{"check", "tiled", "--json", nowhere}, "--json: cannot write /proc/attest"},
      {{"check", "tiled", "--junit", "no/x"}, "create the folder first"},
      {{"merge", "run.jsonl", "--report", nowhere},
       "--report: cannot write /proc/attest: Permission denied"},
      {{"merge", "run.jsonl", "--json", "no/x"}, "--json: cannot write no/x"},
      {{"fuzz", "tiled", "--report", nowhere},
       "--report: cannot write /proc/attest: Permission denied"},
      {{"fuzz", "tiled", "--corpus", "file"}, "--corpus file: is no folder"},
      {{"fuzz", "tiled", "--report", "night", "--json", "no/x"}, "--json: cannot write no/x"},
      {{"vectors", ".", "tiled", "--json", "no/x"}, "--json: cannot write no/x"},
      {{"shrink", "case.toml", "tiled", "-o", "no/x"}, "-o: cannot write no/x"},
      {{"power", "--json", "no/x"}, "--json: cannot write no/x"},
      {{"power", "--report", "file"}, "--report file: is no folder"},
      {{"power", "--kills", nowhere}, "--kills: cannot write /proc/attest: Permission denied"},
  };
  for (const Refused& refused : table) ExpectRefused(refused.arguments, refused.says);
}

TEST_F(Outputs, ANightsFolderIsNoOtherRuns) {
  Write("nights/night/tiled/journal.jsonl", "");
  Write("shard.jsonl", "");
  const std::string says = "holds a night of attest fuzz";
  ExpectRefused({"check", "tiled", "--plan", "smoke", "--report", Path("nights")}, says);
  ExpectRefused({"merge", Path("shard.jsonl"), "--report", Path("nights")}, says);
}

TEST_F(Outputs, NothingIsMadeForACommandThatIsRefusedLater) {
  Write("old.jsonl.partial", "what a killed run had found\n");
  const Refused table[] = {
      {{"check", "nope", "--report", "r", "--json", "old.jsonl"}, "nope"},
      {{"fuzz", "nope", "--report", "night", "--corpus", "corpus"}, "nope"},
      {{"fuzz", "tiled", "--report", "night", "--seeds", "no_seeds"}, "--seeds no_seeds: is no"},
      {{"merge", "nope.jsonl", "--report", "r"}, "nope.jsonl"},
      {{"vectors", "nope", "tiled", "--json", "x.jsonl"}, "nope"},
      {{"shrink", "nope.toml", "tiled", "-o", "smaller.toml"}, "nope.toml"},
  };
  for (const Refused& refused : table) ExpectRefused(refused.arguments, refused.says);
}

TEST_F(Outputs, AnEmptyValueIsNoAnswer) {
  const Refused table[] = {{{"check", "tiled", "--json", ""}, "--json"},
                           {{"check", "tiled", "--waivers", ""}, "--waivers"},
                           {{"check", ""}, "KERNEL"},
                           {{"merge", "x", "--junit", ""}, "--junit"},
                           {{"fuzz", "tiled", "--seeds", ""}, "--seeds"},
                           {{"shrink", "x", "tiled", "-o", ""}, "--out"},
                           {{"power", "--kills", ""}, "--kills"}};
  for (const Refused& refused : table) {
    ExpectRefused(refused.arguments, refused.says);
    ExpectRefused(refused.arguments, "is empty");
  }
}

TEST_F(Outputs, AFolderKeepsNothingOfTheRunBeforeButWhatAPersonChanged) {
  const auto check = [&](const char* kernel) {
    return RunAttest({"check", kernel, "--plan", "smoke", "--property", "heads.labels_come_back"},
                     folder_)
        .status;
  };
  const auto cases = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(Path("attest-report"))) {
      if (entry.path().extension() == ".toml") names.push_back(entry.path().filename());
    }
    std::ranges::sort(names);
    return names;
  };
  ASSERT_EQ(check("mutant:kv-head-modulo"), 1);
  ASSERT_FALSE(cases().empty());
  const std::string edited = cases().front();
  Write("attest-report/mine.toml", "a case of mine");
  std::ofstream(Path("attest-report/" + edited), std::ios::app) << "# looked into\n";
  EXPECT_EQ(check("tiled"), 0);
  EXPECT_THAT(cases(), testing::UnorderedElementsAre("mine.toml", edited));
}

}  // namespace
}  // namespace attest
