#include "properties/harness/power/power_text.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/power/leave_out.h"

namespace attest {
namespace {

// A property that kills nothing which fewer others kill as well adds little.
constexpr int64_t kManyOthers = 20;

std::string Sizes(const Kill& kill) {
  if (kill.subject.is_model) return "-";
  const Problem& p = kill.smallest;
  return fmt::format("{}x{}/{}x{}/{}x{}/{}", p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len,
                     p.head_dim, p.value_dim);
}

std::string Share(int64_t part, int64_t whole) {
  return whole == 0 ? "-" : fmt::format("{}/{} ({} %)", part, whole, 100 * part / whole);
}

std::string CauseText(const Kill& kill) {
  if (kill.subject.causes.empty()) return kill.named;
  if (kill.named_rightly) return kill.named + " (right)";
  return kill.named + (kill.named_somewhere ? " (not first)" : " (WRONG)");
}

int64_t OwnKills(const Kill& kill) {
  return std::ranges::count_if(kill.by, IsOwnKill);
}

// The verdict on a subject: what ought to be killed is, or what ought not to.
std::string_view Word(const Kill& kill) {
  if (!kill.not_run.empty()) return "not run";
  if (kill.subject.sort == SubjectSort::kCorrect) return kill.by.empty() ? "passed" : "FALSE ALARM";
  return kill.first ? "killed" : "MISSED";
}

std::string Details(const Kill& kill) {
  std::string text =
      fmt::format("by {} after {} cases, {:.2f} s; smallest {}; cause {}; {} properties kill it",
                  kill.first->property, kill.first->cases, kill.first->seconds, Sizes(kill),
                  CauseText(kill), OwnKills(kill));
  if (const PropertyKill* best = Quickest(kill)) {
    text += fmt::format(", {} after {} of its cases", best->property, best->cases);
  }
  return text;
}

std::string GroupLine(const std::string& name, const GroupPower& group) {
  return fmt::format(
      "{:<9} killed {:<16} cases {:>6} {:>6}  seconds {:>6.2f} {:>6.2f}  of the quickest alone "
      "{:>4} {:>5}"
      "  elements {:>3}  cause {}\n",
      name, Share(group.killed, group.total), group.median_cases, group.worst_cases,
      group.median_seconds, group.worst_seconds, group.median_quickest, group.worst_quickest,
      group.median_elements, Share(group.named, group.asked));
}

std::string Notable(const PowerSummary& summary) {
  std::string text;
  std::vector<std::string> shared;
  for (const PropertyPower& power : summary.properties) {
    if (!power.alone.empty()) {
      text += fmt::format("only {} kills {}\n", power.property, fmt::join(power.alone, " "));
    }
    if (!power.kills.empty() && power.fewest_others > kManyOthers) {
      shared.push_back(fmt::format("{} ({})", power.property, power.fewest_others));
    }
  }
  if (shared.empty()) return text;
  return text +
         fmt::format(
             "each kill shared by more than {} other properties (by how many the rarest): {}\n",
             kManyOthers, fmt::join(shared, ", "));
}

// The letter of a property in the matrix: X kills by what it claims, f fails for a fault, . does not fail.
char Letter(const Kill& kill, const std::string& property) {
  const auto by = std::ranges::find(kill.by, property, &PropertyKill::property);
  if (by == kill.by.end()) return '.';
  return IsOwnKill(*by) ? 'X' : 'f';
}

std::string FamilyOf(std::string_view property) {
  return std::string(property.substr(0, property.find('.')));
}

// "family: claim claim claim", in the order of the letters.
std::string Legend(const PowerSummary& summary) {
  std::string text, family;
  for (const PropertyPower& power : summary.properties) {
    const std::string own = FamilyOf(power.property);
    if (own != family) text += fmt::format("{}- {}:", text.empty() ? "" : "\n", own);
    family = own;
    text += " " + power.property.substr(own.size() + 1);
  }
  return text + "\n";
}

std::string Letters(const PowerSummary& summary, const Kill& kill) {
  std::string text, family;
  for (const PropertyPower& power : summary.properties) {
    const std::string own = FamilyOf(power.property);
    if (!family.empty() && own != family) text += ' ';
    family = own;
    text += Letter(kill, power.property);
  }
  return text;
}

std::string TableRow(const Kill& kill) {
  if (!kill.first)
    return fmt::format("| {} | {} | {} | | | | | |\n", kill.subject.id, kill.subject.kind,
                       Word(kill));
  const PropertyKill* best = Quickest(kill);
  return fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", kill.subject.id,
                     kill.subject.kind, kill.first->property, kill.first->cases,
                     best == nullptr ? 0 : best->cases, Sizes(kill), CauseText(kill),
                     OwnKills(kill));
}

}  // namespace

std::string KillLine(const Kill& kill) {
  std::string line = fmt::format("{:<32} {:<8} {}", kill.subject.id, kill.subject.kind, Word(kill));
  if (!kill.not_run.empty()) line += ": " + kill.not_run;
  if (kill.first) line += " " + Details(kill);
  return line + "\n";
}

std::string SummaryText(const PowerInfo& info, const PowerSummary& summary) {
  std::string text =
      fmt::format("plan {}, seed {}; {:.1f} CPU seconds; cases, seconds: median and worst\n",
                  info.plan, info.seed, info.cpu_seconds);
  text += GroupLine("all", summary.all);
  for (const auto& [kind, group] : summary.kinds) text += GroupLine(kind, group);
  if (info.is_matrix) text += Notable(summary);
  for (const std::string& complaint : Complaints(info, summary)) text += complaint + "\n";
  return text;
}

std::vector<std::string> Complaints(const PowerInfo& info, const PowerSummary& summary) {
  std::vector<std::string> lines;
  const auto add = [&](const char* what, const std::vector<std::string>& ids) {
    if (!ids.empty()) lines.push_back(fmt::format("{}: {}", what, fmt::join(ids, " ")));
  };
  add("MISSED", summary.missed);
  add("FALSE ALARM on what is correct", summary.false_alarms);
  add("not run", summary.not_run);
  if (info.is_matrix) add("properties that kill nothing", summary.Idle());
  return lines;
}

std::string PowerMarkdown(const PowerInfo& info, const PowerSummary& summary,
                          const std::vector<Kill>& kills) {
  std::string text =
      fmt::format("# Kill matrix\n\n`{}`\n\n```\n{}```\n\n", info.command,
                  SummaryText(info, summary) +
                      (info.is_matrix && !info.is_of_models ? HeldOutText(kills, info.plan) : ""));
  text +=
      "| kernel | kind | first finding | cases to it | quickest property alone | smallest case | "
      "cause shown |"
      " properties |\n|---|---|---|---|---|---|---|---|\n";
  for (const Kill& kill : kills) text += TableRow(kill);
  text +=
      "\nSizes are batch x q_heads/kv_heads x q_len/kv_len x head_dim/value_dim.\n\n## Who kills "
      "what\n\n"
      "X: by what the property claims; f: the property fails as any would (unwritten, a crash); a "
      "group a "
      "family:\n\n" +
      Legend(summary) + "\n```\n";
  for (const Kill& kill : kills) {
    text += fmt::format("{:<32} {}\n", kill.subject.id, Letters(summary, kill));
  }
  return text + "```\n";
}

}  // namespace attest
