#include "properties/harness/cli/arguments.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <system_error>

#include <fmt/format.h>

#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

// The whole of `text` as a number, or nullopt. No sign, no spaces.
template <typename T>
std::optional<T> WholeNumber(std::string_view text, int base = 10) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  return is_whole && !text.starts_with('-') ? std::optional(value) : std::nullopt;
}

template <typename Range, typename NameOf>
std::string Names(const Range& range, NameOf name_of) {
  std::vector<std::string_view> names;
  for (const auto& item : range) names.push_back(name_of(item));
  return fmt::format("{}", fmt::join(names, ", "));
}

// Those of a table whose id matches one of the shell patterns. `list` shows the table.
template <typename P>
tl::expected<std::vector<const P*>, std::string> Select(std::span<const P> table,
                                                        const std::vector<std::string>& patterns,
                                                        std::string_view list) {
  const auto matches = [](const P& property, const std::string& pattern) {
    return fnmatch(pattern.c_str(), std::string(property.id).c_str(), 0) == 0;
  };
  for (const std::string& pattern : patterns) {
    if (std::none_of(table.begin(), table.end(),
                     [&](const P& property) { return matches(property, pattern); })) {
      return tl::unexpected(fmt::format(
          "--property {}: matches no property: 'attest list {}' shows them", pattern, list));
    }
  }
  std::vector<const P*> selected;
  for (const P& property : table) {
    if (patterns.empty() ||
        std::any_of(patterns.begin(), patterns.end(),
                    [&](const std::string& pattern) { return matches(property, pattern); })) {
      selected.push_back(&property);
    }
  }
  return selected;
}

}  // namespace

tl::expected<std::chrono::seconds, std::string> ParseDuration(const std::string& text) {
  constexpr std::pair<char, int64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  for (const auto& [letter, seconds] : kUnits) {
    if (!text.ends_with(letter)) continue;
    const auto count = WholeNumber<int64_t>(std::string_view(text).substr(0, text.size() - 1));
    constexpr int64_t kLongest = 1'000'000;  // keeps the sum far from overflow
    if (count && *count >= 1 && *count <= kLongest) return std::chrono::seconds(*count * seconds);
  }
  return tl::unexpected(
      fmt::format("--for {}: no time: write a whole number and s, m, h or d, such as 5m", text));
}

tl::expected<std::pair<int64_t, int64_t>, std::string> ParseShard(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash != std::string::npos) {
    const auto index = WholeNumber<int32_t>(std::string_view(text).substr(0, slash));
    const auto count = WholeNumber<int32_t>(std::string_view(text).substr(slash + 1));
    if (index && count && *index < *count) return std::pair<int64_t, int64_t>(*index, *count);
  }
  return tl::unexpected(
      fmt::format("--shard {}: no shard: write i/n with 0 <= i < n, such as 0/4", text));
}

tl::expected<uint64_t, std::string> ParseSeed(const std::string& text) {
  const bool is_hex = text.starts_with("0x") || text.starts_with("0X");
  const std::string_view digits = std::string_view(text).substr(is_hex ? 2 : 0);
  if (const auto seed = WholeNumber<uint64_t>(digits, is_hex ? 16 : 10)) return *seed;
  return tl::unexpected(
      fmt::format("--seed {}: no seed: write a whole number from 0 to 2^64 - 1", text));
}

tl::expected<Plan, std::string> ParsePlan(const std::string& text) {
  if (const Plan* plan = FindPlan(text)) return *plan;
  return tl::unexpected(fmt::format("--plan {}: no such plan: choose one of {}", text,
                                    Names(Plans(), [](const Plan& plan) { return plan.name; })));
}

tl::expected<std::vector<const Property*>, std::string> SelectProperties(
    const std::vector<std::string>& patterns) {
  return Select(AllProperties(), patterns, "properties");
}

tl::expected<std::vector<const ModelProperty*>, std::string> SelectModelProperties(
    const std::vector<std::string>& patterns) {
  return Select(std::span<const ModelProperty>(AllModelProperties()), patterns, "model-properties");
}

tl::expected<const Property*, std::string> PropertyNamed(const std::string& id) {
  if (const Property* property = FindProperty(id)) return property;
  return tl::unexpected(
      fmt::format("{}: no such property: 'attest list properties' shows them", id));
}

tl::expected<Contract, std::string> ContractNamed(const std::string& name, bool strict,
                                                  const Contract& declared) {
  const auto& table = NamedContracts();
  const auto named = std::find_if(table.begin(), table.end(),
                                  [&](const NamedContract& entry) { return entry.name == name; });
  if (named == table.end()) {
    return tl::unexpected(
        fmt::format("--contract {}: no such contract: choose one of {}", name,
                    Names(table, [](const NamedContract& entry) { return entry.name; })));
  }
  auto contract = ParseContract(named->json);
  if (!contract) return contract;
  contract->name = name;
  if (strict) return contract;
  contract->features = declared.features;
  contract->dtypes = declared.dtypes;
  contract->layouts = declared.layouts;
  contract->strides = declared.strides;
  contract->far_strides = declared.far_strides;
  contract->min_alignment = declared.min_alignment;
  contract->limits = declared.limits;
  contract->numerics = declared.numerics;
  contract->options = declared.options;
  return contract;
}

}  // namespace attest
