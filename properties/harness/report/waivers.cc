#include "properties/harness/report/waivers.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/toml_reader.h"
#include "properties/property.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// < 0, 0 or > 0, as strcmp; a part that is missing is 0.
int CompareVersions(const std::string& a, const std::string& b) {
  const auto left = Split(a, '.'), right = Split(b, '.');
  for (size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const std::string x = i < left.size() ? left[i] : "0", y = i < right.size() ? right[i] : "0";
    const int order = IsNumber(x) && IsNumber(y) ? std::stoi(x) - std::stoi(y) : x.compare(y);
    if (order != 0) return order;
  }
  return 0;
}

bool Holds(const VersionCondition& condition, const std::string& version) {
  const int order = CompareVersions(version, condition.version);
  switch (condition.op) {
    case VersionCondition::Operator::kLess:
      return order < 0;
    case VersionCondition::Operator::kAtMost:
      return order <= 0;
    case VersionCondition::Operator::kMore:
      return order > 0;
    case VersionCondition::Operator::kAtLeast:
      return order >= 0;
    default:
      return order == 0;
  }
}

std::optional<VersionCondition> ParseCondition(std::string text) {
  using Operator = VersionCondition::Operator;
  VersionCondition condition;
  const std::pair<std::string_view, Operator> operators[] = {{"<=", Operator::kAtMost},
                                                             {">=", Operator::kAtLeast},
                                                             {"<", Operator::kLess},
                                                             {">", Operator::kMore},
                                                             {"=", Operator::kEqual}};
  bool is_signed = false;  // only then may a version start with a letter ("=b10256")
  for (const auto& [sign, op] : operators) {
    if (!text.starts_with(sign)) continue;
    is_signed = true;
    condition.op = op;
    text.erase(0, sign.size());
    break;
  }
  const auto start = static_cast<unsigned char>(text.empty() ? '=' : text[0]);
  if (std::isdigit(start) == 0 && (!is_signed || std::isalpha(start) == 0)) return std::nullopt;
  condition.version = text;
  return condition;
}

void ReadVersions(TomlReader& reader, const toml::table& table, const std::string& text,
                  Waiver& waiver) {
  if (text == "*") return;
  for (const std::string& part : Split(text, ' ')) {
    const auto condition = ParseCondition(part);
    if (!condition) {
      return reader.FailAt(
          table, "versions: '" + part + "' is no condition; write \">=1.28.2 <1.30\", or \"*\"");
    }
    waiver.versions.push_back(*condition);
  }
}

// The pattern's part before the first '/'.
std::string PropertyPattern(const std::string& signature) {
  return signature.substr(0, signature.find('/'));
}

