#include "properties/harness/probe/probe_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "impl/attention/contract_json.h"

namespace attest::probe {
namespace {

using Json = nlohmann::ordered_json;

std::string_view Name(Agreement agreement) {
  switch (agreement) {
    case Agreement::kAgrees:
      return "agrees";
    case Agreement::kContradicts:
      return "contradicts";
    case Agreement::kUndeclared:
      return "undeclared";
    case Agreement::kUnknown:
      return "unknown";
  }
  return "?";
}

// Observed on the left, declared on the right, row by row.
std::string MatrixText(const VisibleMatrix& matrix) {
  std::string text = fmt::format("  {}x{}, {}\n", matrix.q_len, matrix.kv_len, matrix.asked);
  for (size_t i = 0; i < matrix.observed.size(); ++i) {
    const std::string& due = matrix.declared[i];
    const bool differs = due != matrix.observed[i];
    const bool empty = due.find('#') == due.npos;
    text += fmt::format("    {}    {}{}\n", matrix.observed[i], due,
                        !differs ? ""
                        : empty  ? "    empty row"
                                 : "    differs");
  }
  return text;
}

bool IsRefusedAsDeclared(const ProbeLine& line) {
  return line.agreement == Agreement::kAgrees && line.observed == "refused";
}

std::string LineText(const ProbeLine& line) {
  std::string observed = line.observed;
  if (line.agreement == Agreement::kContradicts) {
    observed = fmt::format("declared {}, observed {}", line.declared, line.observed);
  }
  return fmt::format("  {:<20} {:<26} {}\n", line.topic, observed, line.evidence);
}

// The lines of one kind under a heading; nothing where there are none.
std::string Section(const ProbeReport& report, Agreement agreement, const char* heading) {
  std::string text;
  for (const ProbeLine& line : report.lines) {
    if (line.agreement == agreement && !IsRefusedAsDeclared(line)) text += LineText(line);
  }
  return text.empty() ? "" : fmt::format("\n{}\n{}", heading, text);
}

std::string RefusedText(const ProbeReport& report) {
  std::string text;
  for (const ProbeLine& line : report.lines) {
    if (IsRefusedAsDeclared(line)) text += (text.empty() ? "" : ", ") + line.topic;
  }
  return text.empty() ? "" : fmt::format("\nneither declared nor taken: {}\n", text);
}

std::string ProposalText(const ProbeReport& report, const Contract& declared) {
  std::string text = fmt::format("\nproposed contract, nearest to {}:\n{}\n", report.proposed.name,
                                 ContractJson(report.proposed));
  const auto differences = DifferencesOf(declared, report.proposed);
  text += differences.empty() ? "\nit is the declared one\n" : "\nagainst what is declared:\n";
  for (const ContractDifference& d : differences) {
    const bool is_set = !d.only_a.empty() || !d.only_b.empty();
    text += fmt::format("  {:<22} {}\n", d.field,
                        is_set ? SetChanges(d) : fmt::format("declared {}, observed {}", d.a, d.b));
  }
  return text;
}

}  // namespace

std::string ReportText(const std::string& kernel, const ProbeReport& report,
                       const Contract& declared) {
  if (!report.answered) {
    return fmt::format("{}: took not even a plain call: {}\n{} calls\n", kernel, report.refusal,
                       report.calls);
  }
  std::string text =
      fmt::format("{}, {} calls\n\nvisible keys, observed and declared\n", kernel, report.calls);
  for (const VisibleMatrix& matrix : report.matrices) text += MatrixText(matrix);
  text += Section(report, Agreement::kContradicts, "contradicted");
  text += Section(report, Agreement::kUnknown, "unknown");
  text += Section(report, Agreement::kAgrees, "as declared");
  text += Section(report, Agreement::kUndeclared, "not declared");
  text += RefusedText(report);
  text += ProposalText(report, declared);
  const auto count =
      std::count_if(report.lines.begin(), report.lines.end(),
                    [](const ProbeLine& l) { return l.agreement == Agreement::kContradicts; });
  text += count == 0 ? "\nnothing declared is contradicted\n"
                     : fmt::format("\n{} declared {} contradicted\n", count,
                                   count == 1 ? "thing is" : "things are");
  return text;
}

std::string ReportJson(const std::string& kernel, const ProbeReport& report) {
  Json json = {{"type", "probe"},
               {"kernel", kernel},
               {"answered", report.answered},
               {"calls", report.calls},
               {"contradicts", report.contradicts()}};
  if (!report.answered) json["refusal"] = report.refusal;
  json["visible"] = Json::array();
  for (const VisibleMatrix& m : report.matrices) {
    json["visible"].push_back({{"asked", m.asked},
                               {"q_len", m.q_len},
                               {"kv_len", m.kv_len},
                               {"observed", m.observed},
                               {"declared", m.declared}});
  }
  json["conventions"] = Json::array();
  for (const ProbeLine& line : report.lines) {
    json["conventions"].push_back({{"topic", line.topic},
                                   {"observed", line.observed},
                                   {"declared", line.declared},
                                   {"evidence", line.evidence},
                                   {"agreement", Name(line.agreement)}});
  }
  if (report.answered) json["proposed"] = Json::parse(ContractJson(report.proposed));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace attest::probe
