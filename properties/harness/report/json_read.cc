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

// The member `key`, of that type. Throws where it is not so, in words that need no knowledge of the library;
// so do the functions below.
const Json& At(const Json& json, const char* key) {
  if (!json.contains(key)) throw std::runtime_error(fmt::format("lacks '{}'", key));
  return json.at(key);
}

template <typename T>
void Read(const Json& json, const char* key, T& value) {
  const Json& member = At(json, key);
  try {
    member.get_to(value);
  } catch (const Json::exception&) {
    throw std::runtime_error(fmt::format("'{}' is a {}", key, member.type_name()));
  }
}

template <typename T>
T Get(const Json& json, const char* key) {
  T value{};
  Read(json, key, value);
  return value;
}

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
  Read(json, "index", witness.index);
  witness.expected = NumberOf(At(json, "expected"));
  witness.observed = NumberOf(At(json, "observed"));
  witness.bound = NumberOf(At(json, "bound"));
  return witness;
}

Verdict VerdictOf(const Json& json, const Signature& signature) {
  Verdict verdict;
  verdict.kind = VerdictNamed(Get<std::string>(json, "verdict"));
  verdict.cause = signature.cause;
  verdict.output = signature.output;
  verdict.cause_class = signature.cause_class;
  Read(json, "reason", verdict.reason);
  Read(json, "sentence", verdict.sentence);
  verdict.likely_cause = json.value("likely_cause", "");
  for (const Json& other : json.value("other_causes", Json::array())) {
    verdict.other_causes.push_back({other.value("class", ""), other.value("phrase", "")});
  }
  verdict.call = json.value("call", size_t{0});
  if (json.contains("witness")) verdict.witness = WitnessOf(At(json, "witness"));
  return verdict;
}

// A model's case, which alone has no sizes beside it, stays the text that it is.
void ReadCase(const Json& json, ReportedFinding& reported) {
  std::string text = Get<std::string>(json, "case");
  if (!json.contains("sizes")) {
    reported.case_text = std::move(text);
    return;
  }
  auto file = ParseToml(text, "case");
  if (!file) throw std::runtime_error(file.error());
  reported.finding.smallest = std::move(file->c);
  reported.finding.before = std::move(file->before);
}

ReportedFinding FindingOf(const Json& json) {
  ReportedFinding reported;
  Finding& finding = reported.finding;
  Read(json, "kernel", finding.kernel);
  Read(json, "property", finding.signature.property);
  finding.signature.cause = Named(Get<std::string>(json, "cause"), Cause::kLeak);
  Read(json, "output", finding.signature.output);
  Read(json, "class", finding.signature.cause_class);
  finding.verdict = VerdictOf(json, finding.signature);
  ReadCase(json, reported);
  Read(json, "cases_to_first", finding.cases_to_first);
  Read(json, "shrink_steps", finding.shrink_steps);
  Read(json, "confirmed", finding.confirmed);
  Read(json, "confirmations", finding.confirmations);
  Read(json, "case_file", reported.file);
  Read(json, "replay", reported.command);
  Read(json, "waived", reported.waived);
  reported.found_by = json.value("found_by", "");
  reported.kernel_cases = json.value("kernel_cases", int64_t{0});
  reported.kernel_seconds = json.value("kernel_seconds", 0.0);
  return reported;
}

PropertyResult ResultOf(const Json& json) {
  PropertyResult result;
  Read(json, "kernel", result.kernel);
  Read(json, "property", result.property);
  result.verdict = VerdictNamed(Get<std::string>(json, "verdict"));
  Read(json, "waived", result.waived);
  Read(json, "reason", result.reason);
  for (const auto& [name, count] : At(json, "cases").items()) {
    result.cases[VerdictNamed(name)] = count.get<int64_t>();
  }
  Read(json, "cases_wanted", result.wanted);
  Read(json, "not_applicable", result.not_applicable);
  Read(json, "unsupported_reasons", result.unsupported_reasons);
  Read(json, "via_mask", result.via_mask);
  Read(json, "calls", result.calls);
  Read(json, "rows", result.rows);
  Read(json, "uninformative_rows", result.uninformative_rows);
  Read(json, "unconstrained_rows", result.unconstrained_rows);
  result.worst_ratio = NumberOf(At(json, "worst_ratio"));
  const Json& figures = At(json, "figures");
  result.figures.probable_ratio = NumberOf(At(figures, "probable_ratio"));
  result.figures.rms = NumberOf(At(figures, "rms"));
  result.figures.bias = NumberOf(At(figures, "bias"));
  result.figures.plain_ratio = NumberOf(At(figures, "plain_ratio"));
  Read(json, "marginal_reasons", result.marginal_reasons);
  Read(json, "seconds", result.seconds);
  result.cases_to_first = json.value("cases_to_first", int64_t{0});
  if (result.cases_to_first > 0) {
    result.first_cause = Named(Get<std::string>(json, "first_cause"), Cause::kLeak);
  }
  result.bins.Merge(Get<std::map<std::string, int64_t>>(json, "bins"));
  return result;
}

