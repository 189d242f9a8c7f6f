// Plugging in as a user meets it: what `attest new-kernel` writes passes, the commands it prints work, a
// fault in the marked place is found, and a function learns what it is to fill.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

struct Plugin {
  const char* language;
  const char* file;
  const char* right;  // in the kernel's arithmetic
  const char* wrong;
};

class PlugIn : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_new_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ProgramResult Run(const std::vector<std::string>& arguments) const {
    return RunAttest(arguments, folder_);
  }
  // The exit status of a shell's command in the folder.
  int Shell(const std::string& command) const {
    return WEXITSTATUS(std::system(("cd " + folder_ + " && " + command + " > log 2>&1").c_str()));
  }
  std::string Log() const { return ReadText(folder_ + "/log"); }

  std::string folder_;
};

class NewKernel : public PlugIn, public testing::WithParamInterface<Plugin> {};

// The commands, each on a line of its own that begins with two spaces.
std::vector<std::string> CommandsIn(const std::string& text) {
  std::vector<std::string> commands;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) commands.push_back(line.substr(2));
  }
  return commands;
}

TEST_P(NewKernel, PassesAsItIsAndAFaultInItIsFound) {
  const ProgramResult made =
      Run({"new-kernel", "my_own", "--lang", GetParam().language, "-o", "new folder"});
  ASSERT_EQ(made.status, 0) << made.err;
  std::vector<std::string> commands = CommandsIn(made.out);
  ASSERT_GE(commands.size(), 1u) << made.out;
  for (size_t n = 0; n + 1 < commands.size(); ++n) EXPECT_EQ(Shell(commands[n]), 0) << Log();
  EXPECT_EQ(Shell(commands.back() + " --plan smoke"), 0) << Log();
  EXPECT_EQ(Shell(commands.back() + "'?tile=3'"), 3) << Log();
  EXPECT_THAT(Log(), HasSubstr("tile"));
  EXPECT_THAT(Log(), HasSubstr("takes none"));
  EXPECT_THAT(Log(), EndsWith("\n"));
  EXPECT_EQ(std::ranges::count(Log(), '\n'), 1) << Log();

  const std::string path = folder_ + "/new folder/" + GetParam().file;
  std::string text = ReadText(path);
  EXPECT_THAT(text, HasSubstr("YOUR KERNEL"));
  const size_t at = text.find(GetParam().right);
  ASSERT_NE(at, std::string::npos) << text;
  std::ofstream(path) << text.replace(at, std::string(GetParam().right).size(), GetParam().wrong);
  for (size_t n = 0; n + 1 < commands.size(); ++n) EXPECT_EQ(Shell(commands[n]), 0) << Log();
  EXPECT_EQ(Shell(commands.back() + " --plan smoke --property 'equivalence.*'"), 1) << Log();
}

INSTANTIATE_TEST_SUITE_P(
    Languages, NewKernel,
    testing::Values(Plugin{"c", "my_own.c", "sum = keep * sum + add", "sum = sum + add"},
                    Plugin{"cpp", "my_own.cc", "sum = keep * sum + add", "sum = sum + add"},
                    Plugin{"python", "my_own.py", "np.float32(scale)", "np.float32(1)"},
                    Plugin{"node", "my_own.mjs", "dot * scale", "dot"}),
    [](const auto& plugin) { return std::string(plugin.param.language); });

struct Refused {
  std::vector<std::string> arguments;
  const char* says;
};

