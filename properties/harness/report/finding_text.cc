#include "properties/harness/report/finding_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/case/shrink.h"
#include "properties/harness/case/tensor_shape.h"
#include "properties/harness/case/toml.h"
#include "properties/harness/report/picture.h"
#include "properties/harness/report/result_text.h"

namespace attest {
namespace {

// A longer case is read in its file.
constexpr int64_t kMaxCaseLines = 48;

bool IsSafe(char c) {
  const auto u = static_cast<unsigned char>(c);
  return u < 128 && (std::isalnum(u) != 0 || c == '_' || c == '.' || c == '-');
}

// Characters that shells and file systems disagree about become '-', and a hash keeps apart what
// that makes alike.
std::string FileNamePart(const std::string& text) {
  std::string part = text;
  std::replace_if(
      part.begin(), part.end(), [](char c) { return !IsSafe(c); }, '-');
  if (part.size() > 80) part.erase(0, part.size() - 80);  // file systems end at 255
  while (!part.empty() && (part.front() == '-' || part.front() == '.')) part.erase(0, 1);
  const bool is_plain = std::all_of(text.begin(), text.end(), [](char c) {
    return IsSafe(c) || c == ':' || c == '?' || c == '=';
  });
  if (is_plain && !part.empty()) return part;
  uint64_t hash = 0;
  for (const char c : text) hash = MixIn(hash, static_cast<unsigned char>(c));
  return fmt::format("{}-{:08x}", part, hash & 0xffffffffu);
}

// The case as in its file, without the head that repeats what the finding has said.
std::string CaseText(const ReportedFinding& reported) {
  std::string text = CaseFileText(reported);
  const char* begin = reported.case_text.empty() ? "[problem]" : "[case]";
  text.erase(0, std::min(text.find(begin), text.size()));
  const auto lines = std::count(text.begin(), text.end(), '\n');
  if (lines <= kMaxCaseLines) return text;
  size_t end = 0;
  for (int64_t line = 0; line < kMaxCaseLines; ++line) end = text.find('\n', end) + 1;
  return text.substr(0, end) + fmt::format("... {} more lines\n", lines - kMaxCaseLines);
}

// The sentence without the likely cause, which has a line of its own.
std::string BareSentence(const Verdict& verdict) {
  std::string sentence = verdict.sentence;
  const std::string tail = "; " + verdict.likely_cause;
  const size_t at = verdict.likely_cause.empty() ? sentence.npos : sentence.rfind(tail);
  if (at != sentence.npos) sentence.erase(at, tail.size());
  return sentence;
}

// The keys of a present, one a line: "key 1   past  <". Its witness is at [batch, kv head, key, lane].
std::string PresentPicture(const Case& c, const Verdict& verdict) {
  constexpr int64_t kMaxKeys = 32;  // a screen
  if (!verdict.witness || c.problem.kv_len > kMaxKeys) return "";
  const auto& at = verdict.witness->index;
  std::string picture =
      fmt::format("{} of batch item {}, kv head {}, key by key:\n", verdict.output, at[0], at[1]);
  for (int64_t key = 0; key < c.problem.kv_len; ++key) {
    picture += fmt::format("  key {:<3} {}{}\n", key, key < c.storage.past ? "past" : "new",
                           key == at[2] ? "  <" : "");
  }
  return picture;
}

}  // namespace

std::string CaseFileText(const Finding& finding) {
  CaseFile file;
  file.c = finding.smallest;
  file.property = finding.signature.property;
  file.kernel = finding.kernel;
  file.finding = finding.verdict.sentence;
  file.before = finding.before;
  return ToToml(file);
}

std::string CaseFileText(const ReportedFinding& reported) {
  return reported.case_text.empty() ? CaseFileText(reported.finding) : reported.case_text;
}

std::string CaseFileName(const Finding& finding) {
  std::string signature = ToString(finding.signature);
  std::replace(signature.begin(), signature.end(), '/', '.');
  return fmt::format("{}.{}.toml", FileNamePart(finding.kernel), signature);
}

std::string ShellQuote(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return IsSafe(c) || c == '/' || c == ':' || c == '=' || c == ',' || c == '@' || c == '+';
  });
  if (is_plain) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::optional<Row> WitnessRow(const Problem& problem, const Verdict& verdict) {
  // Of those that go by key there is no row to show.
  const bool is_by_key = verdict.output == "dk" || verdict.output == "dv" ||
                         verdict.output == "present_k" || verdict.output == "present_v" ||
                         verdict.output == "dsink";
  if (!verdict.witness || is_by_key) return std::nullopt;
  const auto& index = verdict.witness->index;
  const Row row{index[0], index[1], index[2]};
  // A property may have found its witness in a derived case of other sizes.
  const bool is_inside = row.batch >= 0 && row.batch < problem.batch && row.head >= 0 &&
                         row.head < problem.q_heads && row.query >= 0 && row.query < problem.q_len;
  return is_inside ? std::optional(row) : std::nullopt;
}

