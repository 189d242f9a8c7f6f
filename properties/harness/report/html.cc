#include "properties/harness/report/html.h"

#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "properties/harness/report/clean_text.h"
#include "properties/harness/report/html_parts.h"
#include "properties/harness/report/html_style.h"
#include "properties/harness/report/html_tree.h"
#include "properties/harness/report/ladder.h"

namespace attest {
namespace html {

// More is no page but a list, and the JSON lines are a better one.
constexpr size_t kMaxFindings = 300;

Anchors::Anchors(const RunReport& report) {
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    groups_.push_back(GroupsOf(report.kernels[i]));
    for (const FindingGroup& group : groups_.back()) {
      for (const auto* findings : {&group.findings, &group.not_alone, &group.unexplained}) {
        for (const ReportedFinding* reported : *findings) {
          if (++findings_ > kMaxFindings) continue;
          numbers_[reported] = findings_;
          firsts_.try_emplace({i, reported->finding.signature.property}, reported);
        }
      }
    }
  }
}

std::string Anchors::Kernel(size_t kernel) {
  return fmt::format("k{}", kernel + 1);
}

std::string Anchors::Finding(const ReportedFinding& reported) const {
  const auto found = numbers_.find(&reported);
  return found == numbers_.end() ? "" : fmt::format("f{}", found->second);
}

std::string Anchors::FindingOf(size_t kernel, const std::string& property) const {
  const auto found = firsts_.find({kernel, property});
  return found == firsts_.end() ? "" : Finding(*found->second);
}

namespace {

// The page may not ask anything of anybody: its own style is all it has.
constexpr std::string_view kHead = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
)html";

void AddRun(pugi::xml_node main, const RunReport& report, const Anchors& anchors) {
  const RunInfo& info = report.info;
  const int status = ExitCode(report);
  pugi::xml_node line = Add(main, "p");
  AddMark(line, MarkOf(report));
  Write(line, fmt::format(" (exit status {})", status));
  pugi::xml_node facts = Add(main, "dl");
  AddFact(facts, "findings", std::to_string(anchors.findings()));
  AddFact(facts, "plan",
          fmt::format("{}, {} cases a property", info.plan, info.cases_per_property));
  AddFact(facts, "seed", std::to_string(info.seed));
  if (const std::string part = PartText(info); !part.empty()) AddFact(facts, "part", part);
  AddFact(facts, "attest", Version());
  AddText(Add(main, "p"), "code", info.command);
}

// One line a kernel: what most readers came for.
void AddOverview(pugi::xml_node main, const RunReport& report, const Anchors& anchors) {
  pugi::xml_node table = AddTable(AddScrollBox(main, "Kernels"), "Kernels of this run", "wide");
  pugi::xml_node head = Add(Add(table, "thead"), "tr");
  for (const char* name : {"kernel", "result", "holds up to", "findings", "first broken by"}) {
    AddHeader(head, "col", name);
  }
  pugi::xml_node body = Add(table, "tbody");
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    const KernelReport& kernel = report.kernels[i];
    pugi::xml_node row = Add(body, "tr");
    AddLink(AddHeader(row, "row", ""), "#" + Anchors::Kernel(i), CleanText(kernel.kernel, 120));
    if (!kernel.skipped.empty()) {
      pugi::xml_node why = AddText(row, "td", "skipped: " + CleanText(kernel.skipped, 400), "none");
      Set(why, "colspan", "4");
      continue;
    }
    const Ladder ladder = LadderOf(kernel);
    pugi::xml_node result = Add(row, "td");
    AddMark(result, MarkOf(kernel));
    if (kernel.optional) Write(result, " (optional)");
    AddText(row, "td", HeldText(ladder));
    AddText(row, "td", FindingsCount(kernel), "num");
    pugi::xml_node witness = Add(row, "td");
    if (!ladder.witness) continue;
    const ReportedFinding& reported = kernel.findings[*ladder.witness];
    const std::string anchor = anchors.Finding(reported);
    const std::string signature = ToString(reported.finding.signature);
    if (anchor.empty()) {
      Write(witness, signature);
    } else {
      AddLink(witness, "#" + anchor, signature);
    }
  }
}