bool Fits(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

// Parts that the pattern leaves out may be anything.
bool FitsSignature(const std::string& pattern, const Signature& signature) {
  const std::string text = ToString(signature);
  return Fits(pattern, text) || Fits(pattern + "/*", text);
}

template <typename Properties>
bool NamesAny(const Properties& properties, const std::string& pattern) {
  return std::ranges::any_of(
      properties, [&](const auto& property) { return Fits(pattern, std::string(property.id)); });
}

void ReadSignature(TomlReader& reader, const toml::table& table, const std::string& text,
                   Waiver& waiver) {
  const auto parts = Split(text, '/');
  if (parts.size() < 2 || parts.size() > 4 || parts[1].empty()) {
    return reader.FailAt(
        table,
        "signature: write property/cause/output/class, patterns or not; the last two "
        "may be left out");
  }
  waiver.signature = text;
  if (NamesAny(AllProperties(), parts[0])) waiver.when.emplace();
  if (NamesAny(AllModelProperties(), parts[0])) waiver.model_when.emplace();
  if (waiver.when || waiver.model_when) return;
  reader.FailAt(table, "signature: no property is called '" + parts[0] +
                           "'; 'attest list properties' and 'model-properties' show them");
}

// Adds the condition, or gives the conditions up where their cases have no such words. Returns the error then.
template <typename Condition>
std::string AddCondition(tl::expected<Condition, std::string> condition,
                         std::optional<std::vector<Condition>>& when) {
  if (!when) return "";
  if (condition) when->push_back(std::move(*condition));
  if (!condition) when.reset();
  return condition ? "" : condition.error();
}

void ReadConditions(TomlReader& reader, const toml::table& table, Waiver& waiver) {
  const toml::array* texts = reader.ArrayAt(table, "when", false);
  for (size_t n = 0; texts != nullptr && n < texts->size(); ++n) {
    const toml::node& node = *texts->get(n);
    const auto* text = node.as_string();
    if (text == nullptr) return reader.FailAt(node, "when: write texts, as \"causal\"");
    // A pattern may name properties of kernels and of models: the words say which are meant.
    const std::string of_kernels = AddCondition(ParseCaseCondition(text->get()), waiver.when);
    const std::string of_models = AddCondition(ParseModelCondition(text->get()), waiver.model_when);
    if (waiver.when || waiver.model_when) continue;
    return reader.FailAt(node, "when: " + (of_kernels.empty() ? of_models : of_kernels));
  }
}

Waiver ReadWaiver(TomlReader& reader, const toml::table& table) {
  reader.CheckKeys(table, "waiver", {"kernel", "versions", "signature", "when", "reason"});
  const auto text = [&](std::string_view key) {
    const std::string value = reader.String(table, key, true).value_or("");
    if (reader.ok() && value.empty()) reader.FailAt(table, fmt::format("{} is empty", key));
    return value;
  };
  Waiver waiver;
  waiver.kernel = text("kernel");
  waiver.reason = text("reason");
  const std::string versions = text("versions"), signature = text("signature");
  if (!reader.ok()) return waiver;
  ReadVersions(reader, table, versions, waiver);
  ReadSignature(reader, table, signature, waiver);
  ReadConditions(reader, table, waiver);
  return waiver;
}

bool IsAbout(const Waiver& waiver, const std::string& kernel, const std::string& version) {
  return Fits(waiver.kernel, kernel) &&
         std::ranges::all_of(waiver.versions, [&](const VersionCondition& condition) {
           return Holds(condition, version);
         });
}

// The case and what the property makes of it: the fault may lie in any of the calls.
std::vector<Case> CasesAround(const Signature& signature, const Case& failing,
                              const Contract& contract) {
  const Property* property = FindProperty(signature.property);
  std::vector<Case> cases;
  if (property != nullptr) cases = property->derive(failing, contract).cases;
  cases.push_back(failing);
  return cases;
}

bool HasTrigger(const Waiver& waiver, const std::vector<Case>& cases, const Verdict& verdict) {
  return std::ranges::any_of(cases, [&](const Case& c) {
    return std::ranges::all_of(*waiver.when,
                               [&](const CaseCondition& holds) { return holds(c, verdict); });
  });
}

// Whether the result failed, by waived findings alone.
bool IsWaived(const KernelReport& kernel, const PropertyResult& result) {
  if (result.verdict != VerdictKind::kFail) return false;
  size_t waived = 0, all = 0;
  for (const ReportedFinding& reported : kernel.findings) {
    if (reported.finding.signature.property != result.property) continue;
    if (reported.finding.verdict.kind != VerdictKind::kFail) continue;
    ++all;
    waived += reported.waived.empty() ? 0 : 1;
  }
  return all > 0 && waived == all;
}

// The ids of all properties that the pattern names, of kernels or of models.
std::vector<std::string> PropertiesNamed(const std::string& pattern, bool of_models) {
  std::vector<std::string> ids;
  const auto add = [&](const auto& properties) {
    for (const auto& property : properties) ids.emplace_back(property.id);
  };
  of_models ? add(AllModelProperties()) : add(AllProperties());
  std::erase_if(ids, [&](const std::string& id) { return !Fits(pattern, id); });
  return ids;
}

// The results of all properties that the waiver speaks of; empty where one was not run, or not whole.
std::vector<const PropertyResult*> WholeResults(const Waiver& waiver, const KernelReport& kernel) {
  std::vector<const PropertyResult*> results;
  const std::string pattern = PropertyPattern(waiver.signature);
  for (const std::string& id : PropertiesNamed(pattern, kernel.is_model)) {
    const PropertyResult* result = ResultOf(kernel, id);
    if (result == nullptr || result->verdict == VerdictKind::kInconclusive) return {};
    results.push_back(result);
  }
  return results;
}

void NoteIdle(const Waiver& waiver, KernelReport& kernel) {
  int64_t cases = 0;
  for (const PropertyResult* result : WholeResults(waiver, kernel)) cases += result->cases_run();
  if (cases == 0) return;
  kernel.idle_waivers.push_back(
      fmt::format("unexpected pass: {} cases without the waived {} ({}): mended, rarer than this "
                  "plan, or behind a waived fault of the same signatures",
                  cases, waiver.signature, waiver.reason));
}

}  // namespace

