#include "properties/harness/report/terminal.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/report/finding_groups.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/ladder.h"
#include "properties/harness/report/result_text.h"

namespace attest {
namespace {

std::string Cell(const PropertyResult* result) {
  return result == nullptr ? "-" : std::string(VerdictText(*result));
}

std::string PerSecond(const KernelReport& kernel) {
  return kernel.seconds > 0 ? fmt::format("{:.0f}", double(CasesRun(kernel)) / kernel.seconds)
                            : "-";
}

std::string Heading(const KernelReport& kernel) {
  const std::string what = kernel.skipped.empty()
                               ? fmt::format("{} {}, contract {}", kernel.identity.name,
                                             kernel.identity.version, ContractNameOf(kernel))
                               : "skipped: " + kernel.skipped;
  return fmt::format("{}{}: {}", kernel.kernel,
                     kernel.optional ? " (optional: does not decide the exit code)" : "", what);
}

// What comes first of a kernel: who it is, its ladder, how near it comes to the reference.
std::string Head(const KernelReport& kernel) {
  std::string text = PrintableLine(Heading(kernel)) + "\n";
  if (!kernel.skipped.empty()) return text;
  if (!kernel.is_model) text += Indent("ladder: " + LadderText(kernel, LadderOf(kernel)), "  ");
  if (const std::string errors = ErrorsText(kernel); !errors.empty()) {
    text += fmt::format("  errors: {}\n", errors);
  }
  for (const std::string& note : kernel.notes) text += "  " + PrintableLine(note) + "\n";
  return Printable(text);
}

std::string Table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    table += line + "\n";
  }
  return table;
}

std::string Matrix(const RunReport& report, const std::vector<const KernelReport*>& kernels) {
  std::vector<std::vector<std::string>> rows(1, {""});
  for (const KernelReport* kernel : kernels) rows[0].push_back(PrintableLine(kernel->kernel));
  for (const std::string& property : PropertiesOf(report)) {
    std::vector<std::string> row{property};
    for (const KernelReport* kernel : kernels) row.push_back(Cell(ResultOf(*kernel, property)));
    rows.push_back(std::move(row));
  }
  std::vector<std::string> cases{"cases"}, rates{"cases/s"};
  for (const KernelReport* kernel : kernels) {
    cases.push_back(std::to_string(CasesRun(*kernel)));
    rates.push_back(PerSecond(*kernel));
  }
  rows.push_back(std::move(cases));
  rows.push_back(std::move(rates));
  return Table(rows);
}

std::string List(const KernelReport& kernel) {
  std::vector<std::vector<std::string>> rows{{"", "cases", "", ""}};
  for (const PropertyResult& r : kernel.results) {
    rows.push_back({std::string(VerdictText(r)), std::to_string(r.cases_run()), r.property,
                    PrintableLine(NotesText(r))});
  }
  // Loading, and starting again, is time of the worker alone.
  const double seconds = std::max(kernel.seconds, kernel.stats.seconds_in_worker);
  const double in_worker = seconds > 0 ? kernel.stats.seconds_in_worker / seconds : 0;
  return Table(rows) + fmt::format("{} cases/s; {:.0f} % of the time in the kernel's process\n",
                                   PerSecond(kernel), 100 * in_worker);
}

// Why a kernel's properties are anything but PASS or FAIL, one line a reason; the marginal ones by
// the kind of reason, each with its cases.
std::string Reasons(const KernelReport& kernel) {
  std::map<std::pair<VerdictKind, std::string>, std::vector<std::string>> groups;
  for (const PropertyResult& r : kernel.results) {
    if (r.verdict != VerdictKind::kMarginal && !r.reason.empty()) {
      groups[{r.verdict, r.reason}].push_back(r.property);
    }
    for (const auto& [reason, cases] : r.marginal_reasons) {
      groups[{VerdictKind::kMarginal, reason}].push_back(
          fmt::format("{} ({} of {} cases)", r.property, cases, r.cases_run()));
    }
  }
  std::string text;
  for (const auto& [key, properties] : groups) {
    text += PrintableLine(fmt::format("{}: {}: {}: {}", kernel.kernel, Name(key.first), key.second,
                                      fmt::join(properties, ", "))) +
            "\n";
  }
  return text;
}

