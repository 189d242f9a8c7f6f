#include "properties/harness/report/json_read.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "properties/harness/case/toml.h"

namespace attest {
namespace {

using Json = nlohmann::json;

constexpr int kSchema = 1;  // of json_lines.cc

double NumberOf(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const auto text = json.get<std::string>();
  if (text == "nan") return std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "-inf" ? -infinity : infinity;
}

// The value of an enum whose values are 0 to `last` that has this name; throws where none has.
template <typename Enum>
Enum Named(const std::string& name, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (Name(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  throw std::runtime_error(fmt::format("'{}' is not known here", name));
}

VerdictKind VerdictNamed(const std::string& name) {
  return Named(name, VerdictKind::kInconclusive);
}

Witness WitnessOf(const Json& json) {
  Witness witness;
  json.at("index").get_to(witness.index);
  witness.expected = NumberOf(json.at("expected"));
  witness.observed = NumberOf(json.at("observed"));
  witness.bound = NumberOf(json.at("bound"));
  return witness;
}

// Throws where something is missing; so do the functions below.
Verdict VerdictOf(const Json& json, const Signature& signature) {
  Verdict verdict;
  verdict.kind = VerdictNamed(json.at("verdict").get<std::string>());
  verdict.cause = signature.cause;
  verdict.output = signature.output;
  verdict.cause_class = signature.cause_class;
  json.at("reason").get_to(verdict.reason);
  json.at("sentence").get_to(verdict.sentence);
  verdict.likely_cause = json.value("likely_cause", "");
  verdict.call = json.value("call", size_t{0});
  if (json.contains("witness")) verdict.witness = WitnessOf(json.at("witness"));
  return verdict;
}

ReportedFinding FindingOf(const Json& json) {
  ReportedFinding reported;
  Finding& finding = reported.finding;
  json.at("kernel").get_to(finding.kernel);
  json.at("property").get_to(finding.signature.property);
  finding.signature.cause = Named(json.at("cause").get<std::string>(), Cause::kLeak);
  json.at("output").get_to(finding.signature.output);
  json.at("class").get_to(finding.signature.cause_class);
  finding.verdict = VerdictOf(json, finding.signature);
  auto file = ParseToml(json.at("case").get<std::string>(), "case");
  if (!file) throw std::runtime_error(file.error());
  finding.smallest = std::move(file->c);
  json.at("cases_to_first").get_to(finding.cases_to_first);
  json.at("shrink_steps").get_to(finding.shrink_steps);
  json.at("confirmed").get_to(finding.confirmed);
  json.at("confirmations").get_to(finding.confirmations);
  json.at("case_file").get_to(reported.file);
  json.at("replay").get_to(reported.command);
  json.at("waived").get_to(reported.waived);
  reported.found_by = json.value("found_by", "");
  reported.kernel_cases = json.value("kernel_cases", int64_t{0});
  reported.kernel_seconds = json.value("kernel_seconds", 0.0);
  return reported;
}

PropertyResult ResultOf(const Json& json) {
  PropertyResult result;
  json.at("kernel").get_to(result.kernel);
  json.at("property").get_to(result.property);
  result.verdict = VerdictNamed(json.at("verdict").get<std::string>());
  json.at("waived").get_to(result.waived);
  json.at("reason").get_to(result.reason);
  for (const auto& [name, count] : json.at("cases").items()) {
    result.cases[VerdictNamed(name)] = count.get<int64_t>();
  }
  json.at("cases_wanted").get_to(result.wanted);
  json.at("not_applicable").get_to(result.not_applicable);
  json.at("unsupported_reasons").get_to(result.unsupported_reasons);
  json.at("via_mask").get_to(result.via_mask);
  json.at("calls").get_to(result.calls);
  json.at("rows").get_to(result.rows);
  json.at("uninformative_rows").get_to(result.uninformative_rows);
  json.at("unconstrained_rows").get_to(result.unconstrained_rows);
  result.worst_ratio = NumberOf(json.at("worst_ratio"));
  const Json& figures = json.at("figures");
  result.figures.probable_ratio = NumberOf(figures.at("probable_ratio"));
  result.figures.rms = NumberOf(figures.at("rms"));
  result.figures.bias = NumberOf(figures.at("bias"));
  result.figures.plain_ratio = NumberOf(figures.at("plain_ratio"));
  json.at("marginal_reasons").get_to(result.marginal_reasons);
  json.at("seconds").get_to(result.seconds);
  result.cases_to_first = json.value("cases_to_first", int64_t{0});
  if (result.cases_to_first > 0) {
    result.first_cause = Named(json.at("first_cause").get<std::string>(), Cause::kLeak);
  }
  result.bins.Merge(json.at("bins").get<std::map<std::string, int64_t>>());
  return result;
}

KernelReport KernelOf(const Json& json) {
  KernelReport kernel;
  json.at("kernel").get_to(kernel.kernel);
  json.at("optional").get_to(kernel.optional);
  kernel.skipped = json.value("skipped", "");
  if (!kernel.skipped.empty()) return kernel;
  json.at("name").get_to(kernel.identity.name);
  json.at("version").get_to(kernel.identity.version);
  json.at("contract_json").get_to(kernel.identity.contract_json);
  auto contract = ParseContract(kernel.identity.contract_json);
  if (!contract) throw std::runtime_error("contract_json: " + contract.error());
  kernel.contract = std::move(*contract);
  return kernel;
}

void ReadHead(const Json& json, RunReport& report) {
  if (const int schema = json.at("schema").get<int>(); schema != kSchema) {
    throw std::runtime_error(fmt::format("schema {} is of another version of attest", schema));
  }
  RunInfo& info = report.info;
  json.at("command").get_to(info.command);
  json.at("plan").get_to(info.plan);
  json.at("cases_per_property").get_to(info.cases_per_property);
  json.at("seed").get_to(info.seed);
  json.at("shard").at("index").get_to(info.shard_index);
  json.at("shard").at("count").get_to(info.shard_count);
  info.held_to = json.value("held_to", "");
  info.strict = json.value("strict", false);
  for (const Json& kernel : json.at("kernels")) report.kernels.push_back(KernelOf(kernel));
}

void ReadSummary(const Json& json, KernelReport& kernel) {
  json.at("idle_waivers").get_to(kernel.idle_waivers);
  if (json.contains("notes")) json.at("notes").get_to(kernel.notes);
  json.at("calls").get_to(kernel.stats.calls);
  json.at("round_trips").get_to(kernel.stats.round_trips);
  json.at("worker_restarts").get_to(kernel.stats.restarts);
  json.at("seconds").get_to(kernel.seconds);
  json.at("seconds_in_worker").get_to(kernel.stats.seconds_in_worker);
}

KernelReport& KernelNamed(RunReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.kernels, name, &KernelReport::kernel);
  if (found == report.kernels.end()) {
    throw std::runtime_error(fmt::format("kernel '{}' is not in the run's first line", name));
  }
  return *found;
}

void ReadLine(const Json& json, ReadRun& run) {
  const auto type = json.at("type").get<std::string>();
  const bool is_head = type == "run";
  if (is_head != run.report.info.plan.empty()) {
    throw std::runtime_error(is_head ? "a second run begins here" : "no run line before it");
  }
  if (is_head) {
    ReadHead(json, run.report);
  } else if (type == "finding") {
    ReportedFinding finding = FindingOf(json);
    KernelNamed(run.report, json.at("kernel")).findings.push_back(std::move(finding));
  } else if (type == "result") {
    PropertyResult result = ResultOf(json);
    KernelNamed(run.report, result.kernel).results.push_back(std::move(result));
  } else if (type == "summary") {
    run.exit_code = json.at("exit_code").get<int>();
    for (const Json& kernel : json.at("kernels")) {
      if (!kernel.contains("skipped"))
        ReadSummary(kernel, KernelNamed(run.report, kernel.at("kernel")));
    }
  }
}

// A result's own findings, which its line only counts: those under its name, unless none of its own
// cases failed and another property's derived case did.
void GiveResultsTheirFindings(KernelReport& kernel) {
  for (PropertyResult& result : kernel.results) {
    if (!result.cases.contains(VerdictKind::kFail)) continue;
    for (const ReportedFinding& reported : kernel.findings) {
      if (reported.finding.signature.property == result.property) {
        result.findings.push_back(reported.finding);
      }
    }
  }
}

template <typename T>
tl::expected<T, std::string> ParseLine(std::string_view line, T (*read)(const Json&)) {
  try {
    return read(Json::parse(line));
  } catch (const std::exception& error) {
    return tl::unexpected(std::string(error.what()));
  }
}

}  // namespace

tl::expected<ReadRun, std::string> ParseJsonLines(std::string_view text, const std::string& path) {
  ReadRun run;
  run.path = path;
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == text.npos) break;  // a run was killed while it wrote this line
    ++number;
    try {
      ReadLine(Json::parse(text.substr(0, end)), run);
    } catch (const std::exception& error) {
      return tl::unexpected(fmt::format("{}:{}: {}: give the file that attest check --json wrote",
                                        path, number, error.what()));
    }
    text.remove_prefix(end + 1);
  }
  if (run.report.info.plan.empty()) {
    return tl::unexpected(path + ": holds no run: give the file that attest check --json wrote");
  }
  for (KernelReport& kernel : run.report.kernels) GiveResultsTheirFindings(kernel);
  return run;
}

tl::expected<ReadRun, std::string> ReadJsonLinesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return tl::unexpected(path + ": cannot be read: name the JSON lines of a run");
  return ParseJsonLines(text.str(), path);
}

tl::expected<ReportedFinding, std::string> ParseFindingLine(std::string_view line) {
  return ParseLine<ReportedFinding>(line, FindingOf);
}

tl::expected<PropertyResult, std::string> ParseResultLine(std::string_view line) {
  return ParseLine<PropertyResult>(line, ResultOf);
}

}  // namespace attest