TEST_F(PlugIn, WhatCannotBeWrittenIsOneLineAndExitThree) {
  ASSERT_EQ(Run({"new-kernel", "mine", "--lang", "c"}).status, 0);
  const std::string before = ReadText(folder_ + "/mine.c");
  const Refused table[] = {{{"mine", "--lang", "c"}, "there already"},
                           {{"", "--lang", "c"}, "is empty"},
                           {{"../mine", "--lang", "c"}, "no name"},
                           {{"1st", "--lang", "python"}, "no name"},
                           {{std::string(65, 'a'), "--lang", "c"}, "no name"},
                           {{"mine", "--lang", "cobol"}, "cobol"},
                           {{"mine"}, "--lang"},
                           {{"mine", "--lang", "cpp", "-o", "mine.c"}, "mine.c"},
                           {{"mine", "--lang", "cpp", "-o", "a?b"}, "'?'"}};
  for (const Refused& refused : table) {
    std::vector<std::string> arguments{"new-kernel"};
    arguments.insert(arguments.end(), refused.arguments.begin(), refused.arguments.end());
    const ProgramResult result = Run(arguments);
    EXPECT_EQ(result.status, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr(refused.says));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(ReadText(folder_ + "/mine.c"), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/mine.cc"));
}

struct Raised {
  const char* kernel;
  const char* place;  // file:line of the user's
  const char* says;
};

constexpr char kPythonFaults[] = R"(
import numpy as np
import helper

CONTRACT = {"contract": "attest-1", "dtypes": ["f32"], "features": ["value_dim"], "lse": "none"}


def attention(q, k, v, *, scale, fault="", **rest):
    if fault == "helper":
        helper.look()
    if fault == "numpy":
        np.linalg.inv(np.zeros((2, 2)))
    raise ValueError("two\nlines")
)";

constexpr char kJavaScriptFaults[] = R"(
import {look} from "./helper.mjs";
export const contract = {contract: "attest-1", dtypes: ["f32"], features: ["value_dim"], lse: "none"};

export async function attention({q, k, v, scale, fault = "x, {y}"}) {
  if (fault === "helper") look();
  throw new RangeError("two\nlines");
}
)";

TEST_F(PlugIn, AnExceptionInACallIsNamedByTheUsersFileAndLine) {
  std::ofstream(folder_ + "/mine.py") << kPythonFaults;
  std::ofstream(folder_ + "/helper.py") << "def look():\n    return {}['absent']\n";
  std::ofstream(folder_ + "/mine.mjs") << kJavaScriptFaults;
  std::ofstream(folder_ + "/helper.mjs") << "export function look() {\n  null.x;\n}\n";
  const Raised table[] = {{"python:mine.py", "/mine.py:13:", "ValueError: two lines"},
                          {"python:mine.py?fault=helper", "/helper.py:2:", "KeyError"},
                          {"python:mine.py?fault=numpy", "/mine.py:12:", "LinAlgError"},
                          {"node:mine.mjs", "/mine.mjs:7:", "RangeError: two lines"},
                          {"node:mine.mjs?fault=helper", "/helper.mjs:2:", "TypeError"}};
  for (const Raised& raised : table) {
    const ProgramResult result =
        Run({"check", raised.kernel, "--property", "equivalence.promised_calls_are_accepted",
             "--plan", "smoke"});
    EXPECT_EQ(result.status, 1) << raised.kernel << result.err;
    EXPECT_THAT(result.out, HasSubstr(raised.place));
    EXPECT_THAT(result.out, HasSubstr(raised.says));
  }
}

