// The program as a user meets it: exit statuses, the one line of an error, the files it leaves.

#include <sys/prctl.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/cli/run_program.h"

namespace attest {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class EndToEnd : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "attest_e2e_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ProgramResult Run(const std::vector<std::string>& arguments) const {
    return RunAttest(arguments, folder_);
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  std::vector<nlohmann::json> JsonOfType(const std::string& name, const std::string& type) const {
    std::vector<nlohmann::json> lines;
    for (const auto& line : ReadJsonLines(Path(name))) {
      if (line["type"] == type) lines.push_back(line);
    }
    return lines;
  }
  // One line on stderr, "attest: ...", and nothing on stdout.
  static void ExpectOneLine(const ProgramResult& result) {
    EXPECT_THAT(result.err, StartsWith("attest: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }

  std::string folder_;
};

struct BadInput {
  const char* what;
  std::vector<std::string> arguments;
  const char* says;
};

TEST_F(EndToEnd, BadInputIsOneLineAndExitThree) {
  Write("malformed.toml", "version = 1\n\n[problem\n");
  Write("impossible.toml",
        "version = 1\n[problem]\nbatch = 1\nq_heads = 8\nkv_heads = 3\nq_len = 1\nkv_len = 1\n"
        "head_dim = 1\nvalue_dim = 1\ndtype = \"f32\"\n");
  Write("elsewhere.toml",
        "version = 1\nkernel = \"./gone.so\"\n[problem]\nbatch = 1\nq_heads = 1\nkv_heads = 1\n"
        "q_len = 1\nkv_len = 1\nhead_dim = 1\nvalue_dim = 1\ndtype = \"f32\"\n");
  Write("no_folder", "");
  Write("no_vectors.txt", "");
  const std::string plugins = BinFolder() + "/../testdata/";
  const BadInput table[] = {
      {"no subcommand", {}, "attest --help"},
      {"unknown subcommand",
       {"bogus"},
       "bogus: is no command: the commands are check, check-model, probe"},
      {"option before the command", {"--frob", "check"}, "the commands are check"},
      {"unknown option", {"check", "tiled", "--frob"}, "--frob: 'attest check --help'"},
      {"missing argument", {"replay"}, "'attest replay --help'"},
      {"unknown create option", {"check", "tiled?frob=1"}, "attest: tiled?frob=1: "},
      {"no kernel", {"check"}, "no kernel"},
      {"unknown kernel", {"check", "nope"}, "nope"},
      {"unknown kernel behind a good one", {"check", "tiled", "nope"}, "nope"},
      {"unknown variant", {"check", "mutant:nope"}, "attest: mutant:nope: "},
      {"missing waivers", {"check", "tiled", "--waivers", "nope"}, "corpus/waivers.toml"},
      {"malformed waivers", {"check", "tiled", "--waivers", "malformed.toml"}, ":3: column 9:"},
      {"missing library", {"check", "./nope.so"}, "nope.so"},
      {"no library", {"check", "./malformed.toml"}, "malformed.toml"},
      {"missing symbol", {"check", plugins + "bad_plugin_no_symbol.so"}, "attest_kernel"},
      {"wrong ABI version", {"check", plugins + "bad_plugin_abi.so"}, "version"},
      {"malformed contract", {"check", plugins + "bad_plugin_contract.so"}, "f33"},
      {"unknown plan", {"check", "tiled", "--plan", "swift"}, "quick, ci, overnight, smoke"},
      {"pattern without match", {"check", "tiled", "--property", "no.*"}, "list properties"},
      {"no duration", {"check", "tiled", "--for", "soon"}, "--for"},
      {"duration zero", {"check", "tiled", "--for", "0s"}, "--for"},
      {"no shard", {"check", "tiled", "--shard", "4/4"}, "--shard"},
      {"negative seed", {"check", "tiled", "--seed", "-1"}, "--seed"},
      {"unknown contract", {"check", "tiled", "--contract", "nope"}, "attest-1"},
      {"strict without contract", {"check", "tiled", "--strict"}, "--contract"},
      {"json in no folder", {"check", "tiled", "--json", "no/such/x.json"}, "no/such"},
      {"junit is a folder", {"check", "tiled", "--junit", "."}, "folder"},
      {"report is nothing", {"check", "tiled", "--report", ""}, "--report"},
      {"no confirmation", {"check", "tiled", "--confirmations", "0"}, "--confirmations"},
      {"report is a file", {"check", "tiled", "--report", "no_folder"}, "no_folder"},
      {"missing case", {"replay", "nope.toml", "tiled"}, "nope.toml"},
      {"kernel of elsewhere", {"replay", "elsewhere.toml"}, "so elsewhere.toml names it"},
      {"malformed case", {"replay", "malformed.toml", "tiled"}, "malformed.toml:3: column 9:"},
      {"impossible sizes", {"replay", "impossible.toml", "tiled"}, "kv_heads"},
      {"shrink into a folder", {"shrink", "nope.toml", "tiled", "-o", "."}, "folder"},
      {"missing case to shrink", {"shrink", "nope.toml", "tiled"}, "nope.toml"},
      {"unreadable folder", {"vectors", "nope", "tiled"}, "nope"},
      {"folder without vectors", {"vectors", ".", "tiled"}, "."},
      {"list of what", {"list", "frobs"}, "frobs"},
      {"difference to nothing", {"list", "contracts", "--diff", "jax", "nope"}, "nope"},
      {"difference of kernels", {"list", "kernels", "--diff", "jax", "mlx"}, "list contracts"},
      {"unknown kernel to probe", {"probe", "nope"}, "nope"},
      {"unknown contract to follow", {"probe", "reference?contract=nope"}, "nope"},
  };
  for (const BadInput& bad : table) {
    SCOPED_TRACE(bad.what);
    const ProgramResult result = Run(bad.arguments);
    EXPECT_EQ(result.status, 3) << result.err;
    ExpectOneLine(result);
    EXPECT_THAT(result.err, HasSubstr(bad.says));
  }
  EXPECT_FALSE(Exists("attest-report"));
}

TEST_F(EndToEnd, ProbeFindsConventionsAndWrongDeclarations) {
  const ProgramResult agrees = Run({"probe", "reference?contract=flash-attention-2"});
  EXPECT_EQ(agrees.status, 0) << agrees.out << agrees.err;
  EXPECT_THAT(agrees.out, ContainsRegex("causal alignment +key_length_minus_q_len"));
  EXPECT_THAT(agrees.out, HasSubstr("nothing declared is contradicted"));
  const ProgramResult contradicts = Run({"probe", "mutant:lse-base-2"});
  EXPECT_EQ(contradicts.status, 1) << contradicts.err;
  EXPECT_THAT(contradicts.out, HasSubstr("declared natural, observed base2"));
  const ProgramResult json = Run({"probe", "mutant:kv-head-modulo", "--json"});
  EXPECT_EQ(json.status, 1);
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["type"], "probe");
  EXPECT_LT(report["calls"], 200);
  EXPECT_EQ(report["proposed"]["contract"], "attest-1");
}

// Hangs in every call: a finding, after three of them.
TEST_F(EndToEnd, ProbeOfAKernelThatHangsEnds) {
  const ProgramResult result =
      Run({"probe", BinFolder() + "/../testdata/bad_plugin_hangs.so", "--deadline", "5"});
  EXPECT_EQ(result.status, 1) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 calls"));
}

TEST_F(EndToEnd, CorrectKernelPassesAndLeavesNoFolder) {
  const ProgramResult result = Run({"check", "tiled", "--json", "run.json", "--junit", "run.xml"});
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(result.err, "");
  EXPECT_FALSE(Exists("attest-report"));
  EXPECT_FALSE(Exists("run.json.partial"));
  EXPECT_THAT(ReadText(Path("run.xml")), HasSubstr("failures=\"0\""));
  ASSERT_EQ(JsonOfType("run.json", "run").size(), 1u);
  ASSERT_EQ(JsonOfType("run.json", "summary").size(), 1u);
  const auto summary = JsonOfType("run.json", "summary")[0];
  EXPECT_EQ(summary["exit_code"], 0);
  EXPECT_EQ(summary["kernels"][0]["bins_missing"], nlohmann::json::array());
  for (const auto& result_line : JsonOfType("run.json", "result")) {
    EXPECT_GT(result_line["cases_run"], 0) << result_line["property"];
  }
}

TEST_F(EndToEnd, FindingIsReplayedByItsOwnCommand) {
  const ProgramResult result = Run({"check", "mutant:kv-head-modulo", "--property",
                                    "equivalence.matches_reference", "--json", "run.json"});
  EXPECT_EQ(result.status, 1);
  const auto findings = JsonOfType("run.json", "finding");
  ASSERT_FALSE(findings.empty());
  const std::string command = findings[0]["replay"];
  EXPECT_THAT(result.out, HasSubstr(command));
  const std::string all = "cd " + folder_ + " && " + command + " > replayed";
  EXPECT_EQ(WEXITSTATUS(std::system(all.c_str())), 1);
  EXPECT_THAT(ReadText(Path("replayed")), HasSubstr("error/W"));
  EXPECT_THAT(ReadText(Path("replayed")), HasSubstr("query 0; the row is "));
  const std::string file = findings[0]["case_file"];
  EXPECT_EQ(Run({"replay", file, "tiled"}).status, 0) << "another kernel passes the same case";
  EXPECT_EQ(Run({"shrink", file, "mutant:kv-head-modulo", "-o", "smaller.toml"}).status, 1);
  EXPECT_EQ(Run({"replay", "smaller.toml"}).status, 1);
  EXPECT_EQ(Run({"shrink", file, "tiled"}).status, 2) << "nothing to shrink";
}

// What a kernel is held to by the command line is no part of a case file.
TEST_F(EndToEnd, AFindingUnderAnotherContractIsReplayedUnderIt) {
  const auto found = Run({"check", "tiled", "--plan", "smoke", "--property",
                          "heads.labels_come_back", "--max-findings", "1", "--contract",
                          "onnx-attention-25", "--strict", "--json", "run.json"});
  EXPECT_EQ(found.status, 1) << found.out;
  EXPECT_THAT(found.out, HasSubstr("contract onnx-attention-25"));
  const auto findings = JsonOfType("run.json", "finding");
  ASSERT_FALSE(findings.empty());
  const std::string command = findings[0]["replay"];
  EXPECT_THAT(command, HasSubstr(" --contract onnx-attention-25 --strict"));
  const std::string all = "cd " + folder_ + " && " + command + " > replayed";
  EXPECT_EQ(WEXITSTATUS(std::system(all.c_str())), 1) << ReadText(Path("replayed"));
  const std::string file = findings[0]["case_file"];
  const ProgramResult without = Run({"replay", file});
  EXPECT_EQ(without.status, 0);
  EXPECT_THAT(without.out, HasSubstr("the file records a failure of this kernel"));
}

TEST_F(EndToEnd, AReportFolderHasThePagesOfTheLastRun) {
  const std::vector<std::string> check = {"--property", "heads.*", "--plan", "smoke"};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), check.begin(), check.end());
    return Run(arguments).status;
  };
  EXPECT_EQ(run({"check", "mutant:kv-head-modulo"}), 1);
  const std::string page = ReadText(Path("attest-report/index.html"));
  EXPECT_THAT(page, HasSubstr("<figcaption>Error / bound of out"));
  EXPECT_THAT(ReadText(Path("attest-report/report.md")), HasSubstr(" FAIL\n"));
  EXPECT_EQ(run({"check", "tiled"}), 0);
  EXPECT_THAT(ReadText(Path("attest-report/index.html")), Not(HasSubstr("kv-head-modulo")));
  EXPECT_EQ(run({"check", "tiled", "--report", "asked"}), 0);
  EXPECT_TRUE(Exists("asked/report.md"));
}

