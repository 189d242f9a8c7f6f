#include "properties/harness/report/json_lines.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "properties/harness/report/finding_groups.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/ladder.h"

namespace attest {
namespace {

using Json = nlohmann::ordered_json;

// Readers may refuse what they do not know; a change of meaning raises it.
constexpr int kSchema = 1;

Json Number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// Kernels name themselves and print what they like: bytes that are no UTF-8 are replaced.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json Sizes(const Problem& p) {
  return {{"batch", p.batch},        {"q_heads", p.q_heads}, {"kv_heads", p.kv_heads},
          {"q_len", p.q_len},        {"kv_len", p.kv_len},   {"head_dim", p.head_dim},
          {"value_dim", p.value_dim}};
}

Json WitnessJson(const Witness& w) {
  return {{"index", w.index},
          {"expected", Number(w.expected)},
          {"observed", Number(w.observed)},
          {"bound", Number(w.bound)}};
}

Json CountsJson(const std::map<VerdictKind, int64_t>& counts) {
  Json json = Json::object();
  for (const auto& [kind, count] : counts) json[std::string(Name(kind))] = count;
  return json;
}

Json FiguresJson(const ErrorFigures& figures) {
  return {{"probable_ratio", Number(figures.probable_ratio)},
          {"rms", Number(figures.rms)},
          {"bias", Number(figures.bias)},
          {"plain_ratio", Number(figures.plain_ratio)}};
}

Json LadderJson(const KernelReport& kernel) {
  const Ladder ladder = LadderOf(kernel);
  Json json;
  json["highest"] = ladder.held == 0 ? Json() : Json(Name(ladder.rungs[ladder.held - 1].rung));
  json["held"] = ladder.held - ladder.not_offered;
  json["rungs"] = Json::array();
  for (const RungReport& rung : ladder.rungs) {
    json["rungs"].push_back({{"rung", Name(rung.rung)},
                             {"state", Name(rung.state)},
                             {"cases", rung.cases},
                             {"marginal", rung.marginal},
                             {"why", rung.why}});
  }
  if (ladder.witness) {
    const ReportedFinding& witness = kernel.findings[*ladder.witness];
    json["witness"] = {{"signature", ToString(witness.finding.signature)},
                       {"sentence", witness.finding.verdict.sentence},
                       {"case_file", witness.file},
                       {"replay", witness.command}};
  }
  return json;
}

// Which findings the report shows whole, and which others the cause of each explains.
Json GroupsJson(const KernelReport& kernel) {
  const auto signatures = [](const auto& findings) {
    Json list = Json::array();
    for (const ReportedFinding* one : findings) list.push_back(ToString(one->finding.signature));
    return list;
  };
  Json groups = Json::array();
  for (const FindingGroup& group : GroupsOf(kernel)) {
    groups.push_back({{"class", group.kind},
                      {"shown", ToString(group.shown().finding.signature)},
                      {"findings", signatures(group.findings)},
                      {"not_alone", signatures(group.not_alone)},
                      {"unexplained", signatures(group.unexplained)}});
  }
  return groups;
}

Json KernelSummary(const KernelReport& kernel) {
  std::map<VerdictKind, int64_t> verdicts;
  BinCounts bins;
  for (const PropertyResult& result : kernel.results) {
    ++verdicts[result.verdict];
    bins.Merge(result.bins);
  }
  const auto cases = static_cast<double>(CasesRun(kernel));
  Json json = {{"kernel", kernel.kernel}, {"optional", kernel.optional}};
  if (!kernel.skipped.empty()) json["skipped"] = kernel.skipped;
  const bool is_kernel = kernel.skipped.empty() && !kernel.is_model;
  if (is_kernel) json["ladder"] = LadderJson(kernel);
  json["verdicts"] = CountsJson(verdicts);
  json["findings"] = kernel.findings.size();
  json["findings_waived"] = CountWaived(kernel);
  json["finding_groups"] = GroupsJson(kernel);
  json["idle_waivers"] = kernel.idle_waivers;
  json["notes"] = kernel.notes;
  json["cases"] = CasesRun(kernel);
  json["calls"] = kernel.stats.calls;
  json["round_trips"] = kernel.stats.round_trips;
  json["worker_restarts"] = kernel.stats.restarts;
  json["seconds"] = kernel.seconds;
  json["seconds_in_worker"] = kernel.stats.seconds_in_worker;
  json["cases_per_second"] = kernel.seconds > 0 ? cases / kernel.seconds : 0.0;
  if (is_kernel) json["bins_missing"] = bins.Missing(kernel.contract);
  return json;
}

}  // namespace