TEST_F(PlugIn, AScriptThatDoesNotLoadIsNamedByFileAndLine) {
  const std::pair<const char*, const char*> files[] = {
      {"mine.py", kPythonFaults},
      {"helper.py", "def look(): pass\n"},
      {"broken.py", "import numpy\ndef attention(:\n"},
      {"imports.py", "\nimport no_such_module\n"},
      {"indirect.py", "\n\nimport broken\n"},
      {"divides.py", "x = 1\ny = x / 0\n"},
      {"mine.mjs", kJavaScriptFaults},
      {"helper.mjs", "export const look = 1;\n"},
      {"broken.mjs", "const a = 1;\nexport function attention(:\n"},
      {"imports.mjs", "\nimport x from \"no-such-package\";\n"},
      {"lacks.mjs", "\nimport {absent} from \"./helper.mjs\";\n"},
      {"indirect.mjs", "\n\nimport * as b from \"./broken.mjs\";\n"},
      {"throws.mjs", "\n\nthrow new Error('no');\n"}};
  for (const auto& [file, text] : files) std::ofstream(folder_ + "/" + file) << text;
  const Raised table[] = {{"python:broken.py", "/broken.py:2: ", "SyntaxError"},
                          {"python:imports.py", "/imports.py:2: ", "no_such_module"},
                          {"python:indirect.py", "/broken.py:2: ", "SyntaxError"},
                          {"python:divides.py", "/divides.py:2: ", "ZeroDivisionError"},
                          {"python:mine.py:attend", "/mine.py:8", "no function attend"},
                          {"python:helper.py:look", "/helper.py:1: ", "contract"},
                          {"python:mine.py?falt=1", "/mine.py:8: ", "'falt'; known are fault"},
                          {"python:mine.py?scale=1", "/mine.py:8: ", "'scale'; known are fault"},
                          {"node:broken.mjs", "/broken.mjs:2: ", "SyntaxError"},
                          {"node:imports.mjs", "/imports.mjs:2: ", "no-such-package"},
                          {"node:lacks.mjs", "/lacks.mjs:2: ", "absent"},
                          {"node:indirect.mjs", "/broken.mjs:2: ", "SyntaxError"},
                          {"node:throws.mjs", "/throws.mjs:3: ", "Error: no"}};
  for (const Raised& raised : table) {
    const ProgramResult result = Run({"check", raised.kernel});
    EXPECT_EQ(result.status, 3) << raised.kernel;
    EXPECT_THAT(result.err, HasSubstr(raised.place));
    EXPECT_THAT(result.err, HasSubstr(raised.says));
    EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  }
  std::ofstream(folder_ + "/helper.mjs") << "export function look() {}\n";
  EXPECT_THAT(Run({"check", "node:mine.mjs:attend"}).err, HasSubstr("/mine.mjs:5"));
  EXPECT_THAT(Run({"check", "node:mine.mjs?falt=1"}).err, HasSubstr("'falt'; known are fault"));
  EXPECT_THAT(Run({"check", "node:helper.mjs:look"}).err, HasSubstr("/helper.mjs:1"));
}

TEST_F(PlugIn, APythonFunctionLearnsWhatItIsToFill) {
  std::ofstream(folder_ + "/mine.py") << R"(
import numpy as np

CONTRACT = {"contract": "attest-1", "dtypes": ["f16"], "fp8": ["e4m3"], "lse": "none",
            "features": ["pages", "key_lengths", "weights", "value_dim"]}


def attention(q, k, v, *, outputs, **rest):
    assert outputs["out"] == ("f16", [*q.shape[:3], v.shape[3]])
    if "page_table" in rest and "want_weights" in rest:
        assert outputs["weights"][1][3] >= rest["key_lengths"].max()
    return {name: np.zeros(shape, np.float16) for name, (_, shape) in outputs.items()}
)";
  const ProgramResult result =
      Run({"check", "python:mine.py", "--property", "equivalence.promised_calls_are_accepted"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
}

// What a library below Python does is not held by numpy's bounds, but by the regions around each tensor.
TEST_F(PlugIn, AReadPastATensorBelowPythonIsFound) {
  std::ofstream(folder_ + "/mine.py") << R"(import ctypes
import numpy as np
CONTRACT = {"contract": "attest-1", "dtypes": ["f32"], "features": [], "lse": "none"}


def attention(q, k, v, *, scale):
    ctypes.string_at(k.ctypes.data + k.nbytes + 64, 4)  # behind what alignment leaves
    return np.zeros((*q.shape[:3], v.shape[3]), np.float32)
)";
  std::ofstream(folder_ + "/case.toml") << R"(version = 1
property = "equivalence.matches_reference"
kernel = "python:mine.py"
[problem]
batch = 1
q_heads = 1
kv_heads = 1
q_len = 1
kv_len = 1
head_dim = 1
value_dim = 1
dtype = "f32"
[data]
scores = "zero"
values = "ones"
bias = "zero"
seed = 0
recipe_version = 1
)";
  const ProgramResult result = Run({"replay", "case.toml"});
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("SIGSEGV: perhaps an access outside of a tensor"));
}

}  // namespace
}  // namespace attest
