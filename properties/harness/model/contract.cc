#include "properties/harness/model/contract.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "properties/harness/sandbox/model_roles.h"

namespace attest {
namespace {

using nlohmann::json;

// Thrown and caught within this file: what is wrong, with the key.
using Wrong = std::invalid_argument;

template <typename T, size_t N>
using Words = std::array<std::pair<std::string_view, T>, N>;

constexpr Words<ModelKind, 3> kKinds = {{{"decoder", ModelKind::kDecoder},
                                         {"encoder", ModelKind::kEncoder},
                                         {"encoder_decoder", ModelKind::kEncoderDecoder}}};
constexpr Words<PaddingSide, 2> kSides = {
    {{"left", PaddingSide::kLeft}, {"right", PaddingSide::kRight}}};
constexpr Words<ModelPositions, 3> kPositions = {{{"none", ModelPositions::kNone},
                                                  {"absolute", ModelPositions::kAbsolute},
                                                  {"relative", ModelPositions::kRelative}}};
constexpr Words<bool ModelBits::*, 6> kBits = {{{"future", &ModelBits::future},
                                                {"padding", &ModelBits::padding},
                                                {"padding_content", &ModelBits::padding_content},
                                                {"batch", &ModelBits::batch},
                                                {"chunks", &ModelBits::chunks},
                                                {"rerun", &ModelBits::rerun}}};
constexpr Words<DType, 4> kDtypes = {
    {{"f32", DType::kF32}, {"f64", DType::kF64}, {"f16", DType::kF16}, {"bf16", DType::kBF16}}};

template <typename T, size_t N>
T Word(const Words<T, N>& words, const json& value, std::string_view key) {
  std::vector<std::string_view> known;
  for (const auto& [word, meaning] : words) {
    if (value.is_string() && value.get_ref<const std::string&>() == word) return meaning;
    known.push_back(word);
  }
  throw Wrong(fmt::format("{}: {} is none of {}", key, value.dump(), fmt::join(known, ", ")));
}

int64_t Integer(const json& value, std::string_view key, int64_t least, int64_t most) {
  const bool fits =
      value.is_number_integer() && value.get<int64_t>() >= least && value.get<int64_t>() <= most;
  if (!fits) {
    throw Wrong(
        fmt::format("{}: {} is no whole number from {} to {}", key, value.dump(), least, most));
  }
  return value.get<int64_t>();
}

bool Flag(const json& value, std::string_view key) {
  if (!value.is_boolean())
    throw Wrong(fmt::format("{}: {} is not true or false", key, value.dump()));
  return value.get<bool>();
}

const json& List(const json& value, std::string_view key) {
  if (!value.is_array()) throw Wrong(fmt::format("{}: {} is no list", key, value.dump()));
  return value;
}

// The members of an object, each with its handler; a member without one is an error.
template <typename Members>
void ForEachMember(const json& object, std::string_view where, const Members& members) {
  if (!object.is_object()) throw Wrong(fmt::format("{}: {} is no object", where, object.dump()));
  for (const auto& [key, value] : object.items()) {
    if (!members(key, value)) {
      throw Wrong(fmt::format("{}{}{}: unknown key", where, where.empty() ? "" : ".", key));
    }
  }
}

constexpr int64_t kMostTokens = 1 << 20;  // of a vocabulary or a sequence: far beyond what is drawn
constexpr int64_t kMostBytes = int64_t{1} << 40;

CacheGrowth ParseGrowth(const json& object) {
  CacheGrowth growth;
  ForEachMember(object, "cache_bytes", [&](const std::string& key, const json& value) {
    if (key == "per_token") {
      growth.per_token = Integer(value, "cache_bytes.per_token", 1, kMostBytes);
    } else if (key == "page") {
      growth.page = Integer(value, "cache_bytes.page", 1, kMostTokens);
    } else if (key == "slots") {
      growth.slots = Integer(value, "cache_bytes.slots", 1, kMostTokens);
    } else {
      return false;
    }
    return true;
  });
  if (growth.per_token == 0) throw Wrong("cache_bytes.per_token: is missing");
  return growth;
}

BatcherContract ParseBatcher(const json& object, int64_t vocab) {
  BatcherContract batcher;
  ForEachMember(object, "batcher", [&](const std::string& key, const json& value) {
    for (const auto& [name, token] :
         {std::pair{"pad", &batcher.pad}, {"bos", &batcher.bos}, {"eos", &batcher.eos}}) {
      if (key == name) *token = Integer(value, "batcher." + key, 0, vocab - 1);
      if (key == name) return true;
    }
    for (const auto& [name, flag] : {std::pair{"packs", &batcher.packs},
                                     {"joins", &batcher.joins},
                                     {"drops_last", &batcher.drops_last},
                                     {"loses_edges", &batcher.loses_edges}}) {
      if (key == name) *flag = Flag(value, "batcher." + key);
      if (key == name) return true;
    }
    return false;
  });
  if (batcher.joins && !batcher.bos && !batcher.eos) {
    throw Wrong("batcher.joins: needs a bos or an eos, or nothing tells where a document ends");
  }
  return batcher;
}

std::vector<std::string> ParseCaches(const json& list) {
  std::vector<std::string> caches;
  for (const json& value : List(list, "caches")) {
    const bool is_known = std::ranges::any_of(
        kCacheKinds, [&](const char* kind) { return value.is_string() && value == kind; });
    if (!is_known) {
      throw Wrong(
          fmt::format("caches: {} is none of {}", value.dump(), fmt::join(kCacheKinds, ", ")));
    }
    caches.push_back(value.get<std::string>());
  }
  return caches;
}

// One key of the contract, but for those that others depend on; false where there is no such key.
bool ParseKey(const std::string& key, const json& value, ModelContract& c) {
  if (key == "contract" || key == "kind" || key == "vocab" || key == "max_len") return true;
  if (key == "max_source_len") {
    c.max_source_len = Integer(value, key, 1, kMostTokens);
  } else if (key == "dtype") {
    c.dtype = Word(kDtypes, value, key);
  } else if (key == "precision") {
    c.precision = Word(kDtypes, value, key);
  } else if (key == "padding") {
    for (const json& side : List(value, key)) c.padding.push_back(Word(kSides, side, key));
  } else if (key == "positions") {
    c.positions = Word(kPositions, value, key);
  } else if (key == "first_position") {
    c.first_position = Flag(value, key);
  } else if (key == "reach") {
    c.reach = Integer(value, key, 0, kMostTokens);
  } else if (key == "caches") {
    c.caches = ParseCaches(value);
  } else if (key == "reorder") {
    c.reorder = Flag(value, key);
  } else if (key == "cache_bytes") {
    c.cache_bytes = ParseGrowth(value);
  } else if (key == "batcher") {
    c.batcher = ParseBatcher(value, c.vocab);
  } else if (key == "bits_invariant") {
    for (const json& bit : List(value, key)) c.bits.*Word(kBits, bit, key) = true;
  } else {
    return false;
  }
  return true;
}

const json& Required(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw Wrong(fmt::format("{}: is missing", key));
  return *found;
}

// What is inconsistent about a contract whose keys are all well-formed.
void CheckTogether(const ModelContract& c) {
  if (c.kind != ModelKind::kEncoderDecoder && c.max_source_len != 0) {
    throw Wrong("max_source_len: only an encoder_decoder has sources");
  }
  if (c.kind == ModelKind::kEncoder && !c.caches.empty()) {
    throw Wrong("caches: an encoder generates nothing");
  }
  if (c.cache_bytes && c.caches.empty()) throw Wrong("cache_bytes: there are no caches");
  if (c.reorder && c.caches.empty()) throw Wrong("reorder: there are no caches");
}

ModelContract Parse(const json& object) {
  if (!object.is_object()) throw Wrong("is no JSON object");
  if (Required(object, "contract") != "attest-model-1") {
    throw Wrong(fmt::format("contract: {} is not \"attest-model-1\"", object["contract"].dump()));
  }
  ModelContract c;
  c.kind = Word(kKinds, Required(object, "kind"), "kind");
  c.vocab = Integer(Required(object, "vocab"), "vocab", 2, kMostTokens);
  c.max_len = Integer(Required(object, "max_len"), "max_len", 1, kMostTokens);
  ForEachMember(object, "",
                [&](const std::string& key, const json& value) { return ParseKey(key, value, c); });
  CheckTogether(c);
  if (c.kind == ModelKind::kEncoderDecoder && c.max_source_len == 0) c.max_source_len = c.max_len;
  return c;
}

}  // namespace

std::string_view Name(ModelKind kind) {
  return kKinds.at(static_cast<size_t>(kind)).first;
}

std::string_view Name(PaddingSide side) {
  constexpr std::string_view kNames[] = {"none", "right", "left"};
  return kNames[static_cast<size_t>(side)];
}

tl::expected<ModelContract, std::string> ParseModelContract(std::string_view text) {
  try {
    return Parse(json::parse(text));
  } catch (const json::exception&) {
    return tl::unexpected(std::string(kNoJson));
  } catch (const Wrong& wrong) {
    return tl::unexpected<std::string>(wrong.what());
  }
}

bool IsModelContract(std::string_view text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return false;
  const auto named = object.find("contract");
  return named != object.end() && named->is_string() &&
         named->get_ref<const std::string&>().starts_with("attest-model");
}

bool MayDepend(const ModelContract& contract, int64_t at, int64_t from) {
  if (contract.kind != ModelKind::kEncoder && from > at) return false;
  return contract.reach == 0 || std::abs(at - from) < contract.reach;
}

}  // namespace attest
