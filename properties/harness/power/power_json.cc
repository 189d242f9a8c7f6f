#include "properties/harness/power/power_json.h"

#include <nlohmann/json.hpp>

namespace attest {
namespace {

using Json = nlohmann::ordered_json;

std::string_view Name(SubjectSort sort) {
  switch (sort) {
    case SubjectSort::kFault:
      return "fault";
    case SubjectSort::kNull:
      return "null";
    case SubjectSort::kHostile:
      return "hostile";
    case SubjectSort::kCorrect:
      break;
  }
  return "correct";
}

Json KillersJson(const Kill& kill) {
  Json json = Json::array();
  for (const PropertyKill& by : kill.by) {
    json.push_back({{"property", by.property},
                    {"cause", attest::Name(by.cause)},
                    {"own", IsOwnKill(by)},
                    {"cases", by.cases}});
  }
  return json;
}

Json SubjectJson(const Kill& kill) {
  const Subject& subject = kill.subject;
  Json json = {{"type", "subject"},
               {"kernel", subject.kernel},
               {"id", subject.id},
               {"sort", Name(subject.sort)},
               {"kind", subject.kind},
               {"not_run", kill.not_run},
               {"killed", kill.first.has_value()},
               {"seconds", kill.seconds}};
  if (kill.first) {
    json["first"] = {{"property", kill.first->property},
                     {"cases", kill.first->cases},
                     {"seconds", kill.first->seconds}};
    json["elements"] = Elements(kill.smallest);
    json["shown"] = kill.shown;
    json["cause"] = kill.named;
    json["causes"] = subject.causes;
    json["named_rightly"] = kill.named_rightly;
    json["named_somewhere"] = kill.named_somewhere;
  }
  json["by"] = KillersJson(kill);
  return json;
}

Json GroupJson(const GroupPower& group) {
  return {{"total", group.total},
          {"killed", group.killed},
          {"cases", {{"median", group.median_cases}, {"worst", group.worst_cases}}},
          {"seconds", {{"median", group.median_seconds}, {"worst", group.worst_seconds}}},
          {"quickest_alone", {{"median", group.median_quickest}, {"worst", group.worst_quickest}}},
          {"median_elements", group.median_elements},
          {"asked", group.asked},
          {"named_rightly", group.named}};
}

Json SummaryJson(const PowerInfo& info, const PowerSummary& summary, int exit_code) {
  Json json = {{"type", "summary"},
               {"exit_code", exit_code},
               {"cpu_seconds", info.cpu_seconds},
               {"all", GroupJson(summary.all)},
               {"kinds", Json::object()},
               {"missed", summary.missed},
               {"false_alarms", summary.false_alarms},
               {"not_run", summary.not_run}};
  for (const auto& [kind, group] : summary.kinds) json["kinds"][kind] = GroupJson(group);
  if (info.is_matrix) json["idle"] = summary.Idle();
  return json;
}

}  // namespace

std::string PowerJsonLines(const PowerInfo& info, const PowerSummary& summary,
                           const std::vector<Kill>& kills, int exit_code) {
  const Json head = {{"type", "power"},   {"schema", 1},       {"command", info.command},
                     {"plan", info.plan}, {"seed", info.seed}, {"matrix", info.is_matrix}};
  std::string text = head.dump() + "\n";
  for (const Kill& kill : kills) text += SubjectJson(kill).dump() + "\n";
  for (const PropertyPower& power : summary.properties) {
    if (!info.is_matrix) break;
    const Json line = {{"type", "property"},
                       {"property", power.property},
                       {"kills", power.kills},
                       {"alone", power.alone},
                       {"fewest_others", power.fewest_others}};
    text += line.dump() + "\n";
  }
  return text + SummaryJson(info, summary, exit_code).dump() + "\n";
}

}  // namespace attest
