#include "properties/harness/report/junit.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "properties/harness/report/finding_groups.h"
#include "properties/harness/report/finding_text.h"
#include "properties/harness/report/ladder.h"
#include "properties/harness/report/result_text.h"
#include "properties/harness/report/terminal.h"

namespace attest {
namespace {

// XML 1.0 has no way to write control characters, escaped or not, and readers refuse bytes that are
// no UTF-8; neither carries meaning here.
std::string XmlText(const std::string& text) {
  std::string clean = Printable(text);
  std::replace_if(
      clean.begin(), clean.end(), [](char c) { return static_cast<unsigned char>(c) > 126; }, '?');
  return clean;
}

void Set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(XmlText(value).c_str());
}

void AddChild(pugi::xml_node parent, const char* tag, std::string_view type,
              const std::string& message, const std::string& body) {
  pugi::xml_node child = parent.append_child(tag);
  Set(child, "type", std::string(type));
  Set(child, "message", message);
  if (!body.empty()) child.append_child(pugi::node_pcdata).set_value(XmlText(body).c_str());
}

pugi::xml_node AddTest(pugi::xml_node suite, const KernelReport& kernel,
                       const std::string& property, double seconds) {
  pugi::xml_node test = suite.append_child("testcase");
  Set(test, "classname", kernel.kernel);
  Set(test, "name", property);
  Set(test, "time", fmt::format("{:.3f}", seconds));
  return test;
}

std::vector<const ReportedFinding*> FindingsOf(const KernelReport& kernel,
                                               const std::string& property) {
  std::vector<const ReportedFinding*> own;
  for (const ReportedFinding& reported : kernel.findings) {
    if (reported.finding.signature.property == property && reported.waived.empty() &&
        reported.finding.verdict.kind == VerdictKind::kFail) {
      own.push_back(&reported);
    }
  }
  return own;
}

// "of one cause with a.b/value/out/scale: ..." of a finding that a group does not show; a line.
std::string SharedCauseText(const std::vector<FindingGroup>& groups,
                            const ReportedFinding& reported) {
  for (const FindingGroup& group : groups) {
    const Finding& shown = group.shown().finding;
    if (&group.shown() == &reported || std::ranges::count(group.findings, &reported) == 0) continue;
    return fmt::format("of one cause with {}: {}\n", ToString(shown.signature),
                       shown.verdict.likely_cause);
  }
  return "";
}

// One failure element a test, as readers expect; further findings follow in its text.
void AddFailure(pugi::xml_node test, const std::vector<const ReportedFinding*>& findings,
                const std::vector<FindingGroup>& groups, const std::string& reason) {
  std::string body;
  for (const ReportedFinding* reported : findings) {
    body += SharedCauseText(groups, *reported) + FindingText(*reported) + "\n";
  }
  AddChild(test, "failure", Name(VerdictKind::kFail),
           findings.empty() ? reason : findings[0]->finding.verdict.sentence, body);
}

// Whether the finding is shown but fails nothing: flaky or waived.
bool IsAside(const ReportedFinding& reported) {
  return !reported.waived.empty() || reported.finding.verdict.kind == VerdictKind::kInconclusive;
}

// The texts of findings that are no failures.
std::string FindingsAside(const KernelReport& kernel, const std::string& property) {
  std::string body;
  for (const ReportedFinding& reported : kernel.findings) {
    if (reported.finding.signature.property != property) continue;
    if (IsAside(reported)) body += FindingText(reported) + "\n";
  }
  return body;
}

void AddSystemOut(pugi::xml_node node, const std::string& text) {
  if (text.empty()) return;
  node.append_child("system-out").append_child(pugi::node_pcdata).set_value(XmlText(text).c_str());
}

struct Totals {
  int tests = 0, failures = 0, errors = 0, skipped = 0;
};

void AddResult(pugi::xml_node suite, const KernelReport& kernel,
               const std::vector<FindingGroup>& groups, const PropertyResult& result,
               Totals& totals) {
  pugi::xml_node test = AddTest(suite, kernel, result.property, result.seconds);
  ++totals.tests;
  if (result.waived) {
    AddSystemOut(test, FindingsAside(kernel, result.property));
    return;
  }
  if (result.verdict == VerdictKind::kFail) {
    ++totals.failures;
    AddFailure(test, FindingsOf(kernel, result.property), groups, result.reason);
  } else if (result.verdict == VerdictKind::kInconclusive) {
    ++totals.errors;
    AddChild(test, "error", Name(result.verdict), result.reason,
             FindingsAside(kernel, result.property));
  } else if (result.verdict == VerdictKind::kUnsupported) {
    ++totals.skipped;
    AddChild(test, "skipped", Name(result.verdict), result.reason, "");
    return;  // the reason is all there is to say
  }
  AddSystemOut(test, NotesText(result));
}

// Findings under the name of a property that was not asked for still are failures.
void AddStrayFindings(pugi::xml_node suite, const KernelReport& kernel,
                      const std::vector<FindingGroup>& groups, Totals& totals) {
  for (const ReportedFinding& reported : kernel.findings) {
    const std::string& property = reported.finding.signature.property;
    const bool has_test =
        std::any_of(kernel.results.begin(), kernel.results.end(),
                    [&](const PropertyResult& r) { return r.property == property; });
    if (has_test || IsAside(reported)) continue;
    ++totals.tests;
    ++totals.failures;
    AddFailure(AddTest(suite, kernel, property, 0), {&reported}, groups, "");
  }
}

void AddProperty(pugi::xml_node properties, const std::string& name, const std::string& value) {
  pugi::xml_node property = properties.append_child("property");
  Set(property, "name", name);
  Set(property, "value", value);
}

// The head of the report; the ladder whole, to read, is in the suite's system-out.
void AddHead(pugi::xml_node suite, const KernelReport& kernel, const Ladder& ladder) {
  pugi::xml_node properties = suite.append_child("properties");
  AddProperty(properties, "ladder", HeldText(ladder));
  for (const RungReport& rung : ladder.rungs) {
    AddProperty(properties, fmt::format("ladder: {}", Name(rung.rung)),
                std::string(Name(rung.state)) + (rung.why.empty() ? "" : ": " + rung.why));
  }
  const std::string errors = ErrorsText(kernel);
  if (!errors.empty()) AddProperty(properties, "errors", errors);
}

void AddSuite(pugi::xml_node root, const KernelReport& kernel) {
  pugi::xml_node suite = root.append_child("testsuite");
  Set(suite, "name", kernel.kernel);
  Totals totals;
  const Ladder ladder = LadderOf(kernel);
  const bool is_kernel = kernel.skipped.empty() && !kernel.is_model;
  if (is_kernel) AddHead(suite, kernel, ladder);
  const std::vector<FindingGroup> groups = GroupsOf(kernel);
  for (const PropertyResult& result : kernel.results) {
    AddResult(suite, kernel, groups, result, totals);
  }
  AddStrayFindings(suite, kernel, groups, totals);
  if (!kernel.skipped.empty()) {
    ++totals.tests;
    ++totals.skipped;
    AddChild(AddTest(suite, kernel, "open", 0), "skipped", "SKIPPED", kernel.skipped, "");
  }
  if (is_kernel) AddSystemOut(suite, "ladder: " + LadderText(kernel, ladder));
  Set(suite, "tests", std::to_string(totals.tests));
  Set(suite, "failures", std::to_string(totals.failures));
  Set(suite, "errors", std::to_string(totals.errors));
  Set(suite, "skipped", std::to_string(totals.skipped));
  Set(suite, "time", fmt::format("{:.3f}", kernel.seconds));
}

}  // namespace

std::string JUnitText(const RunReport& report) {
  pugi::xml_document document;
  pugi::xml_node root = document.append_child("testsuites");
  Set(root, "name", "attest");
  for (const KernelReport& kernel : report.kernels) AddSuite(root, kernel);
  std::ostringstream text;
  document.save(text, "  ");
  return text.str();
}

}  // namespace attest
