#include "properties/harness/report/waivers.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/toml_reader.h"
#include "properties/property.h"

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

void ReadSignature(TomlReader& reader, const toml::table& table, const std::string& text,
                   Waiver& waiver) {
  const auto parts = Split(text, '/');
  if (parts.size() < 2 || parts.size() > 3 || parts[1].empty()) {
    return reader.FailAt(table, "signature: write property/cause or property/cause/output");
  }
  waiver.property = parts[0];
  waiver.cause = parts[1];
  if (parts.size() == 3) waiver.output = parts[2];
  if (FindProperty(waiver.property) == nullptr) {
    reader.FailAt(table, "signature: no property is called '" + waiver.property +
                             "'; 'attest list properties' shows them");
  }
}

Waiver ReadWaiver(TomlReader& reader, const toml::table& table) {
  reader.CheckKeys(table, "waiver", {"kernel", "versions", "signature", "reason"});
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
  return waiver;
}

bool IsAbout(const Waiver& waiver, const std::string& kernel, const std::string& version) {
  return fnmatch(waiver.kernel.c_str(), kernel.c_str(), 0) == 0 &&
         std::ranges::all_of(waiver.versions, [&](const VersionCondition& condition) {
           return Holds(condition, version);
         });
}

bool Names(const Waiver& waiver, const Signature& signature) {
  return waiver.property == signature.property && waiver.cause == Name(signature.cause) &&
         (waiver.output.empty() || waiver.output == signature.output);
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

void NoteIdle(const Waiver& waiver, KernelReport& kernel) {
  for (const PropertyResult& result : kernel.results) {
    if (result.property != waiver.property) continue;
    if (result.verdict != VerdictKind::kPass && result.verdict != VerdictKind::kMarginal) continue;
    kernel.idle_waivers.push_back(fmt::format(
        "unexpected {}: {} cases of {} without the waived {}{}{}: mended, or rarer than this plan",
        Name(result.verdict), result.cases_run(), waiver.property, waiver.cause,
        waiver.output.empty() ? "" : "/", waiver.output));
  }
}

}  // namespace

tl::expected<std::vector<Waiver>, std::string> ParseWaivers(std::string_view text,
                                                            std::string_view path) {
  toml::table root;
  try {
    root = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return tl::unexpected(
        fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
  }
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
    return tl::unexpected(path + ": is a folder; name a file of waivers");
  }
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return tl::unexpected(path + ": cannot be read");
  return ParseWaivers(text.str(), path);
}

std::string ReasonToWaive(const std::vector<Waiver>& waivers, const std::string& kernel,
                          const std::string& version, const Signature& signature) {
  const auto waiver = std::ranges::find_if(waivers, [&](const Waiver& candidate) {
    return IsAbout(candidate, kernel, version) && Names(candidate, signature);
  });
  return waiver == waivers.end() ? "" : waiver->reason;
}

void ApplyWaivers(const std::vector<Waiver>& waivers, KernelReport& kernel) {
  for (const Waiver& waiver : waivers) {
    if (!IsAbout(waiver, kernel.kernel, kernel.identity.version)) continue;
    const bool found = std::ranges::any_of(kernel.findings, [&](const ReportedFinding& reported) {
      return Names(waiver, reported.finding.signature);
    });
    if (!found) NoteIdle(waiver, kernel);
  }
  for (PropertyResult& result : kernel.results) result.waived = IsWaived(kernel, result);
}

}  // namespace attest
