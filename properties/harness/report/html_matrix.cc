#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/report/clean_text.h"
#include "properties/harness/report/html_parts.h"
#include "properties/harness/report/html_tree.h"
#include "properties/harness/report/ladder.h"
#include "properties/property.h"

namespace attest::html {
namespace {

// A longer name is read whole in the kernel's own part.
constexpr size_t kLongestName = 120;

// A kernel that was run, with its place in the report.
struct Column {
  size_t number;
  const KernelReport* kernel;
  Ladder ladder;
};

std::string FamilyOf(const std::string& property) {
  return property.substr(0, property.find('.'));
}

void AddGroupRow(pugi::xml_node body, const std::string& name, size_t columns) {
  pugi::xml_node row = Add(body, "tr", "group");
  AddHeader(row, "rowgroup", name);
  Set(Add(row, "td"), "colspan", std::to_string(columns + 1));
}

// The mark, as a link where there is something to see.
pugi::xml_node AddCell(pugi::xml_node row, const Mark& mark, const std::string& anchor) {
  pugi::xml_node cell = Add(row, "td", mark.style);
  if (anchor.empty()) {
    AddMark(cell, mark);
  } else {
    pugi::xml_node link = Add(cell, "a");
    Set(link, "href", "#" + anchor);
    AddMark(link, mark);
  }
  return cell;
}

void AddRung(pugi::xml_node body, size_t i, const std::vector<Column>& columns,
             const Anchors& anchors) {
  const Rung rung = columns[0].ladder.rungs[i].rung;
  pugi::xml_node row = Add(body, "tr");
  AddHeader(row, "row", fmt::format("{} {}", i + 1, Name(rung)));
  for (const Column& column : columns) {
    const RungReport& report = column.ladder.rungs[i];
    const auto& witness = column.ladder.witness;
    const bool is_witnessed =
        witness && RungBrokenBy(column.kernel->findings[*witness].finding) == rung;
    pugi::xml_node cell =
        AddCell(row, MarkOf(report.state),
                is_witnessed ? anchors.Finding(column.kernel->findings[*witness]) : "");
    if (report.cases > 0) AddText(cell, "small", std::to_string(report.cases));
  }
  AddText(row, "td", Meaning(rung), "claim");
}

void AddProperty(pugi::xml_node body, const std::string& id, const std::vector<Column>& columns,
                 const Anchors& anchors) {
  pugi::xml_node row = Add(body, "tr");
  AddHeader(row, "row", id);
  for (const Column& column : columns) {
    const PropertyResult* result = ResultOf(*column.kernel, id);
    if (result == nullptr) {
      AddText(row, "td", "not run", "none");
      continue;
    }
    pugi::xml_node cell = AddCell(row, MarkOf(*result), anchors.FindingOf(column.number, id));
    if (result->cases_run() > 0) AddText(cell, "small", std::to_string(result->cases_run()));
  }
  const Property* property = FindProperty(id);
  AddText(row, "td", property == nullptr ? "" : property->claim, "claim");
}

void AddHead(pugi::xml_node table, const std::vector<Column>& columns) {
  pugi::xml_node row = Add(Add(table, "thead"), "tr");
  AddHeader(row, "col", "property");
  for (const Column& column : columns) {
    AddLink(AddHeader(row, "col", ""), "#" + Anchors::Kernel(column.number),
            CleanText(column.kernel->kernel, kLongestName));
  }
  AddHeader(row, "col", "claim");
}

std::vector<Column> ColumnsOf(const RunReport& report) {
  std::vector<Column> columns;
  for (size_t i = 0; i < report.kernels.size(); ++i) {
    const KernelReport& kernel = report.kernels[i];
    if (kernel.skipped.empty()) columns.push_back({i, &kernel, LadderOf(kernel)});
  }
  return columns;
}

}  // namespace

void AddMatrix(pugi::xml_node main, const RunReport& report, const Anchors& anchors) {
  const std::vector<Column> columns = ColumnsOf(report);
  if (columns.empty()) {
    AddText(main, "p", "No kernel was run.");
    return;
  }
  pugi::xml_node table = AddTable(
      AddScrollBox(main, "Kernels by properties"),
      "Verdict, and the number of cases that ran and said something. A failure links to its "
      "finding.",
      "wide");
  AddHead(table, columns);
  pugi::xml_node body = Add(table, "tbody");
  AddGroupRow(body, "ladder", columns.size());
  for (size_t i = 0; i < columns[0].ladder.rungs.size(); ++i) AddRung(body, i, columns, anchors);
  std::string family;
  for (const std::string& id : PropertiesOf(report)) {
    if (FamilyOf(id) != family) {
      family = FamilyOf(id);
      body = Add(table, "tbody");
      AddGroupRow(body, family, columns.size());
    }
    AddProperty(body, id, columns, anchors);
  }
}

}  // namespace attest::html
