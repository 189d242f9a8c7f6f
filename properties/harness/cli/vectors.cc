// attest vectors: the ONNX standard's own tests of Attention, as cases.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "properties/harness/cli/commands.h"
#include "properties/harness/cli/console.h"
#include "properties/harness/cli/interrupt.h"
#include "properties/harness/cli/open_kernel.h"
#include "properties/harness/cli/output_paths.h"
#include "properties/harness/cli/report_sink.h"
#include "properties/harness/cli/vector_result.h"
#include "properties/harness/report/terminal.h"
#include "properties/harness/vectors/vectors.h"

namespace attest {
namespace {

constexpr const char* kRemedy =
    ": give a folder of ONNX backend tests, each a folder with model.onnx and test_data_set_0/"
    "{input,output}_0.pb ...";

struct VectorsArguments {
  std::string folder;
  std::string kernel;
  std::string json;
};

void PrintUnsupported(const std::vector<VectorResult>& results) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const VectorResult& result : results) {
    if (result.verdict.kind == VerdictKind::kUnsupported) {
      groups[result.verdict.reason].push_back(result.name);
    }
  }
  for (const auto& [reason, names] : groups) {
    Print(Printable(fmt::format("UNSUPPORTED {}: {}\n", names.size(), reason)));
    for (const std::string& name : names) Print(Printable(fmt::format("  {}\n", name)));
  }
}

// Failures in full, and the counts of all.
void PrintResults(const VectorsArguments& arguments, const CommandLine& line,
                  const std::vector<VectorResult>& results) {
  PrintUnsupported(results);
  std::map<VerdictKind, int64_t> counts;
  for (const VectorResult& result : results) {
    ++counts[result.verdict.kind];
    if (result.verdict.kind != VerdictKind::kFail &&
        result.verdict.kind != VerdictKind::kInconclusive) {
      continue;
    }
    Print(Printable(fmt::format("{} {}\n  {}{}\n", Name(result.verdict.kind), result.name,
                                result.verdict.sentence, result.verdict.reason)));
    Print(Printable(fmt::format("  replay: {}\n", VectorCommand(line.program, arguments.folder,
                                                                result.name, arguments.kernel))));
  }
  std::string text = fmt::format("{}: {} vectors", arguments.kernel, results.size());
  for (const auto& [kind, count] : counts) text += fmt::format(", {} {}", count, Name(kind));
  Print(text + "\n");
}

int StatusOf(const std::vector<VectorResult>& results) {
  int64_t passed = 0, undecided = 0;
  for (const VectorResult& result : results) {
    if (result.verdict.kind == VerdictKind::kFail) return kExitFindings;
    undecided += result.verdict.kind == VerdictKind::kInconclusive ? 1 : 0;
    passed +=
        result.verdict.kind == VerdictKind::kPass || result.verdict.kind == VerdictKind::kMarginal
            ? 1
            : 0;
  }
  return undecided > 0 || passed == 0 ? kExitInconclusive : kExitPass;
}

std::vector<VectorResult> RunAll(const std::vector<VectorCase>& vectors, OpenedKernel& kernel) {
  std::vector<VectorResult> results;
  for (const VectorCase& vector : vectors) {
    Verdict verdict;
    if (!Interrupted().load()) verdict = JudgeVector(vector, kernel);
    if (Interrupted().load()) {  // then, or while the vector was being waited for
      verdict = {};
      verdict.kind = VerdictKind::kInconclusive;
      verdict.reason = "interrupted";
    }
    results.push_back({vector.name, std::move(verdict)});
  }
  return results;
}

tl::expected<void, std::string> CheckJson(const VectorsArguments& arguments) {
  if (arguments.json.empty()) return {};
  std::vector<std::string> reads = FilesOfKernels({arguments.kernel});
  reads.push_back(arguments.folder);
  return CheckOutputs(reads, {{"--json", arguments.json}});
}

int Vectors(const VectorsArguments& arguments, const CommandLine& line) {
  if (const auto fine = CheckJson(arguments); !fine) return Complain(kExitUsage, fine.error());
  const auto vectors = ReadVectors(arguments.folder);
  if (!vectors) return Complain(kExitUsage, vectors.error() + kRemedy);
  auto kernel = OpenKernel(arguments.kernel);
  if (!kernel) return Complain(kernel.error().status, kernel.error().text);
  auto sink = ReportSink::Open({arguments.json, "", "."});
  if (!sink) return Complain(kExitUsage, sink.error());
  const std::vector<VectorResult> results = RunAll(*vectors, *kernel);
  const int status = StatusOf(results);
  PrintResults(arguments, line, results);
  (*sink)->WriteJson(VectorRunLine(line.text, arguments.kernel, *kernel));
  for (const VectorResult& result : results) {
    (*sink)->WriteJson(VectorResultLine(
        result, VectorCommand(line.program, arguments.folder, result.name, arguments.kernel)));
  }
  const auto written = (*sink)->Finish(VectorSummaryLine(results, status), "");
  return written ? status : Complain(kExitHarness, written.error());
}

}  // namespace

void AddVectors(CLI::App& app, CommandLine& line) {
  auto arguments = std::make_shared<VectorsArguments>();
  CLI::App* command =
      app.add_subcommand("vectors", "Run the ONNX standard's backend tests of Attention");
  command
      ->add_option("DIR", arguments->folder,
                   "A folder of test folders, or one of them: model.onnx of one Attention node "
                   "beside test_data_set_N/{input,output}_M.pb")
      ->required();
  command->add_option("KERNEL", arguments->kernel, "The kernel")->required();
  command->add_option("--json", arguments->json, "Write JSON lines to FILE: run, vector, summary")
      ->type_name("FILE");
  command->callback(
      [arguments, &line] { line.run = [arguments, &line] { return Vectors(*arguments, line); }; });
}

}  // namespace attest
