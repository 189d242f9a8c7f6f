#include "properties/harness/night/fuzz_figures.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace attest {
namespace {

// The number that the text begins with; 0 where it does not.
int64_t NumberAt(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void FuzzFigures::Add(const FuzzFigures& part) {
  executions += part.executions;
  seconds += part.seconds;
  bins = std::max(bins, part.bins);
  coverage = std::max(coverage, part.coverage);
  worst_ratio = std::max(worst_ratio, part.worst_ratio);
  worst_lse_ratio = std::max(worst_lse_ratio, part.worst_lse_ratio);
}

FuzzFigures FiguresOfStatus(std::string_view json) {
  FuzzFigures figures;
  const auto status = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!status.is_object()) return figures;
  try {
    figures.executions = status.value("executions", int64_t{0});
    figures.seconds = status.value("seconds", 0.0);
    figures.bins = status.value("bins", int64_t{0});
    figures.coverage = status.value("coverage", int64_t{0});
    figures.worst_ratio = status.value("worst_ratio", 0.0);
    figures.worst_lse_ratio = status.value("worst_lse_ratio", 0.0);
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return figures;
}

FuzzFigures FiguresOfLog(std::string_view log) {
  FuzzFigures figures;
  // "#128<tab>pulse  cov: 12 ft: 13 corp: ...": frames of a stack begin with # too.
  constexpr std::string_view kCoverage = " cov: ";
  const size_t at = log.rfind(kCoverage);
  if (at == log.npos) return figures;
  figures.coverage = NumberAt(log.substr(at + kCoverage.size()));
  const size_t line = log.rfind('#', at);
  if (line != log.npos) figures.executions = NumberAt(log.substr(line + 1));
  return figures;
}

FuzzFigures ReadFigures(const std::string& status_path, const std::string& log_path) {
  FuzzFigures figures = FiguresOfStatus(TailOf(status_path));
  const FuzzFigures logged = FiguresOfLog(TailOf(log_path));
  figures.coverage = std::max(figures.coverage, logged.coverage);
  figures.executions = std::max(figures.executions, logged.executions);
  return figures;
}

std::string ReasonOfEnd(std::string_view log) {
  constexpr std::array<std::string_view, 2> kMarks = {"ERROR: ", "runtime error: "};
  for (const std::string_view mark : kMarks) {
    const size_t at = log.find(mark);
    if (at == log.npos) continue;
    const std::string_view rest = log.substr(at + (mark == "ERROR: " ? mark.size() : 0));
    std::string reason(rest.substr(0, std::min(rest.find('\n'), size_t{160})));
    // Addresses differ from run to run.
    if (const size_t address = reason.find(" on "); address != reason.npos) reason.resize(address);
    return reason;
  }
  return "";
}

namespace {

// The text between `begin` and the next of `ends`; "" where there is no `begin`.
std::string_view Between(std::string_view text, std::string_view begin, std::string_view ends) {
  const size_t at = text.find(begin);
  if (at == text.npos) return "";
  text.remove_prefix(at + begin.size());
  return text.substr(0, text.find_first_of(ends));
}

// The function of the first frame in a stack that is the program's and not the sanitizer's or the C library's.
std::string_view FunctionIn(std::string_view log) {
  for (size_t at; (at = log.find("\n    #")) != log.npos;) {
    log.remove_prefix(at + 1);
    const std::string_view name = Between(log.substr(0, log.find('\n')), " in ", "( ");
    const bool is_ours = name.find("sanitizer") == name.npos && !name.starts_with("__") &&
                         !name.starts_with("fuzzer::") && name != "abort" && name != "raise" &&
                         name != "gsignal";
    if (!name.empty() && is_ours) return name;
  }
  return "";
}

// Words joined by '-', without numbers, for a signature.
std::string Slug(std::string_view text) {
  constexpr size_t kLongest = 100;
  std::string slug;
  for (const char c : text.substr(0, kLongest)) {
    const bool is_word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (is_word) slug += c;
    if (!is_word && !slug.empty() && slug.back() != '-') slug += '-';
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug;
}

// "heap-buffer-overflow", "signed integer overflow", "deadly signal": what the last line of a report and the
// line of an undefined behaviour say.
std::string_view KindOfEnd(std::string_view log) {
  constexpr std::string_view kUndefined = "runtime error: ";
  if (log.find(kUndefined) != log.npos) {
    const std::string_view what = Between(log, kUndefined, "\n");
    return what.substr(0, what.find_first_of(":0123456789"));
  }
  for (const std::string_view tool :
       {"AddressSanitizer: ", "LeakSanitizer: ", "MemorySanitizer: "}) {
    if (const auto kind = Between(log, tool, " \n("); !kind.empty()) return kind;
  }
  return Between(log, "libFuzzer: ", "\n(");
}

}  // namespace

std::string ClassOfEnd(std::string_view log) {
  const std::string_view kind = KindOfEnd(log);
  if (kind.empty()) return "";
  const std::string_view summary = Between(log, "SUMMARY: ", "\n");
  std::string_view where = Between(summary, " in ", "( ");
  if (where.empty()) where = FunctionIn(log);
  if (where.empty() && summary.find('/') != summary.npos) {
    where = summary.substr(summary.rfind('/') + 1);  // FILE:LINE:COLUMN
    where = where.substr(0, where.find(':'));
  }
  return Slug(where.empty() ? std::string(kind) : fmt::format("{} in {}", kind, where));
}

std::string TailOf(const std::string& path, size_t bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<size_t>(file.tellg());
  file.seekg(static_cast<std::streamoff>(size - std::min(size, bytes)));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string ToJson(const FuzzFigures& figures) {
  return nlohmann::ordered_json({{"executions", figures.executions},
                                 {"seconds", figures.seconds},
                                 {"bins", figures.bins},
                                 {"coverage", figures.coverage},
                                 {"worst_ratio", figures.worst_ratio},
                                 {"worst_lse_ratio", figures.worst_lse_ratio}})
      .dump();
}

}  // namespace attest
