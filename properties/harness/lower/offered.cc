#include "properties/harness/lower/offered.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/offers.h"

namespace attest {
namespace {

MaybeReason First(std::initializer_list<MaybeReason> reasons) {
  for (const MaybeReason& reason : reasons) {
    if (reason) return reason;
  }
  return std::nullopt;
}

// --- Types, sizes, layouts ---

MaybeReason CheckTypes(const Problem& p, const Contract& c) {
  if (c.dtypes.count(p.dtype) == 0) return fmt::format("dtype {} is not offered", Name(p.dtype));
  if (p.fp8 && c.fp8.count(p.fp8->format) == 0) {
    return fmt::format("fp8 inputs of {} are not offered", Name(p.fp8->format));
  }
  return std::nullopt;
}

MaybeReason CheckLimit(const char* name, int64_t size, int64_t limit) {
  if (limit > 0 && size > limit) {
    return fmt::format("{} = {} exceeds the contract's {}", name, size, limit);
  }
  return std::nullopt;
}

int64_t Sum(const std::vector<int64_t>& lengths) {
  int64_t sum = 0;
  for (const int64_t length : lengths) sum += length;
  return sum;
}

// The smallest extent of a tensor of the call that comes of a size of the case.
int64_t SmallestExtent(const Case& c) {
  const Problem& p = c.problem;
  int64_t smallest =
      std::min({p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len, p.head_dim, p.value_dim});
  if (c.storage.past > 0) smallest = std::min(smallest, p.kv_len - c.storage.past);
  if (c.storage.packed) smallest = std::min({smallest, Sum(*p.query_lengths), Sum(*p.key_lengths)});
  return smallest;
}

MaybeReason CheckKeysPerQuery(const Problem& p, const Contract& c) {
  if (!c.Excludes(Exclusion::kFewerKeysThanQueries)) return std::nullopt;
  for (int64_t b = 0; b < p.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    const int64_t queries = p.query_lengths ? (*p.query_lengths)[item] : p.q_len;
    const int64_t keys = p.key_lengths ? (*p.key_lengths)[item] : p.kv_len;
    if (keys < queries) {
      return fmt::format("batch item {} has {} keys for {} queries, and fewer are not offered", b,
                         keys, queries);
    }
  }
  return std::nullopt;
}

MaybeReason CheckScale(const Problem& p, const Contract& c) {
  if (!p.scale || c.OffersScale(*p.scale)) return std::nullopt;
  return fmt::format("a scale of {} is not offered", *p.scale);
}

MaybeReason CheckSizes(const Case& test, const Contract& c) {
  const Problem& p = test.problem;
  if (SmallestExtent(test) == 0 && !c.Has(Feature::kZeroSizes)) return "a size of 0 is not offered";
  if (p.q_heads != p.kv_heads && !c.Has(Feature::kGqa)) return "q_heads != kv_heads is not offered";
  if (p.value_dim != p.head_dim && !c.Has(Feature::kValueDim)) {
    return "value_dim != head_dim is not offered";
  }
  if (p.head_dim % c.limits.head_dim_multiple != 0) {
    return fmt::format("head_dim = {} is not a multiple of {}", p.head_dim,
                       c.limits.head_dim_multiple);
  }
  return First({CheckLimit("batch", p.batch, c.limits.max_batch),
                CheckLimit("q_heads", p.q_heads, c.limits.max_heads),
                CheckLimit("q_len", p.q_len, c.limits.max_q_len),
                CheckLimit("kv_len", p.kv_len, c.limits.max_kv_len),
                CheckLimit("head_dim", p.head_dim, c.limits.max_head_dim), CheckKeysPerQuery(p, c),
                CheckScale(p, c)});
}

MaybeReason CheckLayouts(const Layouts& l, const Contract& c) {
  if (OffersLayouts(c, l)) return std::nullopt;
  return fmt::format("the layouts {} {} {} {} of q, k, v and out are not offered", Name(l.q),
                     Name(l.k), Name(l.v), Name(l.out));
}

// --- Features that no mask can stand for ---

MaybeReason CheckScores(const Problem& p, const Contract& c) {
  const std::pair<bool, std::pair<Feature, const char*>> needs[] = {
      {p.softcap > 0, {Feature::kSoftcap, "a softcap"}},
      {p.sinks.has_value(), {Feature::kSinks, "sinks"}},
      {p.dropout.has_value(), {Feature::kDropout, "dropout"}}};
  for (const auto& [is_needed, feature] : needs) {
    if (is_needed && !c.Has(feature.first)) {
      return fmt::format("{} {} not offered", feature.second,
                         feature.first == Feature::kSinks ? "are" : "is");
    }
  }
  if (p.want_scores && c.scores.count(*p.want_scores) == 0) {
    return fmt::format("a scores output of {} is not offered", Name(*p.want_scores));
  }
  return std::nullopt;
}

MaybeReason CheckQueryLengths(const Case& test, const Contract& c) {
  if (!test.problem.query_lengths || test.storage.packed || c.Has(Feature::kQueryLengths)) {
    return std::nullopt;
  }
  const bool is_free = c.padded_query_rows == PaddedQueryRows::kUnspecified ||
                       c.padded_query_rows == PaddedQueryRows::kComputed;
  return is_free ? std::nullopt : MaybeReason("query_lengths are not offered");
}

MaybeReason CheckStorage(const Storage& s, const Contract& c) {
  const std::pair<bool, std::pair<Feature, const char*>> needs[] = {
      {s.past > 0, {Feature::kPast, "past keys and values are"}},
      {s.page_size > 0, {Feature::kPages, "a paged cache is"}},
      {s.ring, {Feature::kRing, "a ring of keys is"}},
      {s.packed, {Feature::kPacked, "packed sequences are"}}};
  for (const auto& [is_needed, feature] : needs) {
    if (is_needed && !c.Has(feature.first)) return fmt::format("{} not offered", feature.second);
  }
  const std::vector<FirstCall> first_calls = OfferedFirstCalls(c);
  if (s.first_call == FirstCall::kNo || std::ranges::count(first_calls, s.first_call) > 0) {
    return std::nullopt;
  }
  return fmt::format("a first call with {} is not offered", s.first_call == FirstCall::kPastEmpty
                                                                ? "past keys of extent 0"
                                                                : "the present and no past");
}

// Raw and capped scores are those of all keys, and pages hold no key behind an item's length.
MaybeReason CheckPagedScores(const Case& test) {
  const Problem& p = test.problem;
  if (test.storage.page_size == 0 || !p.want_scores || !p.key_lengths) return std::nullopt;
  const bool is_of_all = *p.want_scores == ScoreMode::kRaw || *p.want_scores == ScoreMode::kCapped;
  const auto is_cut = [&](int64_t length) { return length < p.kv_len; };
  if (!is_of_all || std::ranges::none_of(*p.key_lengths, is_cut)) return std::nullopt;
  return "pages do not hold every key that raw scores are of";
}

// --- The diagonal ---

bool AllOffsetsAre(const Problem& p, int64_t offset) {
  for (int64_t b = 0; b < p.batch; ++b) {
    if (p.DiagonalOffset(b) != offset) return false;
  }
  return true;
}

// Of packed sequences every rule by lengths goes by the item's own.
bool PackedOffsetsFit(const Problem& p, const EnumSet<CausalOffset>& rules) {
  if (rules.count(CausalOffset::kExplicit) != 0) return true;
  if (rules.count(CausalOffset::kZero) != 0 && AllOffsetsAre(p, 0)) return true;
  const bool by_length = rules.size() > rules.count(CausalOffset::kZero);
  for (int64_t b = 0; by_length && b < p.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    if (p.DiagonalOffset(b) != (*p.key_lengths)[item] - (*p.query_lengths)[item]) return false;
  }
  return by_length;
}

int64_t LargestOf(const std::vector<int64_t>& lengths, int64_t otherwise) {
  return lengths.empty() ? otherwise : *std::max_element(lengths.begin(), lengths.end());
}

}  // namespace

MaybeReason WhyNotOffered(const Case& c, const Contract& contract) {
  return First({CheckTypes(c.problem, contract), CheckStorage(c.storage, contract),
                CheckPagedScores(c), CheckSizes(c, contract), CheckLayouts(c.layouts, contract),
                CheckScores(c.problem, contract), CheckQueryLengths(c, contract)});
}

bool PassesQueryLengths(const Case& c, const Contract& contract) {
  return c.problem.query_lengths && !c.storage.packed && contract.Has(Feature::kQueryLengths);
}

bool PassesDiagonalTensor(const Contract& contract) {
  return contract.causal_offset.size() > 1 ||
         contract.causal_offset.count(CausalOffset::kExplicit) != 0;
}

bool ExpressesDiagonal(const Case& c, const Problem& asked, const Contract& contract) {
  const EnumSet<CausalOffset>& rules = contract.causal_offset;
  if (c.storage.packed) return PackedOffsetsFit(asked, rules);
  const auto expresses_without = [&](CausalOffset rule) {
    Contract narrowed;
    narrowed.causal_offset = rules;
    narrowed.causal_offset.erase(rule);
    return CanExpressDiagonal(narrowed, asked);
  };
  if (c.storage.past > 0 && !asked.key_lengths && rules.count(CausalOffset::kByInputs) != 0) {
    return AllOffsetsAre(asked, c.storage.past) || expresses_without(CausalOffset::kByInputs);
  }
  // What a paged call knows of kv_len is its largest key length.
  if (c.storage.page_size > 0 && !PassesDiagonalTensor(contract) &&
      LargestOf(*asked.key_lengths, asked.kv_len) < asked.kv_len) {
    return expresses_without(CausalOffset::kKvLenMinusQLen);
  }
  return CanExpressDiagonal(contract, asked);
}

}  // namespace attest