// The first of a group whole, the others behind one line.
void AddGroup(pugi::xml_node section, const FindingGroup& group, const Anchors& anchors,
              Budget& budget) {
  const std::string anchor = anchors.Finding(group.shown());
  if (anchor.empty()) return;
  AddFinding(section, group.shown(), anchor, budget);
  std::vector<std::string> lines = RestOf(group);
  for (const auto* findings : {&group.findings, &group.not_alone, &group.unexplained}) {
    pugi::xml_node rest;
    for (const ReportedFinding* reported : *findings) {
      const std::string other = anchors.Finding(*reported);
      if (reported == &group.shown() || other.empty()) continue;
      if (!rest) {
        rest = AddDetails(section, lines.front());
        lines.erase(lines.begin());
      }
      AddFinding(rest, *reported, other, budget);
    }
  }
}

void AddFindings(pugi::xml_node section, const RunReport& report, const Anchors& anchors) {
  if (anchors.findings() == 0) AddText(section, "p", "None.");
  Budget budget;
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    const auto& groups = anchors.GroupsOfKernel(i);
    if (groups.empty()) continue;
    AddText(section, "h3", CleanText(report.kernels[i].kernel, 200));
    for (const FindingGroup& group : groups) AddGroup(section, group, anchors, budget);
  }
  if (anchors.findings() > kMaxFindings) {
    AddText(section, "p",
            fmt::format("{} more findings: their case files lie beside this page.",
                        anchors.findings() - kMaxFindings));
  }
}

pugi::xml_node AddSection(pugi::xml_node main, const char* id, std::string_view title) {
  pugi::xml_node section = Add(main, "section");
  Set(section, "id", id);
  AddText(section, "h2", title);
  return section;
}

void AddBody(pugi::xml_node body, const RunReport& report) {
  const Anchors anchors(report);
  Set(AddLink(body, "#findings", "Skip to the findings"), "class", "skip");
  pugi::xml_node header = Add(body, "header");
  AddText(header, "h1", "attest: does it compute attention?");
  pugi::xml_node nav = Add(header, "nav");
  Set(nav, "aria-label", "Parts of this page");
  AddLink(nav, "#matrix", "Ladders and properties");
  AddLink(nav, "#findings", fmt::format("Findings ({})", anchors.findings()));
  AddLink(nav, "#kernels", "Kernels, and what was not tested");
  pugi::xml_node main = Add(body, "main");
  AddRun(main, report, anchors);
  AddOverview(main, report, anchors);
  AddMatrix(AddSection(main, "matrix", "Ladders and properties"), report, anchors);
  AddFindings(AddSection(main, "findings", "Findings"), report, anchors);
  pugi::xml_node kernels = AddSection(main, "kernels", "Kernels");
  for (size_t i = 0; i < report.kernels.size(); ++i) AddKernel(kernels, report.kernels[i], i);
}

// Empty elements keep their end tags, which HTML wants of all that are used here.
void Save(const pugi::xml_document& tree, std::ostream& text) {
  tree.save(text, "",
            pugi::format_raw | pugi::format_no_declaration | pugi::format_no_empty_element_tags);
}

std::string TitleOf(const RunReport& report) {
  std::string title = fmt::format("attest: {}", MarkOf(report).word);
  for (const KernelReport& kernel : report.kernels) title += " " + kernel.kernel;
  return CleanText(title, 200);
}

}  // namespace
}  // namespace html

std::string HtmlPage(const RunReport& report) {
  std::ostringstream text;
  text << html::kHead;
  pugi::xml_document title;
  html::AddText(title, "title", html::TitleOf(report));
  html::Save(title, text);
  text << "\n<style>" << html::kStyle << "</style>\n</head>\n";
  pugi::xml_document body;
  html::AddBody(html::Add(body, "body"), report);
  html::Save(body, text);
  text << "\n</html>\n";
  return text.str();
}

}  // namespace attest