KernelReport KernelOf(const Json& json) {
  KernelReport kernel;
  Read(json, "kernel", kernel.kernel);
  Read(json, "optional", kernel.optional);
  kernel.skipped = json.value("skipped", "");
  if (!kernel.skipped.empty()) return kernel;
  Read(json, "name", kernel.identity.name);
  Read(json, "version", kernel.identity.version);
  Read(json, "contract_json", kernel.identity.contract_json);
  kernel.is_model = json.value("is_model", false);
  if (kernel.is_model) {
    kernel.contract.name = Get<std::string>(json, "contract");
    return kernel;
  }
  kernel.identity.maps_views = json.value("maps_views", true);
  auto contract = ContractOf(kernel.identity);
  if (!contract) throw std::runtime_error("contract_json: " + contract.error());
  kernel.contract = std::move(*contract);
  return kernel;
}

void ReadHead(const Json& json, RunReport& report) {
  if (const int schema = Get<int>(json, "schema"); schema != kSchema) {
    throw std::runtime_error(fmt::format("schema {} is of another version of attest", schema));
  }
  RunInfo& info = report.info;
  Read(json, "command", info.command);
  Read(json, "plan", info.plan);
  Read(json, "cases_per_property", info.cases_per_property);
  Read(json, "seed", info.seed);
  Read(At(json, "shard"), "index", info.shard_index);
  Read(At(json, "shard"), "count", info.shard_count);
  info.joined = json.value("joined", "");
  info.incomplete = json.value("incomplete", false);
  info.held_to = json.value("held_to", "");
  info.strict = json.value("strict", false);
  info.open_options = json.value("open_options", "");
  info.properties = json.value("properties", std::vector<std::string>());
  for (const Json& kernel : At(json, "kernels")) report.kernels.push_back(KernelOf(kernel));
}

void ReadSummary(const Json& json, KernelReport& kernel) {
  Read(json, "idle_waivers", kernel.idle_waivers);
  if (json.contains("notes")) Read(json, "notes", kernel.notes);
  Read(json, "calls", kernel.stats.calls);
  Read(json, "round_trips", kernel.stats.round_trips);
  Read(json, "worker_restarts", kernel.stats.restarts);
  Read(json, "seconds", kernel.seconds);
  Read(json, "seconds_in_worker", kernel.stats.seconds_in_worker);
}

KernelReport& KernelNamed(RunReport& report, const std::string& name) {
  const auto found = std::ranges::find(report.kernels, name, &KernelReport::kernel);
  if (found == report.kernels.end()) {
    throw std::runtime_error(fmt::format("kernel '{}' is not in the run's first line", name));
  }
  return *found;
}

// A line that was lost, or added, is noticed by the count of the last; programs of old gave none.
void CheckCount(const Json& json, int64_t before) {
  const int64_t counted = json.value("lines", before);
  if (counted == before) return;
  throw std::runtime_error(
      fmt::format("the run ends here after {} lines, of which {} are there", counted, before));
}

// `before`: the number of lines that stand before this one.
void ReadLine(const Json& json, int64_t before, ReadRun& run) {
  const auto type = Get<std::string>(json, "type");
  const bool is_head = type == "run";
  if (run.exit_code) throw std::runtime_error("stands behind the line that ends the run");
  if (is_head != run.report.info.plan.empty()) {
    throw std::runtime_error(is_head ? "a second run begins here" : "no run line before it");
  }
  if (is_head) {
    ReadHead(json, run.report);
  } else if (type == "finding") {
    ReportedFinding finding = FindingOf(json);
    KernelNamed(run.report, finding.finding.kernel).findings.push_back(std::move(finding));
  } else if (type == "result") {
    PropertyResult result = ResultOf(json);
    KernelNamed(run.report, result.kernel).results.push_back(std::move(result));
  } else if (type == "summary") {
    CheckCount(json, before);
    run.exit_code = Get<int>(json, "exit_code");
    for (const Json& kernel : At(json, "kernels")) {
      if (!kernel.contains("skipped"))
        ReadSummary(kernel, KernelNamed(run.report, Get<std::string>(kernel, "kernel")));
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

// The library's own words are for programmers.
std::string WordsOf(const std::exception& error) {
  if (const auto* parse = dynamic_cast<const Json::parse_error*>(&error)) {
    return fmt::format("is no JSON from byte {} on", parse->byte);
  }
  if (dynamic_cast<const Json::exception*>(&error) != nullptr) return "is not as attest writes it";
  return error.what();
}

template <typename T>
tl::expected<T, std::string> ParseLine(std::string_view line, T (*read)(const Json&)) {
  try {
    return read(Json::parse(line));
  } catch (const std::exception& error) {
    return tl::unexpected(WordsOf(error));
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
      ReadLine(Json::parse(text.substr(0, end)), number - 1, run);
    } catch (const std::exception& error) {
      return tl::unexpected(fmt::format("{}:{}: {}: give the file that attest check --json wrote",
                                        path, number, WordsOf(error)));
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