TEST_F(EndToEnd, LadderNamesTheWitnessOfTheFirstBrokenRung) {
  const ProgramResult result =
      Run({"check", "mutant:zeros", "--plan", "smoke", "--json", "run.json"});
  EXPECT_EQ(result.status, 1);
  const auto ladder = JsonOfType("run.json", "summary").at(0)["kernels"][0]["ladder"];
  EXPECT_EQ(ladder["highest"], "hidden means hidden") << ladder;
  EXPECT_EQ(ladder["rungs"][4]["state"], "breaks") << ladder;
  EXPECT_TRUE(Exists(ladder["witness"]["case_file"])) << ladder;
  EXPECT_THAT(result.out, HasSubstr("ladder: holds up to hidden means hidden (4 of 8 rungs)"));
  EXPECT_THAT(result.out, HasSubstr("first broken by "));
}

TEST_F(EndToEnd, FailuresThatComeAndGoHaveTheirCounts) {
  const std::string flaky = BinFolder() + "/../testdata/flaky_kernel.so";
  const auto check = [&](const std::string& variant, const std::string& property) {
    return Run({"check", flaky + ":" + variant, "--property", property, "--confirmations", "5",
                "--json", "run.json", "--junit", "run.xml"});
  };
  // It is every fifth call: those before it are found, and a replay makes them.
  EXPECT_EQ(check("value", "equivalence.matches_reference").status, 1);
  const auto finding = JsonOfType("run.json", "finding").at(0);
  EXPECT_EQ(finding["verdict"], "FAIL");
  EXPECT_EQ(finding["class"], "call-before");
  EXPECT_EQ(finding["calls_before"], 4);
  EXPECT_EQ(finding["confirmed"], finding["confirmations"]);
  EXPECT_EQ(Run({"replay", finding["case_file"]}).status, 1);

  const ProgramResult result = check("bits", "masks.boolean_equals_additive");
  for (const auto& other : JsonOfType("run.json", "finding")) {
    EXPECT_NE(other["property"], "masks.boolean_equals_additive");
  }
  const std::string counts = JsonOfType("run.json", "result").at(0)["reason"];
  EXPECT_THAT(counts, testing::StartsWith("flaky: failed in "));
  EXPECT_THAT(result.out, HasSubstr(counts));
  EXPECT_THAT(ReadText(Path("run.xml")), HasSubstr(counts));
}

