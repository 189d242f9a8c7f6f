#include "impl/attention/contract.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "impl/attention/contract_words.h"
#include "impl/attention/one_line.h"

namespace attest {
namespace {

using Json = nlohmann::json;
using Error = std::optional<std::string>;  // nullopt = fine

using namespace contract_words;

template <typename T>
std::string Choices(const Words<T>& words) {
  std::vector<std::string_view> names;
  for (const auto& word : words) names.push_back(word.first);
  return fmt::format("{}", fmt::join(names, ", "));
}

template <typename T>
Error ReadWord(const Json& json, std::string_view key, const Words<T>& words, T& target) {
  if (json.is_string()) {
    const std::string text = json.get<std::string>();
    for (const auto& [name, value] : words) {
      if (name == text) {
        target = value;
        return std::nullopt;
      }
    }
  }
  return fmt::format("{}: {} is not one of {}", key, json.dump(), Choices(words));
}

template <typename T>
Error ReadSet(const Json& json, std::string_view key, const Words<T>& words, EnumSet<T>& target) {
  if (!json.is_array()) return fmt::format("{} must be an array of: {}", key, Choices(words));
  EnumSet<T> values;
  for (const Json& item : json) {
    T value{};
    if (auto error = ReadWord(item, key, words, value)) return error;
    if (!values.insert(value)) return fmt::format("{}: {} comes twice", key, item.dump());
  }
  target = values;
  return std::nullopt;
}

Error ReadCount(const Json& json, std::string_view key, int64_t minimum, int64_t& target) {
  // A number above int64's range is an unsigned in nlohmann's eyes and would wrap.
  const bool fits = json.is_number_integer() &&
                    (!json.is_number_unsigned() || json.get<uint64_t>() <= uint64_t{INT64_MAX});
  if (!fits || json.get<int64_t>() < minimum) {
    return fmt::format("{}: {} is not an integer of at least {}", key, json.dump(), minimum);
  }
  target = json.get<int64_t>();
  return std::nullopt;
}

Error ReadAlignment(const Json& json, int64_t& target) {
  if (auto error = ReadCount(json, "min_alignment", 1, target)) return error;
  if ((target & (target - 1)) != 0 || target > 4096) {
    return fmt::format("min_alignment: {} is not a power of two up to 4096", target);
  }
  return std::nullopt;
}

using Reader = std::function<Error(const Json&, Contract&)>;
using Readers = std::vector<std::pair<std::string_view, Reader>>;

// Runs the reader of every key; an unknown key is an error that lists the known ones.
Error ReadKeys(const Json& json, std::string_view where, const Readers& readers,
               Contract& contract) {
  if (!json.is_object()) return fmt::format("{} must be a JSON object", where);
  for (const auto& [key, value] : json.items()) {
    const Reader* reader = nullptr;
    for (const auto& [name, candidate] : readers) {
      if (name == key) reader = &candidate;
    }
    if (reader == nullptr) {
      std::vector<std::string_view> names;
      for (const auto& known : readers) names.push_back(known.first);
      return fmt::format("unknown key \"{}\" in {}; known are {}", key, where,
                         fmt::join(names, ", "));
    }
    if (auto error = (*reader)(value, contract)) return error;
  }
  return std::nullopt;
}

Reader CountReader(std::string_view key, int64_t Limits::*field, int64_t minimum) {
  return
      [=](const Json& json, Contract& c) { return ReadCount(json, key, minimum, c.limits.*field); };
}

const Readers& LimitReaders() {
  static const Readers kReaders = {
      {"max_batch", CountReader("limits.max_batch", &Limits::max_batch, 0)},
      {"max_heads", CountReader("limits.max_heads", &Limits::max_heads, 0)},
      {"max_q_len", CountReader("limits.max_q_len", &Limits::max_q_len, 0)},
      {"max_kv_len", CountReader("limits.max_kv_len", &Limits::max_kv_len, 0)},
      {"max_head_dim", CountReader("limits.max_head_dim", &Limits::max_head_dim, 0)},
      {"head_dim_multiple",
       CountReader("limits.head_dim_multiple", &Limits::head_dim_multiple, 1)}};
  return kReaders;
}

Error ReadBool(const Json& json, std::string_view key, bool& target) {
  if (!json.is_boolean()) return fmt::format("{}: {} is not true or false", key, json.dump());
  target = json.get<bool>();
  return std::nullopt;
}

// One key of `numerics`, read into a profile.
using ProfileReader = std::function<Error(const Json&, std::string_view, NumericsProfile&)>;

template <typename T>
ProfileReader ProfileWord(const Words<T>& words, T NumericsProfile::*field) {
  return [&words, field](const Json& json, std::string_view key, NumericsProfile& profile) {
    return ReadWord(json, key, words, profile.*field);
  };
}

ProfileReader ProfileBool(bool NumericsProfile::*field) {
  return [field](const Json& json, std::string_view key, NumericsProfile& profile) {
    return ReadBool(json, key, profile.*field);
  };
}

Error ReadExpUlp(const Json& json, std::string_view key, NumericsProfile& profile) {
  if (!json.is_number() || !(json.get<double>() >= 0) || !(json.get<double>() <= 1e6)) {
    return fmt::format("{}: {} is not a number in 0..1e6", key, json.dump());
  }
  profile.exp_ulp = json.get<double>();
  return std::nullopt;
}

const std::vector<std::pair<std::string_view, ProfileReader>>& ProfileReaders() {
  using P = NumericsProfile;
  static const std::vector<std::pair<std::string_view, ProfileReader>> kReaders = {
      {"accumulate", ProfileWord(kDTypes, &P::accumulate)},
      {"scores", ProfileWord(kDTypes, &P::scores)},
      {"probability", ProfileWord(kDTypes, &P::probability)},
      {"scale_placement", ProfileWord(kScalePlacements, &P::scale_placement)},
      {"output_rounding", ProfileWord(kOutputRoundings, &P::output_rounding)},
      {"exp_ulp", ReadExpUlp},
      {"flush_to_zero", ProfileBool(&P::flush_to_zero)},
      {"truncating_accumulators", ProfileBool(&P::truncating_accumulators)},
      {"lse_of_rounded_weights", ProfileBool(&P::lse_of_rounded_weights)},
      {"summation_block", [](const Json& json, std::string_view key, P& profile) {
         return ReadCount(json, key, 0, profile.summation_block);
       }}};
  return kReaders;
}

// A key of a profile holds for every element type; one under "f16" for that type alone.
Readers MakeNumericsReaders(std::string_view where, const std::vector<DType>& dtypes) {
  Readers readers;
  for (const auto& [key, read] : ProfileReaders()) {
    readers.emplace_back(key, [path = fmt::format("{}.{}", where, key), read, dtypes](
                                  const Json& json, Contract& c) {
      Error error;
      for (const DType dtype : dtypes) error = read(json, path, c.numerics[dtype]);
      return error;
    });
  }
  return readers;
}

Error ReadNumerics(const Json& json, Contract& contract) {
  std::vector<DType> all;
  for (const auto& word : kDTypes) all.push_back(word.second);
  Json common = json, own = Json::object();
  // What is said of one type wins over what is said of all, whatever their order.
  for (const auto& [name, dtype] : kDTypes) {
    if (!json.is_object() || !json.contains(name)) continue;
    own[std::string(name)] = json.at(std::string(name));
    common.erase(std::string(name));
  }
  if (auto error = ReadKeys(common, "numerics", MakeNumericsReaders("numerics", all), contract)) {
    return *error + " (or an element type with such keys of its own)";
  }
  for (const auto& [name, dtype] : kDTypes) {
    if (!own.contains(name)) continue;
    const std::string where = fmt::format("numerics.{}", name);
    const Readers readers = MakeNumericsReaders(where, {dtype});
    if (auto error = ReadKeys(own.at(std::string(name)), where, readers, contract)) return error;
  }
  return std::nullopt;
}

Error ReadOptions(const Json& json, Contract& contract) {
  if (!json.is_object()) return "options must be an object of arrays of strings";
  for (const auto& [key, values] : json.items()) {
    std::vector<std::string>& target = contract.options[key];
    target.clear();
    if (!values.is_array()) return fmt::format("options.{} must be an array of strings", key);
    for (const Json& value : values) {
      if (!value.is_string())
        return fmt::format("options.{}: {} is not a string", key, value.dump());
      target.push_back(value.get<std::string>());
    }
  }
  return std::nullopt;
}

// "-inf", or {"replace": x} or {"add": x} for a finite stand-in.
Error ReadMaskingValue(const Json& json, Contract& contract) {
  if (json == "-inf") {
    contract.masking_value.reset();
    return std::nullopt;
  }
  for (const char* how : {"replace", "add"}) {
    if (!json.is_object() || json.size() != 1 || !json.contains(how)) continue;
    const Json& value = json[how];
    if (!value.is_number() || !(value.get<double>() < 0)) break;
    contract.masking_value = MaskingValue{value.get<double>(), std::string_view(how) == "add"};
    return std::nullopt;
  }
  return fmt::format(
      "masking_value: {} is not \"-inf\", {{\"replace\": x}} or {{\"add\": x}} with x below 0",
      json.dump());
}

template <typename T, typename Field>
Reader WordReader(std::string_view key, const Words<T>& words, Field field) {
  return [key, &words, field](const Json& json, Contract& c) {
    return ReadWord(json, key, words, field(c));
  };
}

template <typename T>
Reader SetReader(std::string_view key, const Words<T>& words, EnumSet<T> Contract::*field) {
  return [key, &words, field](const Json& json, Contract& c) {
    return ReadSet(json, key, words, c.*field);
  };
}

const Readers& ContractReaders() {
  static const Readers kReaders = {
      {"mask_true_means", WordReader(
                              "mask_true_means", kPolarities,
                              [](Contract & c) -> auto& { return c.mask_true_means; })},
      {"causal_offset", SetReader("causal_offset", kCausalOffsets, &Contract::causal_offset)},
      {"causal", WordReader(
                     "causal", kCausalCalls, [](Contract & c) -> auto& { return c.causal; })},
      {"window_counts",
       WordReader(
           "window_counts", kWindowCounts, [](Contract & c) -> auto& { return c.window_counts; })},
      {"window_sides",
       WordReader(
           "window_sides", kWindowSides, [](Contract & c) -> auto& { return c.window_sides; })},
      {"excludes", SetReader("excludes", kExclusions, &Contract::excludes)},
      {"empty_row",
       WordReader(
           "empty_row", kEmptyRows, [](Contract & c) -> auto& { return c.semantics.empty_row; })},
      {"lse", WordReader(
                  "lse", kLseKinds, [](Contract & c) -> auto& { return c.lse; })},
      {"lse_empty_row", WordReader(
                            "lse_empty_row", kLseEmptyRows,
                            [](Contract & c) -> auto& { return c.semantics.lse_empty_row; })},
      {"padded_query_rows", WordReader(
                                "padded_query_rows", kPaddedQueryRows,
                                [](Contract & c) -> auto& { return c.padded_query_rows; })},
      {"softcap_order", WordReader(
                            "softcap_order", kSoftcapOrders,
                            [](Contract & c) -> auto& { return c.semantics.softcap_order; })},
      {"masking_value", ReadMaskingValue},
      {"fp8", SetReader("fp8", kFp8Formats, &Contract::fp8)},
      {"scores", SetReader("scores", kScoreModes, &Contract::scores)},
      {"poison_safe", SetReader("poison_safe", kPoisonPlaces, &Contract::poison_safe)},
      {"visible_nan_propagates",
       [](const Json& json, Contract& c) {
         return ReadBool(json, "visible_nan_propagates", c.visible_nan_propagates);
       }},
      {"far_strides",
       [](const Json& json, Contract& c) { return ReadBool(json, "far_strides", c.far_strides); }},
      {"concurrent_calls",
       [](const Json& json, Contract& c) {
         return ReadBool(json, "concurrent_calls", c.concurrent_calls);
       }},
      {"features", SetReader("features", kFeatures, &Contract::features)},
      {"backward",
       [](const Json& json, Contract& c) {
         return ReadSet(json, "backward", kFeatures, c.backward.emplace());
       }},
      {"bits_invariant", SetReader("bits_invariant", kInvariances, &Contract::bits_invariant)},
      {"dtypes", SetReader("dtypes", kDTypes, &Contract::dtypes)},
      {"layouts", SetReader("layouts", kLayouts, &Contract::layouts)},
      {"strides", WordReader(
                      "strides", kStrides, [](Contract & c) -> auto& { return c.strides; })},
      {"min_alignment",
       [](const Json& json, Contract& c) { return ReadAlignment(json, c.min_alignment); }},
      {"limits",
       [](const Json& json, Contract& c) { return ReadKeys(json, "limits", LimitReaders(), c); }},
      {"numerics", ReadNumerics},
      {"options", ReadOptions}};
  return kReaders;
}

// Starts `contract` from the published one that `json` names, if any.
Error StartFromNamed(const Json& json, Contract& contract) {
  if (!json.is_string()) return fmt::format("contract: {} is not a string", json.dump());
  const std::string name = json.get<std::string>();
  std::vector<std::string_view> names;
  for (const NamedContract& named : NamedContracts()) {
    names.push_back(named.name);
    if (named.name != name) continue;
    contract.name = name;
    return ReadKeys(Json::parse(named.json), named.name, ContractReaders(), contract);
  }
  return fmt::format("contract: \"{}\" is not a published contract; known are {}", name,
                     fmt::join(names, ", "));
}

// Features that say nothing without another.
Error CheckIdleFeatures(const Contract& c) {
  using enum Feature;
  const std::pair<Feature, std::vector<Feature>> kNeeds[] = {
      // one of these
      {kPrefixLengths, {kCausal}},  {kMaskWithBias, {kMask}},
      {kMaskWithBias, {kBias}},     {kMaskBroadcast, {kMask, kBias}},
      {kMaskRanks, {kMask, kBias}}, {kMaskKeyBroadcast, {kMaskBroadcast}},
      {kBiasF32, {kBias}},          {kPresent, {kPast}}};
  for (const auto& [feature, needed] : kNeeds) {
    const auto is_offered = [&](Feature other) { return c.Has(other); };
    if (!c.Has(feature) || std::ranges::any_of(needed, is_offered)) continue;
    return fmt::format("features has {}, which says nothing without {}", WordOf(kFeatures, feature),
                       WordOf(kFeatures, needed.front()));
  }
  return std::nullopt;
}

// Gradients by more than q, k and v: words of backward alone, beside what they are the gradients of.
Error CheckGradients(const Contract& c) {
  using enum Feature;
  for (const auto& [gradient, of] : {std::pair{kBiasGradient, kBias}, {kSinkGradient, kSinks}}) {
    if (c.Has(gradient)) {
      return fmt::format("features has {}, which is a word of backward",
                         WordOf(kFeatures, gradient));
    }
    if (!c.HasBackward(gradient) || c.HasBackward(of)) continue;
    return fmt::format("backward has {}, which says nothing without {}",
                       WordOf(kFeatures, gradient), WordOf(kFeatures, of));
  }
  return std::nullopt;
}

// A backward call carries what a forward call carries, at most.
Error CheckBackward(const Contract& c) {
  using enum Feature;
  if (auto error = CheckGradients(c)) return error;
  if (!c.backward) return std::nullopt;
  if (c.IsAlwaysCausal() && !c.HasBackward(kCausal)) {
    return "causal is always, so backward must have causal";
  }
  for (const Feature feature : *c.backward) {
    if (feature == kBiasGradient || feature == kSinkGradient) continue;
    if (!c.Has(feature)) {
      return fmt::format("backward has {}, which features lacks", WordOf(kFeatures, feature));
    }
    for (const Feature never : {kWeights, kPast, kPresent, kPages, kRing}) {
      if (feature != never) continue;
      return fmt::format("backward has {}, but no backward call carries it",
                         WordOf(kFeatures, feature));
    }
  }
  return std::nullopt;
}

// Promises that contradict each other.
Error CheckConsistency(const Contract& c) {
  if (c.dtypes.empty()) return "dtypes is missing: name at least one of " + Choices(kDTypes);
  for (const Feature feature : {Feature::kCausal, Feature::kWindow}) {
    if (!c.Has(feature) || !c.causal_offset.empty()) continue;
    return fmt::format("features has {}, so causal_offset must name one of {}",
                       WordOf(kFeatures, feature), Choices(kCausalOffsets));
  }
  if (c.IsAlwaysCausal() && !c.Has(Feature::kCausal)) {
    return "causal is always, so features must have causal";
  }
  if (auto error = CheckBackward(c)) return error;
  return CheckIdleFeatures(c);
}

}  // namespace

bool Contract::OffersScale(double scale) const {
  const double taken = RoundTo(DType::kF32, scale);
  return !(taken == 0 && Excludes(Exclusion::kZeroScale)) &&
         !(taken < 0 && Excludes(Exclusion::kNegativeScale));
}

std::map<DType, NumericsProfile> DefaultNumericsOfAll() {
  std::map<DType, NumericsProfile> all;
  for (const auto& [name, dtype] : kDTypes) all[dtype] = DefaultNumerics(dtype);
  return all;
}

namespace {

tl::expected<Contract, std::string> ParseAnyLines(std::string_view text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return tl::unexpected<std::string>("contract is not valid JSON");
  if (!json.is_object()) return tl::unexpected<std::string>("contract must be a JSON object");
  Contract contract;
  if (json.contains("contract")) {
    if (auto error = StartFromNamed(json["contract"], contract)) return tl::unexpected(*error);
    json.erase("contract");
  }
  // Who lists features of its own says all that it offers.
  if (json.contains("features")) {
    contract.fp8.clear();
    contract.scores.clear();
  }
  if (auto error = ReadKeys(json, "contract", ContractReaders(), contract)) {
    return tl::unexpected("contract: " + *error);
  }
  if (auto error = CheckConsistency(contract)) return tl::unexpected("contract: " + *error);
  return contract;
}

}  // namespace

// Errors quote keys and values, which may hold any characters.
tl::expected<Contract, std::string> ParseContract(std::string_view text) {
  return ParseAnyLines(text).map_error(OneLine);
}

}  // namespace attest