// Rows that were no evidence, in properties that passed all the same; one line.
std::string IdleRows(const KernelReport& kernel) {
  std::vector<std::string> notes;
  for (const PropertyResult& r : kernel.results) {
    if (const std::string rows = RowsText(r); !rows.empty()) {
      notes.push_back(fmt::format("{} {}", r.property, rows));
    }
  }
  if (notes.empty()) return "";
  return PrintableLine(fmt::format("{}: {}", kernel.kernel, fmt::join(notes, "; "))) + "\n";
}

std::string MissingBins(const KernelReport& kernel) {
  if (kernel.is_model) return "";
  BinCounts all;
  for (const PropertyResult& result : kernel.results) all.Merge(result.bins);
  const std::vector<std::string> missing = all.Missing(kernel.contract);
  if (missing.empty()) return "";
  const std::string count = fmt::format("{}: {} of {} required bins never reached", kernel.kernel,
                                        missing.size(), RequiredBins(kernel.contract).size());
  // Bins are for whole runs: which of them some claims alone miss says nothing.
  if (const Ladder ladder = LadderOf(kernel); ladder.run < ladder.claims) {
    return fmt::format("{} by the {} of {} claims that were run\n", count, ladder.run,
                       ladder.claims);
  }
  return fmt::format("{}: {}\n", count, fmt::join(missing, " "));
}

std::string IdleWaivers(const KernelReport& kernel) {
  std::string text;
  for (const std::string& waiver : kernel.idle_waivers) {
    text += PrintableLine(fmt::format("{}: {}", kernel.kernel, waiver)) + "\n";
  }
  return text;
}

// Whether a signal has ended the run: then properties say how far they came.
bool IsInterrupted(const RunReport& report) {
  return std::ranges::any_of(report.kernels, [](const KernelReport& kernel) {
    return std::ranges::any_of(kernel.results, [](const PropertyResult& result) {
      return result.reason.find("interrupted") != std::string::npos;
    });
  });
}

std::string Closing(const RunReport& report) {
  int64_t cases = 0;
  int64_t findings = 0, on_optional = 0, all_waived = 0;
  for (const KernelReport& kernel : report.kernels) {
    cases += CasesRun(kernel);
    const int64_t waived = CountWaived(kernel);
    all_waived += waived;
    (kernel.optional ? on_optional : findings) += std::ssize(kernel.findings) - waived;
  }
  std::string text = fmt::format("{} cases, {} findings", cases, findings);
  if (on_optional > 0) {
    text += fmt::format(" (and {} on optional kernels, which do not decide)", on_optional);
  }
  if (all_waived > 0) text += fmt::format(", {} waived", all_waived);
  if (IsInterrupted(report)) text += "; interrupted before its end";
  text += fmt::format("; plan {}, seed {}", report.info.plan, report.info.seed);
  if (const std::string part = PartText(report.info); !part.empty()) text += ", " + part;
  return text + "\n";
}

// The finding that shows best whole, the claims of the others by name: their cases lie beside its
// own.
std::string GroupText(const FindingGroup& group) {
  std::string text = FindingText(group.shown());
  for (const std::string& line : RestOf(group)) text += fmt::format("  {}\n", line);
  return Printable(text);
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string printable = text;
  std::replace_if(
      printable.begin(), printable.end(),
      [](char c) { return (static_cast<unsigned char>(c) < 32 && c != '\n') || c == 127; }, '?');
  return printable;
}

std::string PrintableLine(const std::string& text) {
  std::string line = Printable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

std::string FindingsText(const RunReport& report) {
  std::string text;
  for (const bool optional : {false, true}) {
    for (const KernelReport& kernel : report.kernels) {
      if (kernel.optional != optional) continue;
      for (const FindingGroup& group : GroupsOf(kernel)) text += "\n" + GroupText(group);
    }
  }
  return text;
}

std::string TerminalReport(const RunReport& report) {
  std::vector<const KernelReport*> ran;
  std::string text;
  for (const KernelReport& kernel : report.kernels) {
    text += Head(kernel);
    if (kernel.skipped.empty()) ran.push_back(&kernel);
  }
  text += "\n";
  if (ran.size() == 1) text += List(*ran[0]);
  if (ran.size() > 1) text += Matrix(report, ran);
  std::string notes;
  for (const KernelReport* kernel : ran) {
    if (ran.size() > 1) notes += Reasons(*kernel) + IdleRows(*kernel);
    notes += MissingBins(*kernel) + IdleWaivers(*kernel);
  }
  if (!notes.empty()) text += "\n" + Printable(notes);
  return text + FindingsText(report) + "\n" + Closing(report);
}

}  // namespace attest