TEST_F(EndToEnd, AHarnessThatCannotStartWorkersIsExitFour) {
  const std::string attest = BinFolder() + "/attest check tiled";
  for (const std::string& command :
       {"ATTEST_WORKER=./nope " + attest, "sh -c 'ulimit -n 8; exec " + attest + "'"}) {
    EXPECT_EQ(WEXITSTATUS(std::system(("cd " + folder_ + " && " + command + " 2> err").c_str())),
              4);
    EXPECT_THAT(ReadText(Path("err")), StartsWith("attest: cannot "));
  }
}

TEST_F(EndToEnd, SameSeedGivesTheSameFindings) {
  const std::vector<std::string> check{"check", "mutant:missing-rescale", "--property",
                                       "equivalence.*", "--json"};
  std::vector<std::string> first = check, second = check;
  first.push_back("first.json");
  second.push_back("second.json");
  Run(first);
  Run(second);
  auto a = JsonOfType("first.json", "finding"), b = JsonOfType("second.json", "finding");
  for (auto* findings : {&a, &b}) {
    for (auto& finding : *findings) finding.erase("kernel_seconds");  // a measurement
  }
  EXPECT_FALSE(a.empty());
  EXPECT_EQ(a, b);
}

TEST_F(EndToEnd, OptionalKernelsDoNotDecide) {
  const std::string only = "equivalence.matches_reference";
  EXPECT_EQ(Run({"check", "tiled", "--optional", "mutant:zeros", "--property", only}).status, 0);
  const ProgramResult skipped =
      Run({"check", "tiled", "--optional", "nope:attention", "--property", only});
  EXPECT_EQ(skipped.status, 0);
  EXPECT_THAT(skipped.out, HasSubstr("skipped: "));
  EXPECT_EQ(Run({"check", "--optional", "nope:attention"}).status, 2) << "nothing was run";
}

