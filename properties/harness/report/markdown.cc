#include "properties/harness/report/markdown.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/report/clean_text.h"
#include "properties/harness/report/finding_groups.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/ladder.h"
#include "properties/harness/report/verdict_mark.h"

namespace attest {
namespace {

constexpr size_t kLongestReport = 900000;
constexpr size_t kLongestLine = 2000;  // of a kernel's words
constexpr size_t kLongestName = 100;   // in a table's head
constexpr size_t kLongestFinding = 20000;

std::string TableRow(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string NameOf(const KernelReport& kernel) {
  return MarkdownText(CleanText(kernel.kernel, kLongestName));
}

std::vector<const KernelReport*> KernelsRun(const RunReport& report) {
  std::vector<const KernelReport*> run;
  for (const KernelReport& kernel : report.kernels) {
    if (kernel.skipped.empty()) run.push_back(&kernel);
  }
  return run;
}

std::string TableHead(const std::string& corner, const std::vector<const KernelReport*>& kernels) {
  std::vector<std::string> names{corner}, rules{"---"};
  for (const KernelReport* kernel : kernels) {
    names.push_back(NameOf(*kernel));
    rules.push_back("---");
  }
  return TableRow(names) + TableRow(rules);
}

// Those of a model are the lines of a picture, in which every character has its place.
std::string Notes(const KernelReport& kernel) {
  if (kernel.notes.empty()) return "";
  if (kernel.is_model) {
    return "\n" + MarkdownBlock(fmt::format("{}", fmt::join(kernel.notes, "\n"))) + "\n";
  }
  std::string text;
  for (const std::string& note : kernel.notes) {
    text += fmt::format("  - {}\n", MarkdownText(CleanText(note, kLongestLine)));
  }
  return text;
}

std::string Overview(const RunReport& report) {
  std::string text;
  for (const KernelReport& kernel : report.kernels) {
    if (!kernel.skipped.empty()) {
      text += fmt::format("- {}: skipped: {}\n", NameOf(kernel), MarkdownText(kernel.skipped));
      continue;
    }
    text += fmt::format("- {}{}: **{}**, {} {}, contract {}; holds {}; {} cases, {}\n",
                        NameOf(kernel), kernel.optional ? " (optional)" : "", Text(MarkOf(kernel)),
                        MarkdownText(kernel.identity.name), MarkdownText(kernel.identity.version),
                        MarkdownText(ContractNameOf(kernel)), HeldText(LadderOf(kernel)),
                        CasesRun(kernel), FindingsCount(kernel));
    text += Notes(kernel);
  }
  return text;
}

std::string Ladders(const std::vector<const KernelReport*>& kernels) {
  std::vector<Ladder> ladders;
  for (const KernelReport* kernel : kernels) ladders.push_back(LadderOf(*kernel));
  std::string text = TableHead("ladder", kernels);
  for (size_t i = 0; i < ladders.front().rungs.size(); ++i) {
    std::vector<std::string> row{std::string(Name(ladders.front().rungs[i].rung))};
    for (const Ladder& ladder : ladders) row.push_back(Text(MarkOf(ladder.rungs[i].state)));
    text += TableRow(row);
  }
  return text;
}

// How many of a family's properties have each verdict, the worst first.
std::string FamilyCell(const KernelReport& kernel, const std::string& family) {
  std::map<std::pair<VerdictKind, bool>, std::pair<Mark, int>> counts;
  for (const PropertyResult& result : kernel.results) {
    if (!result.property.starts_with(family + ".")) continue;
    auto& [mark, count] = counts[{result.verdict, result.waived}];
    mark = MarkOf(result);
    ++count;
  }
  std::vector<std::string> cells;
  for (const VerdictKind kind :
       {VerdictKind::kFail, VerdictKind::kInconclusive, VerdictKind::kMarginal, VerdictKind::kPass,
        VerdictKind::kUnsupported}) {
    for (const bool waived : {false, true}) {
      const auto found = counts.find({kind, waived});
      if (found == counts.end()) continue;
      cells.push_back(fmt::format("{} {}", found->second.second, Text(found->second.first)));
    }
  }
  return cells.empty() ? "not run" : fmt::format("{}", fmt::join(cells, ", "));
}

std::string Matrix(const RunReport& report, const std::vector<const KernelReport*>& kernels) {
  std::vector<std::string> families;
  for (const std::string& property : PropertiesOf(report)) {
    const std::string family = property.substr(0, property.find('.'));
    if (std::ranges::find(families, family) == families.end()) families.push_back(family);
  }
  std::string text = TableHead("properties", kernels);
  for (const std::string& family : families) {
    std::vector<std::string> row{MarkdownText(family)};
    for (const KernelReport* kernel : kernels) row.push_back(FamilyCell(*kernel, family));
    text += TableRow(row);
  }
  return text;
}

std::string FindingPart(const FindingGroup& group) {
  const ReportedFinding& reported = group.shown();
  std::string text =
      fmt::format("\n**{}** {}: {}\n\n{}\n\n", Text(MarkOf(reported)),
                  MarkdownText(CleanText(reported.finding.kernel, kLongestName)),
                  MarkdownText(ToString(reported.finding.signature)),
                  MarkdownText(CleanText(reported.finding.verdict.sentence, kLongestLine)));
  if (!reported.waived.empty()) text += "Waived: " + MarkdownText(reported.waived) + "\n\n";
  for (const std::string& line : RestOf(group)) text += MarkdownText(line) + "\n\n";
  text += "<details><summary>The finding whole, with its case</summary>\n\n";
  return text + MarkdownBlock(CleanText(FindingText(reported), kLongestFinding)) + "\n</details>\n";
}

std::string Findings(const RunReport& report, size_t room) {
  std::string text;
  size_t left_out = 0;
  for (const KernelReport& kernel : report.kernels) {
    for (const FindingGroup& group : GroupsOf(kernel)) {
      const std::string part = FindingPart(group);
      if (left_out > 0 || text.size() + part.size() > room) {
        left_out += group.findings.size() + group.unexplained.size() + group.not_alone.size();
      } else {
        text += part;
      }
    }
  }
  if (left_out > 0) text += fmt::format("\n{} more findings are in their case files.\n", left_out);
  return text;
}

}  // namespace

std::string MarkdownText(std::string_view text) {
  std::string line;
  for (const char c : CleanText(text, kLongestLine)) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t') {
      line += ' ';
    } else if (c == '<' || c == '>' || c == '&' || c == '@' || c == '|') {
      line += fmt::format("&#{};", int{u});  // also where backslashes are not enough: HTML, tables
    } else if (u < 128 && std::ispunct(u) != 0 && c != '.' && c != ',' && c != ';' && c != '/') {
      line += '\\';
      line += c;
    } else {
      line += c;
    }
  }
  return line;
}

std::string MarkdownBlock(std::string_view text) {
  const std::string clean = CleanText(text, kLongestFinding);
  size_t longest = 2, run = 0;
  for (const char c : clean) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fence + "text\n" + clean + (clean.ends_with('\n') ? "" : "\n") + fence + "\n";
}

std::string MarkdownReport(const RunReport& report) {
  const RunInfo& info = report.info;
  const int status = ExitCode(report);
  std::string text = fmt::format("## attest: {}\n\n", Text(MarkOf(report)));
  text += fmt::format("Exit status {}; plan {}, seed {}", status, info.plan, info.seed);
  if (const std::string part = PartText(info); !part.empty()) text += ", " + part;
  text += fmt::format("; attest {}\n\n", Version());
  text += Overview(report) + "\n";
  const auto kernels = KernelsRun(report);
  if (!kernels.empty() && !kernels.front()->is_model) text += Ladders(kernels) + "\n";
  if (!kernels.empty()) text += Matrix(report, kernels);
  const size_t room = kLongestReport > text.size() ? kLongestReport - text.size() : 0;
  return text + Findings(report, room);
}

}  // namespace attest
