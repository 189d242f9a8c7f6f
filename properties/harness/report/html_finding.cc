#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/report/case_view.h"
#include "properties/harness/report/clean_text.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/html_parts.h"
#include "properties/harness/report/html_tree.h"
#include "properties/harness/report/picture.h"

namespace attest::html {
namespace {

// A longer case is read in its file.
constexpr size_t kLongestCase = 8000;
// Of a fault it may carry what the kernel printed.
constexpr size_t kLongestSentence = 1000;

constexpr std::string_view kHere = "\xe2\x97\x80";  // points at the row
constexpr std::string_view kInfinity = "\xe2\x88\x9e";

std::string RowName(const Row& row) {
  return fmt::format("batch {}, head {}, query {}", row.batch, row.head, row.query);
}

pugi::xml_node AddFigure(pugi::xml_node pictures, const std::string& caption) {
  pugi::xml_node figure = Add(pictures, "figure");
  AddText(figure, "figcaption", caption);
  return figure;
}

// The table of a picture: a corner, then a column for each of `count` from `first` on.
pugi::xml_node AddGrid(pugi::xml_node figure, std::string_view style, const std::string& label,
                       const std::string& corner, int64_t first, size_t count) {
  pugi::xml_node table = Add(AddScrollBox(figure, label), "table", style);
  pugi::xml_node head = Add(Add(table, "thead"), "tr");
  AddHeader(head, "col", corner);
  for (size_t i = 0; i < count; ++i) {
    AddHeader(head, "col", std::to_string(first + static_cast<int64_t>(i)));
  }
  return Add(table, "tbody");
}

pugi::xml_node AddGridRow(pugi::xml_node body, std::string name, bool is_marked) {
  pugi::xml_node row = Add(body, "tr", is_marked ? "at" : "");
  if (is_marked) name += fmt::format(" {}", kHere);
  AddHeader(row, "row", name);
  return row;
}

void AddVisible(pugi::xml_node pictures, const VisibleGrid& grid) {
  std::string caption = fmt::format(
      "What batch item {}, head {} sees: rows are queries, columns keys; # visible, . "
      "hidden",
      grid.batch, grid.head);
  for (const char mark : LegendMarks(grid)) {
    caption += fmt::format(", {} {}", mark, MeaningOfMark(mark));
  }
  pugi::xml_node body = AddGrid(AddFigure(pictures, caption), "grid", "Visible keys", "", 0,
                                grid.lines.front().marks.size());
  for (size_t query = 0; query < grid.lines.size(); ++query) {
    const VisibleGrid::Line& line = grid.lines[query];
    pugi::xml_node row = AddGridRow(
        body, fmt::format("query {}{}", query, line.is_padding ? " padding" : ""), line.is_marked);
    for (const char mark : line.marks) {
      AddText(row, "td", std::string_view(&mark, 1), mark == '#' || mark == '+' ? "seen" : "off");
    }
  }
}

void AddRow(pugi::xml_node pictures, const RowView& view) {
  std::string caption = fmt::format("{} of {}, beside the reference; the row is {}", view.output,
                                    RowName(view.row), view.state);
  if (IsRightByItself(view)) {
    caption += "; by itself it is within the bound, the claim is about several calls";
  }
  pugi::xml_node figure = AddFigure(pictures, caption);
  pugi::xml_node table = Add(AddScrollBox(figure, "The row at fault"), "table", "list");
  pugi::xml_node head = Add(Add(table, "thead"), "tr");
  for (const char* name : {"lane", "reference", "observed", "error", "bound W", "error/W", "P"}) {
    AddHeader(head, "col", name);
  }
  pugi::xml_node body = Add(table, "tbody");
  for (const RowView::Lane& lane : view.lanes) {
    pugi::xml_node row = AddGridRow(body, std::to_string(lane.lane), lane.lane == view.marked_lane);
    for (const std::string& number :
         {fmt::format("{:.9g}", lane.expected), fmt::format("{:.9g}", lane.observed),
          fmt::format("{:.3g}", lane.error), fmt::format("{:.3g}", lane.worst),
          RatioText(lane.error == 0 ? 0 : lane.error / lane.worst),
          fmt::format("{:.3g}", lane.probable)}) {
      AddText(row, "td", number, "num");
    }
  }
}

void AddWeights(pugi::xml_node pictures, const WeightsView& view) {
  std::string caption = fmt::format("Weights of {}", RowName(view.row));
  if (view.is_read_off) caption += "; observed by running the case with V one-hot";
  pugi::xml_node figure = AddFigure(pictures, caption);
  pugi::xml_node table = Add(AddScrollBox(figure, "Weights"), "table", "list");
  pugi::xml_node head = Add(Add(table, "thead"), "tr");
  for (const char* name : {"key", "sees", "reference"}) AddHeader(head, "col", name);
  if (!view.observed.empty()) AddHeader(head, "col", "observed");
  pugi::xml_node body = Add(table, "tbody");
  for (size_t key = 0; key < view.expected.size(); ++key) {
    pugi::xml_node row = AddGridRow(body, std::to_string(key), false);
    AddText(row, "td", view.visible[key] ? "#" : ".", "num");
    AddText(row, "td", fmt::format("{:.6g}", view.expected[key]), "num");
    if (!view.observed.empty()) {
      AddText(row, "td", fmt::format("{:.6g}", view.observed[key]), "num");
    }
  }
}

// At most four characters.
std::string ShortRatio(double ratio) {
  if (std::isnan(ratio)) return "-";
  if (ratio == 0) return "0";
  if (std::isinf(ratio)) return std::string(kInfinity);
  if (ratio < 0.01) return "<.01";
  if (ratio <= 1) return fmt::format("{:.2f}", ratio);
  return ratio < 1000 ? fmt::format("{:.3g}", ratio) : ">999";
}

std::string_view StyleOf(double ratio) {
  if (std::isnan(ratio)) return "off";
  return ratio > 1 ? "over" : "";
}

void AddMap(pugi::xml_node pictures, const ErrorMap& map) {
  const size_t lanes = map.ratios.empty() ? 0 : map.ratios.front().size();
  std::string caption = fmt::format(
      "Error / bound of {}: rows are batch/head/query, columns lanes; above 1 is wrong, - nothing "
      "is due",
      map.output);
  if (std::ssize(map.rows) < map.rows_in_all || static_cast<int64_t>(lanes) < map.lanes_in_all) {
    caption += fmt::format("; a part of {} rows by {} lanes", map.rows_in_all, map.lanes_in_all);
  }
  pugi::xml_node body =
      AddGrid(AddFigure(pictures, caption), "grid", "Error over bound", "", map.first_lane, lanes);
  for (size_t i = 0; i < map.rows.size(); ++i) {
    const Row& at = map.rows[i];
    pugi::xml_node row = AddGridRow(body, fmt::format("{}/{}/{}", at.batch, at.head, at.query),
                                    at == map.marked_row);
    for (size_t lane = 0; lane < map.ratios[i].size(); ++lane) {
      std::string style(StyleOf(map.ratios[i][lane]));
      const bool is_marked =
          at == map.marked_row && map.first_lane + static_cast<int64_t>(lane) == map.marked_lane;
      if (is_marked) style += style.empty() ? "at" : " at";
      AddText(row, "td", ShortRatio(map.ratios[i][lane]), style);
    }
  }
}

size_t CellsOf(const CaseView& view) {
  const size_t lanes = view.map.ratios.empty() ? 0 : view.map.ratios.front().size();
  const size_t keys = view.weights ? view.weights->expected.size() : 0;
  return view.map.rows.size() * lanes + 7 * view.row.lanes.size() + 4 * keys;
}

bool Spend(size_t& left, size_t cost) {
  if (cost > left) return false;
  left -= cost;
  return true;
}

void AddPictures(pugi::xml_node article, const ReportedFinding& reported, Budget& budget) {
  if (!reported.picture.empty()) AddText(article, "pre", reported.picture);
  if (!reported.case_text.empty()) return;
  const Finding& finding = reported.finding;
  const Case& at_fault = finding.derived ? *finding.derived : finding.smallest;
  if (finding.verdict.output.starts_with("present_")) {
    const std::string picture = PictureOf(at_fault, finding.verdict);
    if (!picture.empty()) AddText(article, "pre", picture);
    return;
  }
  const Problem& problem = at_fault.problem;
  const auto grid = VisibleGridOf(problem, WitnessRow(problem, finding.verdict));
  size_t cells = grid ? grid->lines.size() * grid->lines.front().marks.size() : 0;
  if (reported.view) cells += CellsOf(*reported.view);
  if (cells == 0) return;
  if (!Spend(budget.cells, cells)) {
    AddText(article, "p", "No pictures: the page has many. The replay command prints them.",
            "soft");
    return;
  }
  pugi::xml_node pictures = Add(article, "div", "pictures");
  if (reported.view) AddRow(pictures, reported.view->row);
  if (grid) AddVisible(pictures, *grid);
  if (reported.view && reported.view->weights) AddWeights(pictures, *reported.view->weights);
  if (reported.view) AddMap(pictures, reported.view->map);
}

void AddCase(pugi::xml_node article, const ReportedFinding& reported, Budget& budget) {
  const std::string text = CaseFileText(reported);
  const std::string file = std::filesystem::path(reported.file).filename().string();
  if (text.size() > kLongestCase || !Spend(budget.bytes, text.size())) {
    AddText(article, "p", "The case is too long to be shown here: it is in its file.", "soft");
  } else {
    AddText(AddDetails(article, "The smallest case, as TOML", true), "pre", text);
  }
  if (reported.finding.derived) {
    const std::string derived = DerivedCaseText(*reported.finding.derived);
    if (!derived.empty() && Spend(budget.bytes, derived.size())) {
      AddText(AddDetails(article, "The derived case that the value is from"), "pre", derived);
    }
  }
  pugi::xml_node replay = AddText(article, "p", "Replay: ");
  AddText(replay, "code", reported.command);
  if (!file.empty()) {
    Write(replay, "; the case file is ");
    AddLink(replay, "./" + file, file);
  }
}

}  // namespace

void AddFinding(pugi::xml_node parent, const ReportedFinding& reported, const std::string& anchor,
                Budget& budget) {
  const Finding& finding = reported.finding;
  const Mark mark = MarkOf(reported);
  pugi::xml_node article = Add(parent, "article", fmt::format("finding {}", mark.style));
  Set(article, "id", anchor);
  pugi::xml_node heading = Add(article, "h4");
  AddMark(heading, mark);
  Write(heading, " " + ToString(finding.signature));
  AddText(article, "p", CleanText(finding.verdict.sentence, kLongestSentence));
  AddText(article, "p",
          fmt::format("On {}; after {} cases; shrunk in {} tries; fails again in {} of {} reruns",
                      CleanText(finding.kernel, 200), finding.cases_to_first, finding.shrink_steps,
                      finding.confirmed, finding.confirmations),
          "soft");
  if (!reported.waived.empty()) AddText(article, "p", "Waived: " + reported.waived);
  AddPictures(article, reported, budget);
  AddCase(article, reported, budget);
}

}  // namespace attest::html