std::string RunLine(const RunReport& report) {
  const RunInfo& info = report.info;
  Json kernels = Json::array();
  for (const KernelReport& kernel : report.kernels) {
    Json one = {{"kernel", kernel.kernel}, {"optional", kernel.optional}};
    if (kernel.skipped.empty()) {
      one["name"] = kernel.identity.name;
      one["version"] = kernel.identity.version;
      one["contract"] = kernel.contract.name;
      one["contract_json"] = kernel.identity.contract_json;
      one["maps_views"] = kernel.identity.maps_views;
      if (kernel.is_model) one["is_model"] = true;
    } else {
      one["skipped"] = kernel.skipped;
    }
    kernels.push_back(std::move(one));
  }
  return Line({{"type", "run"},
               {"schema", kSchema},
               {"version", Version()},
               {"command", info.command},
               {"plan", info.plan},
               {"cases_per_property", info.cases_per_property},
               {"seed", info.seed},
               {"shard", {{"index", info.shard_index}, {"count", info.shard_count}}},
               {"joined", info.joined},
               {"incomplete", info.incomplete},
               {"held_to", info.held_to},
               {"strict", info.strict},
               {"open_options", info.open_options},
               {"properties", info.properties},
               {"kernels", std::move(kernels)}});
}

std::string FindingLine(const ReportedFinding& reported) {
  const Finding& f = reported.finding;
  Json json = {{"type", "finding"},
               {"kernel", f.kernel},
               {"signature", ToString(f.signature)},
               {"signature_version", Signature::kVersion},
               {"property", f.signature.property},
               {"cause", Name(f.signature.cause)},
               {"output", f.signature.output},
               {"class", f.signature.cause_class},
               {"verdict", Name(f.verdict.kind)},
               {"reason", f.verdict.reason},
               {"waived", reported.waived},
               {"sentence", f.verdict.sentence}};
  if (f.verdict.witness) json["witness"] = WitnessJson(*f.verdict.witness);
  json["call"] = f.verdict.call;
  json["likely_cause"] = f.verdict.likely_cause;
  json["other_causes"] = Json::array();
  for (const OtherCause& other : f.verdict.other_causes) {
    json["other_causes"].push_back({{"class", other.cause_class}, {"phrase", other.phrase}});
  }
  json["calls_before"] = f.before.size();
  if (reported.case_text.empty()) json["sizes"] = Sizes(f.smallest.problem);
  json["case"] = CaseFileText(reported);
  json["case_file"] = reported.file;
  json["replay"] = reported.command;
  json["cases_to_first"] = f.cases_to_first;
  if (!reported.found_by.empty()) {
    json["found_by"] = reported.found_by;
    json["kernel_cases"] = reported.kernel_cases;
    json["kernel_seconds"] = reported.kernel_seconds;
  }
  json["shrink_steps"] = f.shrink_steps;
  json["confirmed"] = f.confirmed;
  json["confirmations"] = f.confirmations;
  return Line(json);
}

std::string ResultLine(const PropertyResult& r) {
  return Line({{"type", "result"},
               {"kernel", r.kernel},
               {"property", r.property},
               {"verdict", Name(r.verdict)},
               {"waived", r.waived},
               {"reason", r.reason},
               {"cases", CountsJson(r.cases)},
               {"cases_run", r.cases_run()},
               {"cases_wanted", r.wanted},
               {"not_applicable", r.not_applicable},
               {"unsupported_reasons", r.unsupported_reasons},
               {"via_mask", r.via_mask},
               {"calls", r.calls},
               {"rows", r.rows},
               {"uninformative_rows", r.uninformative_rows},
               {"unconstrained_rows", r.unconstrained_rows},
               {"worst_ratio", Number(r.worst_ratio)},
               {"figures", FiguresJson(r.figures)},
               {"marginal_reasons", r.marginal_reasons},
               {"findings", r.findings.size()},
               {"cases_to_first", r.cases_to_first},
               {"first_cause", r.cases_to_first == 0 ? "" : Name(r.first_cause)},
               {"seconds", r.seconds},
               {"bins", r.bins.counts()}});
}

std::string SummaryLine(const RunReport& report, int exit_code, int64_t lines) {
  Json kernels = Json::array();
  for (const KernelReport& kernel : report.kernels) kernels.push_back(KernelSummary(kernel));
  return Line({{"type", "summary"},
               {"exit_code", exit_code},
               {"lines", lines},
               {"kernels", std::move(kernels)}});
}

}  // namespace attest
