#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/report/clean_text.h"
#include "properties/harness/report/html_parts.h"
#include "properties/harness/report/html_tree.h"
#include "properties/harness/report/ladder.h"
#include "properties/harness/report/result_text.h"

namespace attest::html {
namespace {

// Kernels write reasons too; a sentence is enough in a table.
constexpr size_t kLongestNote = 400, kLongestPicture = 20000;

void AddIdentity(pugi::xml_node article, const KernelReport& kernel) {
  pugi::xml_node facts = Add(article, "dl");
  AddFact(facts, "name", kernel.identity.name);
  AddFact(facts, "version", kernel.identity.version);
  AddFact(facts, "contract", kernel.contract.name);
  if (kernel.optional) AddFact(facts, "optional", "does not decide the exit status");
  if (kernel.identity.contract_json.empty()) return;
  AddText(AddDetails(article, "The contract as the kernel declares it"), "pre",
          kernel.identity.contract_json);
}

void AddCounts(pugi::xml_node article, const KernelReport& kernel) {
  int64_t rows = 0, uninformative = 0, unconstrained = 0, via_mask = 0;
  for (const PropertyResult& r : kernel.results) {
    rows += r.rows;
    uninformative += r.uninformative_rows;
    unconstrained += r.unconstrained_rows;
    via_mask += r.via_mask;
  }
  pugi::xml_node facts = Add(article, "dl");
  AddFact(facts, "cases", std::to_string(CasesRun(kernel)));
  AddFact(facts, "via mask", std::to_string(via_mask));
  AddFact(facts, "rows", std::to_string(rows));
  AddFact(facts, "uninformative", std::to_string(uninformative));
  AddFact(facts, "unconstrained", std::to_string(unconstrained));
  AddFact(facts, "calls", std::to_string(kernel.stats.calls));
  AddFact(facts, "worker restarts", std::to_string(kernel.stats.restarts));
  AddFact(facts, "seconds", fmt::format("{:.1f}", kernel.seconds));
  if (const std::string errors = ErrorsText(kernel); !errors.empty()) {
    AddFact(facts, "errors", errors);
  }
  if (kernel.is_model && !kernel.notes.empty()) {  // the lines of a picture
    AddText(article, "pre",
            CleanText(fmt::format("{}", fmt::join(kernel.notes, "\n")), kLongestPicture));
    return;
  }
  for (const std::string& note : kernel.notes)
    AddFact(facts, "note", CleanText(note, kLongestNote));
}

void AddLadder(pugi::xml_node article, const KernelReport& kernel) {
  const Ladder ladder = LadderOf(kernel);
  if (ladder.rungs.empty()) return;
  pugi::xml_node table =
      AddTable(AddScrollBox(article, "Ladder of " + kernel.kernel),
               (ladder.held == 0 ? "Holds " : "Holds up to ") + HeldText(ladder), "wide");
  pugi::xml_node head = Add(Add(table, "thead"), "tr");
  for (const char* name : {"rung", "state", "cases", "why"}) AddHeader(head, "col", name);
  pugi::xml_node body = Add(table, "tbody");
  for (const RungReport& rung : ladder.rungs) {
    pugi::xml_node row = Add(body, "tr");
    AddHeader(row, "row", Name(rung.rung));
    AddMark(Add(row, "td"), MarkOf(rung.state));
    AddText(row, "td", std::to_string(rung.cases), "num");
    std::string why = rung.why;
    if (why.empty() && rung.marginal > 0) why = fmt::format("marginal in {} cases", rung.marginal);
    AddText(row, "td", CleanText(why, kLongestNote));
  }
}

// Properties without a verdict, by the reason.
void AddNotTested(pugi::xml_node article, const KernelReport& kernel) {
  std::map<std::pair<VerdictKind, std::string>, std::vector<std::string>> reasons;
  for (const PropertyResult& r : kernel.results) {
    if (r.verdict == VerdictKind::kUnsupported || r.verdict == VerdictKind::kInconclusive) {
      reasons[{r.verdict, r.reason}].push_back(r.property);
    }
  }
  BinCounts bins;
  for (const PropertyResult& r : kernel.results) bins.Merge(r.bins);
  const std::vector<std::string> missing =
      kernel.is_model ? std::vector<std::string>{} : bins.Missing(kernel.contract);
  if (reasons.empty() && missing.empty()) return;
  AddText(article, "h4", "Not tested, and why");
  pugi::xml_node list = Add(article, "ul");
  for (const auto& [key, properties] : reasons) {
    pugi::xml_node item = Add(list, "li");
    AddMark(item, MarkOf(key.first));
    Write(item, fmt::format(" {}: ", CleanText(key.second, kLongestNote)));
    AddText(item, "span", fmt::format("{}", fmt::join(properties, ", ")), "soft");
  }
  if (missing.empty()) return;
  AddText(list, "li",
          fmt::format("{} of {} kinds of case were never drawn: {}", missing.size(),
                      RequiredBins(kernel.contract).size(), fmt::join(missing, " ")));
}

void AddResults(pugi::xml_node article, const KernelReport& kernel) {
  pugi::xml_node box =
      AddScrollBox(AddDetails(article, "All results"), "Results of " + kernel.kernel);
  pugi::xml_node table = AddTable(box, "What stands beside each verdict", "wide");
  pugi::xml_node head = Add(Add(table, "thead"), "tr");
  for (const char* name : {"property", "verdict", "cases", "rows", "seconds", "notes"}) {
    AddHeader(head, "col", name);
  }
  pugi::xml_node body = Add(table, "tbody");
  for (const PropertyResult& r : kernel.results) {
    pugi::xml_node row = Add(body, "tr");
    AddHeader(row, "row", r.property);
    AddMark(Add(row, "td"), MarkOf(r));
    AddText(row, "td", std::to_string(r.cases_run()), "num");
    AddText(row, "td", std::to_string(r.rows), "num");
    AddText(row, "td", fmt::format("{:.2f}", r.seconds), "num");
    AddText(row, "td", CleanText(NotesText(r), kLongestNote));
  }
}

}  // namespace

void AddKernel(pugi::xml_node main, const KernelReport& kernel, size_t number) {
  pugi::xml_node article = Add(main, "article");
  Set(article, "id", Anchors::Kernel(number));
  AddText(article, "h3", kernel.kernel);
  if (!kernel.skipped.empty()) {
    AddText(article, "p", "Skipped: " + kernel.skipped);
    return;
  }
  AddIdentity(article, kernel);
  AddCounts(article, kernel);
  AddLadder(article, kernel);
  AddNotTested(article, kernel);
  for (const std::string& waiver : kernel.idle_waivers) AddText(article, "p", waiver);
  AddResults(article, kernel);
}

}  // namespace attest::html