TEST_F(EndToEnd, UnsupportedAloneIsInconclusive) {
  const ProgramResult result =
      Run({"check", "minimal", "--property", "causal.future_keys_do_not_matter"});
  EXPECT_EQ(result.status, 2) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("UNSUPPORTED"));
}

TEST_F(EndToEnd, CutShortIsInconclusive) {
  const ProgramResult result = Run({"check", "tiled", "--plan", "overnight", "--for", "1s"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.out, HasSubstr("out of time"));
}

TEST_F(EndToEnd, ShardsShareTheCases) {
  int64_t cases = 0;
  for (const char* shard : {"0/3", "1/3", "2/3"}) {
    const std::string file = std::string("shard") + shard[0] + ".json";
    EXPECT_EQ(Run({"check", "tiled", "--property", "equivalence.matches_reference", "--shard",
                   shard, "--json", file})
                  .status,
              0);
    cases += JsonOfType(file, "result")[0]["cases_run"].get<int64_t>();
  }
  Run({"check", "tiled", "--property", "equivalence.matches_reference", "--json", "whole.json"});
  EXPECT_EQ(cases, JsonOfType("whole.json", "result")[0]["cases_run"]);
}

TEST_F(EndToEnd, FullDiskIsExitFour) {
  const std::string only = "equivalence.matches_reference";
  for (const char* option : {"--json", "--junit"}) {
    const ProgramResult result = Run({"check", "tiled", "--property", only, option, "/dev/full"});
    EXPECT_EQ(result.status, 4);
    EXPECT_THAT(result.err, HasSubstr("No space left"));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  const std::string list = BinFolder() + "/attest list > /dev/full 2> " + Path("err");
  EXPECT_EQ(WEXITSTATUS(std::system(list.c_str())), 4);
}

// Waits until `done` holds, for a time that only a fault can take.
template <typename Condition>
bool Eventually(const Condition& done) {
  for (int i = 0; i < 3000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Orphans of this process come back to it, so that a worker left behind is seen.
bool AllDescendantsAreGone() {
  return Eventually([] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
  });
}

TEST_F(EndToEnd, InterruptedRunReportsWhatIsThere) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program({"check", "tiled", "--plan", "overnight", "--json", "run.json"}, folder_);
    ASSERT_TRUE(Eventually([&] { return !ReadJsonLines(Path("run.json.partial")).empty(); }));
    program.Signal(signal);
    const ProgramResult result = program.Wait();
    EXPECT_EQ(result.status, 2) << result.err;
    EXPECT_THAT(result.out, HasSubstr("interrupted"));
    EXPECT_EQ(JsonOfType("run.json", "summary").size(), 1u);
    EXPECT_FALSE(Exists("run.json.partial"));
    EXPECT_TRUE(AllDescendantsAreGone());
  }
}

TEST_F(EndToEnd, KilledRunLosesNoFindingAndLeavesNoWorker) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  // The property fails at once; the rest of an overnight plan is what the kill cuts short.
  Program program({"check", "mutant:zeros", "--property", "equivalence.matches_reference", "--plan",
                   "overnight", "--json", "run.json"},
                  folder_);
  ASSERT_TRUE(Eventually([&] { return !JsonOfType("run.json.partial", "finding").empty(); }));
  program.Signal(SIGKILL);
  EXPECT_EQ(program.Wait().status, 128 + SIGKILL);
  EXPECT_FALSE(Exists("run.json"));
  const auto findings = JsonOfType("run.json.partial", "finding");
  ASSERT_FALSE(findings.empty());
  EXPECT_TRUE(Exists(findings[0]["case_file"]));
  EXPECT_TRUE(AllDescendantsAreGone());
}