tl::expected<std::vector<Waiver>, std::string> ParseWaivers(std::string_view text,
                                                            std::string_view path) {
  const auto parsed = ParseTable(text, path);
  if (!parsed) return tl::unexpected(parsed.error());
  const toml::table& root = *parsed;
  TomlReader reader(path);
  reader.CheckKeys(root, "the file", {"waiver"});
  std::vector<Waiver> waivers;
  if (const toml::array* tables = reader.ArrayAt(root, "waiver", false)) {
    for (const toml::node& node : *tables) {
      const toml::table* table = node.as_table();
      if (table == nullptr) {
        reader.FailAt(node, "waiver: write [[waiver]] before each");
        break;
      }
      waivers.push_back(ReadWaiver(reader, *table));
    }
  }
  if (!reader.ok()) return tl::unexpected(reader.error());
  return waivers;
}

tl::expected<std::vector<Waiver>, std::string> ReadWaivers(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {  // it opens, and reads as if it were empty
    return tl::unexpected(
        fmt::format("--waivers {}: is a folder: name a file like corpus/waivers.toml", path));
  }
  std::ifstream file(path);
  if (!file) {
    return tl::unexpected(
        fmt::format("--waivers {}: cannot be read: {}: name a file like corpus/waivers.toml", path,
                    std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return ParseWaivers(text.str(), path);
}

std::string ReasonToWaive(const std::vector<Waiver>& waivers, const KernelReport& kernel,
                          const Signature& signature, const Case& failing, const Verdict& verdict) {
  std::optional<std::vector<Case>> cases;  // only where some waiver asks
  for (const Waiver& waiver : waivers) {
    if (!IsAbout(waiver, kernel.kernel, kernel.identity.version)) continue;
    if (!waiver.when || !FitsSignature(waiver.signature, signature)) continue;
    if (!cases) cases = CasesAround(signature, failing, kernel.contract);
    if (HasTrigger(waiver, *cases, verdict)) return waiver.reason;
  }
  return "";
}

std::string ReasonToWaive(const std::vector<Waiver>& waivers, const KernelReport& model,
                          const Signature& signature, const ModelCase& failing,
                          const Verdict& verdict) {
  for (const Waiver& waiver : waivers) {
    if (!IsAbout(waiver, model.kernel, model.identity.version)) continue;
    if (!waiver.model_when || !FitsSignature(waiver.signature, signature)) continue;
    const bool has_trigger = std::ranges::all_of(
        *waiver.model_when, [&](const ModelCondition& holds) { return holds(failing, verdict); });
    if (has_trigger) return waiver.reason;
  }
  return "";
}

void ApplyWaivers(const std::vector<Waiver>& waivers, KernelReport& kernel) {
  // Waivers that share a reason are of one fault, and one that is met speaks for all.
  std::set<std::string> met;
  for (const ReportedFinding& reported : kernel.findings) met.insert(reported.waived);
  for (const Waiver& waiver : waivers) {
    if (!IsAbout(waiver, kernel.kernel, kernel.identity.version)) continue;
    if (met.insert(waiver.reason).second) NoteIdle(waiver, kernel);
  }
  for (PropertyResult& result : kernel.results) result.waived = IsWaived(kernel, result);
}

}  // namespace attest