std::string PictureOf(const Case& at_fault, const Verdict& verdict) {
  if (verdict.output.starts_with("present_")) return PresentPicture(at_fault, verdict);
  const auto row = WitnessRow(at_fault.problem, verdict);
  const std::string picture = VisiblePicture(at_fault.problem, row);
  if (picture.empty()) return "";
  return fmt::format("what batch item {}, head {} sees (# visible, . hidden):\n{}",
                     row ? row->batch : 0, row ? row->head : 0, Indent(picture, "  "));
}

bool IsPlain(const Finding& finding) {
  const auto& witness = finding.verdict.witness;
  return witness && std::isfinite(witness->expected) && std::isfinite(witness->observed) &&
         !finding.derived;
}

bool ShowsBetter(const Finding& a, const Finding& b) {
  const auto rank = [](const Finding& finding) {
    const bool unnamed = finding.verdict.likely_cause.empty();
    // Faults have no witness, and none is plainer than another.
    const bool odd = finding.verdict.witness && !IsPlain(finding);
    // A refusal or a crash is best shown by the claim whose one call is the case itself.
    const bool derived =
        !finding.verdict.witness && finding.signature.property != "equivalence.matches_reference";
    return std::tuple(unnamed, derived, odd, CaseMeasure(finding.smallest), finding.signature);
  };
  return rank(a) < rank(b);
}

std::string DerivedCaseText(const Case& derived) {
  constexpr int64_t kShort = 200;  // elements: about a screen
  if (DataElements(derived.problem) > kShort) return "";
  CaseFile file;
  file.c = derived;
  file.c.origin.clear();
  return "the derived case that the value is from:\n" + Indent(ToToml(file), "  ");
}

std::string Indent(const std::string& text, const std::string& prefix) {
  std::string indented;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    indented += line.empty() ? "\n" : prefix + line + "\n";
    begin = end + 1;
  }
  return indented;
}

std::string FindingText(const ReportedFinding& reported) {
  const Finding& finding = reported.finding;
  std::string text = fmt::format("{} {}: {}\n", VerdictText(reported), finding.kernel,
                                 ToString(finding.signature));
  if (!reported.waived.empty()) text += fmt::format("  waived: {}\n", reported.waived);
  if (!finding.verdict.likely_cause.empty()) {
    text += fmt::format("  likely cause: {}\n", finding.verdict.likely_cause);
  }
  text += fmt::format("  {}\n", BareSentence(finding.verdict));
  text += fmt::format("  after {} cases; shrunk in {} tries; fails again in {} of {} reruns\n",
                      finding.cases_to_first, finding.shrink_steps, finding.confirmed,
                      finding.confirmations);
  text += "  the smallest case:\n" + Indent(CaseText(reported), "    ");
  if (finding.derived) text += Indent(DerivedCaseText(*finding.derived), "  ");
  const Case& at_fault = finding.derived ? *finding.derived : finding.smallest;
  const bool is_model = !reported.case_text.empty();
  text += Indent(is_model ? reported.picture : PictureOf(at_fault, finding.verdict), "  ");
  return text + fmt::format("  replay: {}\n", reported.command);
}

}  // namespace attest