// Its first three properties fail; the others are not waited for.
TEST_F(EndToEnd, KernelThatHangsEndsTheRunSoon) {
  const ProgramResult result = Run({"check", BinFolder() + "/../testdata/bad_plugin_hangs.so",
                                    "--deadline", "5", "--json", "run.json"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_EQ(JsonOfType("run.json", "finding").size(), 3u);
  for (const auto& finding : JsonOfType("run.json", "finding")) {
    EXPECT_EQ(finding["cause"], "hang");
    EXPECT_EQ(finding["confirmed"], 1);
  }
  EXPECT_THAT(result.out, HasSubstr("not run: it hangs in 3 properties"));
}

TEST_F(EndToEnd, VectorsOfTheStandardPassOnTheReference) {
  const char* folder = std::getenv("ATTEST_ONNX_VECTORS");
  const std::string vectors =
      folder != nullptr ? folder : ATTEST_SOURCE_DIR "/../shared/onnx-attention";
  if (!std::filesystem::is_directory(vectors)) GTEST_SKIP() << vectors << " is not there";
  const ProgramResult result = Run({"vectors", vectors, "reference", "--json", "run.json"});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_FALSE(JsonOfType("run.json", "vector").empty());
}

// A kernel in Python, with faults that the create option `fault` switches on.
constexpr char kPythonKernel[] = R"(
import os
import numpy as np

CONTRACT = {"contract": "attest-1", "dtypes": ["f32"], "features": ["value_dim", "bias"], "lse": "none"}


def attention(q, k, v, *, scale, bias=None, fault=""):
    scores = q @ np.swapaxes(k, 2, 3) * np.float32(scale)
    if bias is not None and fault != "bias":
        scores = scores + bias
    top = scores.max(axis=3, keepdims=True)
    weights = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = weights.sum(axis=3, keepdims=True)
    if fault == "abort":
        os.abort()
    if fault == "write":
        k[...] = 0
    if fault == "shape":
        return weights
    return weights @ v / np.where(total == 0, 1, total)
)";

TEST_F(EndToEnd, APythonFunctionIsAKernel) {
  Write("mine.py", kPythonKernel);
  const auto check = [&](const std::string& kernel, const std::string& property) {
    return Run({"check", kernel, "--property", property, "--plan", "smoke", "--stop-after", "1",
                "--confirmations", "1"});
  };
  const ProgramResult good = check("python:mine.py", "row_sums.*");
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  const ProgramResult faulty = check("python:mine.py:attention?fault=bias", "equivalence.*");
  EXPECT_EQ(faulty.status, 1) << faulty.out << faulty.err;
  EXPECT_THAT(faulty.out, HasSubstr("bias-ignored"));
  EXPECT_THAT(check("python:mine.py?fault=abort", "row_sums.ones*").out, HasSubstr("crash"));
  EXPECT_THAT(check("python:mine.py?fault=write", "row_sums.ones*").out, HasSubstr("read-only"));
  EXPECT_THAT(check("python:mine.py?fault=shape", "row_sums.ones*").out, HasSubstr("of shape"));
}

TEST_F(EndToEnd, WhatIsNoPythonKernelIsBadInput) {
  Write("mine.py", kPythonKernel);
  Write("bare.py", "def attention(q, k, v): pass\n");
  Write("broken.py", "def attention(:\n");
  const std::pair<const char*, const char*> table[] = {
      {"python:nope.py", "nope.py"},
      {"python:mine.py:nope", "has no function nope"},
      {"python:bare.py", "CONTRACT"},
      {"python:broken.py", "SyntaxError"},
      {"python:mine.py?frob=1", "no option 'frob'"}};
  for (const auto& [kernel, says] : table) {
    const ProgramResult run = Run({"check", kernel});
    EXPECT_EQ(run.status, 3) << kernel;
    EXPECT_THAT(run.err, HasSubstr(says));
  }
}

TEST_F(EndToEnd, AJavaScriptFunctionIsAKernel) {
  Write("mine.mjs", R"(
export const contract = {contract: "attest-1", dtypes: ["f32", "f16", "bf16"], features: [], lse: "none",
                         layouts: ["bhsd"], strides: "dense"};
export async function attention({q, k, v, scale, fault}) {
  const dim = q.shape[3], [batch, heads, keys] = k.shape, rows = q.shape[2];
  const out = new Float64Array(q.data.length);
  for (let row = 0; row < batch * heads * rows; ++row) {
    const first = Math.floor(row / rows) * keys, scores = [];
    for (let j = 0; j < keys; ++j) {
      let dot = 0;
      for (let d = 0; d < dim; ++d) dot += q.data[row * dim + d] * k.data[(first + j) * dim + d];
      scores.push(dot * scale);
    }
    const top = Math.max(...scores), weights = scores.map((s) => Math.exp(s - top));
    const total = weights.reduce((a, b) => a + b, 0);
    for (let j = 0; j < keys - (fault === "last" ? 1 : 0); ++j) {
      for (let d = 0; d < dim; ++d) out[row * dim + d] += weights[j] / total * v.data[(first + j) * dim + d];
    }
  }
  return out;
}
)");
  const ProgramResult good = Run({"check", "node:mine.mjs", "--plan", "smoke"});
  EXPECT_EQ(good.status, 0) << good.out << good.err;
  const ProgramResult faulty =
      Run({"check", "node:mine.mjs?fault=last", "--plan", "smoke", "--property", "row_sums.*"});
  EXPECT_EQ(faulty.status, 1) << faulty.out << faulty.err;
}

}  // namespace
}  // namespace attest
