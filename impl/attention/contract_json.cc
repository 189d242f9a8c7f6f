#include "impl/attention/contract_json.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "impl/attention/contract_words.h"

namespace attest {
namespace {

using namespace contract_words;
using Json = nlohmann::ordered_json;

// A contract as a list of (path, value), whole: every field that the parser knows, in its order.
// "numerics.f16.scores" is the member scores of the member f16 of numerics.
using Fields = std::vector<std::pair<std::string, Json>>;

template <typename T>
Json WordJson(const Words<T>& words, const T& value) {
  return std::string(WordOf(words, value));
}

template <typename T>
Json SetJson(const Words<T>& words, const EnumSet<T>& set) {
  Json array = Json::array();
  for (const auto& [word, value] : words) {
    if (set.count(value) != 0) array.push_back(std::string(word));
  }
  return array;
}

Json MaskingValueJson(const std::optional<MaskingValue>& value) {
  if (!value) return "-inf";
  return Json{{value->is_added ? "add" : "replace", value->value}};
}

void AddConventions(const Contract& c, Fields& fields) {
  fields.emplace_back("mask_true_means", WordJson(kPolarities, c.mask_true_means));
  fields.emplace_back("causal_offset", SetJson(kCausalOffsets, c.causal_offset));
  fields.emplace_back("causal", WordJson(kCausalCalls, c.causal));
  fields.emplace_back("window_counts", WordJson(kWindowCounts, c.window_counts));
  fields.emplace_back("window_sides", WordJson(kWindowSides, c.window_sides));
  fields.emplace_back("excludes", SetJson(kExclusions, c.excludes));
  fields.emplace_back("empty_row", WordJson(kEmptyRows, c.semantics.empty_row));
  fields.emplace_back("lse", WordJson(kLseKinds, c.lse));
  fields.emplace_back("lse_empty_row", WordJson(kLseEmptyRows, c.semantics.lse_empty_row));
  fields.emplace_back("padded_query_rows", WordJson(kPaddedQueryRows, c.padded_query_rows));
  fields.emplace_back("softcap_order", WordJson(kSoftcapOrders, c.semantics.softcap_order));
  fields.emplace_back("masking_value", MaskingValueJson(c.masking_value));
  fields.emplace_back("poison_safe", SetJson(kPoisonPlaces, c.poison_safe));
  fields.emplace_back("visible_nan_propagates", c.visible_nan_propagates);
}

void AddOffers(const Contract& c, Fields& fields) {
  fields.emplace_back("features", SetJson(kFeatures, c.features));
  if (c.backward) fields.emplace_back("backward", SetJson(kFeatures, *c.backward));
  fields.emplace_back("scores", SetJson(kScoreModes, c.scores));
  fields.emplace_back("bits_invariant", SetJson(kInvariances, c.bits_invariant));
  fields.emplace_back("concurrent_calls", c.concurrent_calls);
  fields.emplace_back("dtypes", SetJson(kDTypes, c.dtypes));
  fields.emplace_back("fp8", SetJson(kFp8Formats, c.fp8));
  fields.emplace_back("layouts", SetJson(kLayouts, c.layouts));
  fields.emplace_back("strides", WordJson(kStrides, c.strides));
  fields.emplace_back("far_strides", c.far_strides);
  fields.emplace_back("min_alignment", c.min_alignment);
  fields.emplace_back("limits.max_batch", c.limits.max_batch);
  fields.emplace_back("limits.max_heads", c.limits.max_heads);
  fields.emplace_back("limits.max_q_len", c.limits.max_q_len);
  fields.emplace_back("limits.max_kv_len", c.limits.max_kv_len);
  fields.emplace_back("limits.max_head_dim", c.limits.max_head_dim);
  fields.emplace_back("limits.head_dim_multiple", c.limits.head_dim_multiple);
}

void AddNumerics(const Contract& c, Fields& fields) {
  for (const auto& [word, dtype] : kDTypes) {
    const NumericsProfile& n = c.NumericsOf(dtype);
    const std::string path = fmt::format("numerics.{}.", word);
    fields.emplace_back(path + "accumulate", WordJson(kDTypes, n.accumulate));
    fields.emplace_back(path + "scores", WordJson(kDTypes, n.scores));
    fields.emplace_back(path + "probability", WordJson(kDTypes, n.probability));
    fields.emplace_back(path + "scale_placement", WordJson(kScalePlacements, n.scale_placement));
    fields.emplace_back(path + "output_rounding", WordJson(kOutputRoundings, n.output_rounding));
    fields.emplace_back(path + "exp_ulp", n.exp_ulp);
    fields.emplace_back(path + "flush_to_zero", n.flush_to_zero);
    fields.emplace_back(path + "truncating_accumulators", n.truncating_accumulators);
    fields.emplace_back(path + "lse_of_rounded_weights", n.lse_of_rounded_weights);
    fields.emplace_back(path + "summation_block", n.summation_block);
  }
}

Fields FieldsOf(const Contract& c) {
  Fields fields;
  AddConventions(c, fields);
  AddOffers(c, fields);
  AddNumerics(c, fields);
  for (const auto& [key, values] : c.options) fields.emplace_back("options." + key, values);
  return fields;
}

const Json* Find(const Fields& fields, const std::string& path) {
  for (const auto& [name, value] : fields) {
    if (name == path) return &value;
  }
  return nullptr;
}

// Puts `value` where `path` says; an option's key is the rest of its path, dots and all.
void Insert(Json& object, std::string_view path, const Json& value) {
  Json* at = &object;
  size_t depth = path.starts_with("numerics.") ? 2 : path.find('.') != path.npos ? 1 : 0;
  for (; depth > 0; --depth) {
    const size_t dot = path.find('.');
    at = &(*at)[std::string(path.substr(0, dot))];
    path.remove_prefix(dot + 1);
  }
  (*at)[std::string(path)] = value;
}

std::vector<std::string> MembersWithout(const Json& set, const Json& other) {
  std::vector<std::string> members;
  for (const Json& member : set) {
    if (std::find(other.begin(), other.end(), member) == other.end()) {
      members.push_back(member.get<std::string>());
    }
  }
  return members;
}

std::string ValueText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

ContractDifference DifferenceOf(const std::string& field, const Json& a, const Json& b) {
  ContractDifference difference{field, "", "", {}, {}};
  if (a.is_array() && b.is_array()) {
    difference.only_a = MembersWithout(a, b);
    difference.only_b = MembersWithout(b, a);
  } else {
    difference.a = ValueText(a);
    difference.b = ValueText(b);
  }
  return difference;
}

}  // namespace

std::optional<Contract> PublishedContract(std::string_view name) {
  for (const NamedContract& named : NamedContracts()) {
    if (named.name != name) continue;
    auto contract = ParseContract(fmt::format(R"({{"contract": "{}"}})", name));
    if (contract) return std::move(*contract);
  }
  return std::nullopt;
}

std::string ContractJson(const Contract& contract) {
  const auto published = PublishedContract(contract.name);
  const Fields base = FieldsOf(published.value_or(Contract{}));
  Json object = Json::object();
  if (published) object["contract"] = contract.name;
  for (const auto& [path, value] : FieldsOf(contract)) {
    const Json* before = Find(base, path);
    if (before == nullptr || *before != value) Insert(object, path, value);
  }
  std::string text;
  for (const auto& [key, value] : object.items()) {
    text += fmt::format("{}\n  {}: {}", text.empty() ? "" : ",", Json(key).dump(), value.dump());
  }
  return "{" + text + "\n}";
}

std::vector<ContractDifference> DifferencesOf(const Contract& a, const Contract& b) {
  const Fields of_a = FieldsOf(a), of_b = FieldsOf(b);
  const Json none = Json::array();
  std::vector<ContractDifference> differences;
  for (const auto& [path, value] : of_a) {
    const Json* other = Find(of_b, path);
    if (other == nullptr) other = &none;
    if (*other != value) differences.push_back(DifferenceOf(path, value, *other));
  }
  for (const auto& [path, value] : of_b) {
    if (Find(of_a, path) == nullptr) differences.push_back(DifferenceOf(path, none, value));
  }
  return differences;
}

int64_t CountDifferences(const Contract& a, const Contract& b) {
  int64_t count = 0;
  for (const ContractDifference& difference : DifferencesOf(a, b)) {
    const size_t members = difference.only_a.size() + difference.only_b.size();
    count += members == 0 ? 1 : static_cast<int64_t>(members);
  }
  return count;
}

std::string SetChanges(const ContractDifference& difference) {
  std::string text;
  const auto add = [&](char sign, const std::vector<std::string>& members) {
    for (const std::string& member : members) {
      text += fmt::format("{}{}{}", text.empty() ? "" : " ", sign, member);
    }
  };
  add('+', difference.only_b);
  add('-', difference.only_a);
  return text;
}

}  // namespace attest
