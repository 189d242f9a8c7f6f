#include "properties/harness/case/bins.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "impl/attention/visibility.h"
#include "properties/harness/case/gradients.h"
#include "properties/harness/case/offers.h"

namespace attest {
namespace {

std::string Bin(std::string_view dimension, std::string_view value) {
  std::string bin(dimension);
  bin.reserve(dimension.size() + 1 + value.size());
  return bin.append("=").append(value);
}

// One flag that is counted in pairs: whether a case has it, and whether a contract offers it.
struct FlagBin {
  std::string_view name;
  bool (*is_on)(const Case& c);
  bool (*is_offered)(const Contract& c);
};

bool Allows(int64_t limit, int64_t needed) {
  return limit == 0 || limit >= needed;
}

template <Feature kFeature>
bool Offers(const Contract& c) {
  return c.Has(kFeature);
}

template <Feature kFeature>
bool OffersWithDiagonal(const Contract& c) {
  return c.Has(kFeature) && OffersDiagonal(c);
}

bool OffersStorageWithMasks(const Contract& c) {
  return c.Has(Feature::kPast) || c.Has(Feature::kPages) || c.Has(Feature::kRing);
}

// In the order in which pairs name them.
using C = const Case&;
constexpr FlagBin kFlagBins[] = {
    {"causal", [](C c) { return c.problem.causal; }, OffersWithDiagonal<Feature::kCausal>},
    {"window", [](C c) { return c.problem.window.active(); }, OffersWithDiagonal<Feature::kWindow>},
    {"key_lengths", [](C c) { return c.problem.key_lengths.has_value(); },
     Offers<Feature::kKeyLengths>},
    {"mask", [](C c) { return c.problem.mask.has_value(); }, Offers<Feature::kMask>},
    {"bias", [](C c) { return c.problem.bias.has_value(); }, Offers<Feature::kBias>},
    {"gqa", [](C c) { return c.problem.q_heads != c.problem.kv_heads; },
     [](const Contract& c) { return c.Has(Feature::kGqa) && Allows(c.limits.max_heads, 2); }},
    {"lse", [](C c) { return c.problem.want_lse; },
     [](const Contract& c) { return c.lse != LseKind::kNone; }},
    {"weights", [](C c) { return c.problem.want_weights; }, Offers<Feature::kWeights>},
    {"layout", [](C c) { return c.layouts != Layouts{}; },
     [](const Contract& c) { return OfferedLayouts(c).size() > 1; }},
    {"value_dim", [](C c) { return c.problem.head_dim != c.problem.value_dim; },
     [](const Contract& c) {
       return c.Has(Feature::kValueDim) &&
              Allows(c.limits.max_head_dim, 2 * c.limits.head_dim_multiple);
     }},
    {"query_lengths", [](C c) { return c.problem.query_lengths.has_value(); },
     Offers<Feature::kQueryLengths>},
    {"prefix", [](C c) { return c.problem.prefix_lengths.has_value(); },
     [](const Contract& c) {
       return c.Has(Feature::kPrefixLengths) && OffersWithDiagonal<Feature::kCausal>(c);
     }},
    {"documents", [](C c) { return c.problem.documents.has_value(); }, Offers<Feature::kDocuments>},
    {"block_mask", [](C c) { return c.problem.block_mask.has_value(); },
     Offers<Feature::kBlockMask>},
    {"softcap", [](C c) { return c.problem.softcap > 0; }, Offers<Feature::kSoftcap>},
    {"alibi", [](C c) { return c.problem.alibi_slopes.has_value(); }, Offers<Feature::kAlibi>},
    {"sinks", [](C c) { return c.problem.sinks.has_value(); }, Offers<Feature::kSinks>},
    {"dropout", [](C c) { return c.problem.dropout.has_value(); }, Offers<Feature::kDropout>},
    {"fp8", [](C c) { return c.problem.fp8.has_value(); },
     [](const Contract& c) { return !c.fp8.empty(); }},
    {"scores", [](C c) { return c.problem.want_scores.has_value(); },
     [](const Contract& c) { return !c.scores.empty(); }},
    {"storage", [](C c) { return c.storage != Storage{} && !c.storage.packed; },
     OffersStorageWithMasks}};

std::vector<std::string_view> FlagsOf(const Case& c) {
  std::vector<std::string_view> flags;
  for (const FlagBin& bin : kFlagBins) {
    if (bin.is_on(c)) flags.push_back(bin.name);
  }
  return flags;
}

void AddPairs(const std::vector<std::string_view>& flags, std::vector<std::string>& bins) {
  for (size_t a = 0; a < flags.size(); ++a) {
    for (size_t b = a + 1; b < flags.size(); ++b) {
      std::string& bin = bins.emplace_back("pair=");
      bin.reserve(bin.size() + flags[a].size() + 1 + flags[b].size());
      bin.append(flags[a]).append("+").append(flags[b]);
    }
  }
}

// Which rows of a head see nothing: where an empty row stands decides what it breaks.
std::string_view EmptyRowsOf(const Problem& p) {
  bool first = false, middle = false, last = false, full = false;
  ForEachRow(p, [&](const Row& row) {
    if (!IsEmptyRow(p, row)) {
      full = true;
    } else if (row.query == 0) {
      first = true;
    } else {
      (row.query == p.q_len - 1 ? last : middle) = true;
    }
  });
  const int places = (first ? 1 : 0) + (middle ? 1 : 0) + (last ? 1 : 0);
  if (places == 0) return "none";
  if (!full) return "all";
  if (places > 1) return "several";
  return first ? "first" : middle ? "middle" : "last";
}

// kv_len beside the tiles that kernels cut keys into.
std::string_view TailOf(int64_t kv_len) {
  if (kv_len == 0) return "empty";
  if (kv_len < 7) return "tiny";
  switch (kv_len % 8) {
    case 0:
      return "at_tile";
    case 1:
      return "one_over";
    case 7:
      return "one_under";
    default:
      return "between";
  }
}

// Whether a length lies at the edge of a tile of 64 or more: smaller tiles are met in any case.
bool IsAtTileEdge(int64_t len) {
  return len >= 63 && (len + 1) % 16 <= 2;
}

std::string_view TileSeamOf(const Problem& p) {
  const bool queries = IsAtTileEdge(p.q_len), keys = IsAtTileEdge(p.kv_len);
  return queries && keys ? "both" : queries ? "queries" : keys ? "keys" : "none";
}

std::string_view RatioOf(const Problem& p) {
  switch (p.heads_per_kv_head()) {
    case 0:
    case 1:
      return "1";
    case 2:
      return "2";
    case 3:
      return "3";
    default:
      return "more";
  }
}

std::string_view ExtentsOf(const Problem& p, const BitPlane& plane) {
  const Shape4 full = p.WeightsShape();
  if (plane.shape == full) return "full";
  const bool heads = plane.shape[0] == full[0] && plane.shape[1] == full[1];
  const bool positions = plane.shape[2] == full[2] && plane.shape[3] == full[3];
  return positions ? "per_position" : heads ? "per_head" : "partial";
}

void AddPlane(std::string_view dimension, const Problem& p, const std::optional<BitPlane>& plane,
              std::vector<std::string>& bins) {
  bins.push_back(Bin(dimension, plane ? ExtentsOf(p, *plane) : "none"));
  if (!plane) return;
  bins.push_back(Bin(std::string(dimension) + "_rank", std::to_string(plane->rank)));
}

std::string_view StorageOf(const Storage& s) {
  if (s.past > 0) return s.without_present ? "past_without_present" : "past";
  if (s.first_call != FirstCall::kNo) return Name(s.first_call);
  if (s.page_size > 0) return "pages";
  return s.ring ? "ring" : s.packed ? "packed" : "plain";
}

std::vector<std::string_view> OfferedFlags(const Contract& c) {
  std::vector<std::string_view> flags;
  for (const FlagBin& bin : kFlagBins) {
    if (bin.is_offered(c)) flags.push_back(bin.name);
  }
  return flags;
}

bool Has(const std::vector<std::string_view>& flags, std::string_view flag) {
  return std::ranges::find(flags, flag) != flags.end();
}

void RequireSizes(const Contract& c, std::vector<std::string>& bins) {
  bins.push_back("head_ratio=1");
  if (c.Has(Feature::kGqa) && Allows(c.limits.max_heads, 2)) bins.push_back("head_ratio=2");
  if (c.Has(Feature::kGqa) && Allows(c.limits.max_heads, 3)) bins.push_back("head_ratio=3");
  bins.push_back("batch=1");
  if (Allows(c.limits.max_batch, 2)) bins.push_back("batch=many");
  bins.push_back("kv_tail=tiny");
  if (Allows(c.limits.max_kv_len, 16)) {
    for (const char* tail : {"at_tile", "one_over", "one_under", "between"}) {
      bins.push_back(Bin("kv_tail", tail));
    }
  }
  bins.push_back("tile_seam=none");
  const bool queries = Allows(c.limits.max_q_len, 65), keys = Allows(c.limits.max_kv_len, 65);
  if (queries) bins.push_back("tile_seam=queries");
  if (keys) bins.push_back("tile_seam=keys");
  if (queries && keys) bins.push_back("tile_seam=both");
  bins.push_back("sizes=positive");
  if (c.Has(Feature::kZeroSizes) && c.limits.head_dim_multiple <= 1) bins.push_back("sizes=zero");
}

void RequireVisibility(const Contract& c, const std::vector<std::string_view>& flags,
                       std::vector<std::string>& bins) {
  if (Has(flags, "causal") || Has(flags, "window") || Has(flags, "alibi")) {
    std::vector<Alignment> alignments = OfferedAlignments(c, false);
    if (c.Has(Feature::kKeyLengths))
      std::ranges::copy(OfferedAlignments(c, true), std::back_inserter(alignments));
    for (const Alignment alignment : alignments) bins.push_back(Bin("alignment", Name(alignment)));
  }
  bins.push_back("empty_rows=none");
  for (const char* plane : {"mask", "bias"}) {
    if (!Has(flags, plane)) continue;
    bins.push_back(Bin(plane, "none"));
    bins.push_back(Bin(plane, "full"));
    if (c.Has(Feature::kMaskBroadcast)) bins.push_back(Bin(plane, "per_position"));
    if (Allows(c.limits.max_q_len, 3)) {
      for (const char* place : {"first", "middle", "last"})
        bins.push_back(Bin("empty_rows", place));
    }
  }
}

void RequireData(const Contract& c, const std::vector<std::string_view>& flags,
                 std::vector<std::string>& bins) {
  for (const DType dtype : OfferedDTypes(c)) bins.push_back(Bin("dtype", Name(dtype)));
  for (const Layout layout : OfferedLayouts(c)) {
    for (const char* tensor : {"layout_q", "layout_out"}) bins.push_back(Bin(tensor, Name(layout)));
  }
  for (const Layout layout : OfferedKeyLayouts(c)) {
    for (const char* tensor : {"layout_k", "layout_v"}) bins.push_back(Bin(tensor, Name(layout)));
  }
  for (const DType format : c.fp8) bins.push_back(Bin("fp8", Name(format)));
  for (const ScoreMode mode : c.scores) bins.push_back(Bin("asked_scores", Name(mode)));
  for (int n = 0; n < kScoreFamilyCount; ++n) {
    bins.push_back(Bin("scores", Name(static_cast<ScoreFamily>(n))));
  }
  for (int n = 0; n < kValueFamilyCount; ++n) {
    bins.push_back(Bin("values", Name(static_cast<ValueFamily>(n))));
  }
  for (int n = 0; n < kBiasFamilyCount && Has(flags, "bias"); ++n) {
    bins.push_back(Bin("bias_values", Name(static_cast<BiasFamily>(n))));
  }
}

void RequireStorage(const Contract& c, std::vector<std::string>& bins) {
  bins.push_back("storage=plain");
  if (c.Has(Feature::kPast) && Allows(c.limits.max_kv_len, 2)) {
    bins.push_back("storage=past");
    if (c.Has(Feature::kPresent) && !c.Excludes(Exclusion::kPastWithoutPresent)) {
      bins.push_back("storage=past_without_present");
    }
  }
  for (const FirstCall first_call : OfferedFirstCalls(c)) {
    bins.push_back(Bin("storage", Name(first_call)));
  }
  if (c.Has(Feature::kPages)) bins.push_back("storage=pages");
  if (c.Has(Feature::kRing)) bins.push_back("storage=ring");
  if (c.Has(Feature::kPacked)) bins.push_back("storage=packed");
}

// What a backward call may have, flag by flag: that of a forward call, and gradients of its own.
void RequireGradients(const Contract& c, std::vector<std::string>& bins) {
  if (!c.backward) return;
  bins.push_back("gradients=any");
  if (c.HasBackward(Feature::kPacked)) bins.push_back("gradients=packed");
  for (const std::string_view flag : OfferedFlags(BackwardContract(c))) {
    bins.push_back(Bin("gradients", flag));
  }
}

// Pairs whose halves are offered and do not go together.
void ErasePairsApart(const Contract& c, std::vector<std::string>& bins) {
  if (!c.Has(Feature::kMaskWithBias)) std::erase(bins, "pair=mask+bias");
  for (const auto& [what, plane] : {std::pair{Exclusion::kCausalWithMask, "mask"},
                                    std::pair{Exclusion::kCausalWithBias, "bias"}}) {
    if (!c.Excludes(what)) continue;
    std::erase(bins, fmt::format("pair=causal+{}", plane));
    std::erase(bins, fmt::format("pair={}+prefix", plane));
    if (c.window_sides == WindowSides::kLeftIfCausal) {
      std::erase(bins, fmt::format("pair=window+{}", plane));
    }
  }
}

}  // namespace

std::vector<std::string> BinsOf(const Case& c) {
  const Problem& p = c.problem;
  std::vector<std::string> bins;
  bins.push_back(Bin("dtype", Name(p.dtype)));
  AddPlane("mask", p, p.mask, bins);
  AddPlane("bias", p, p.bias, bins);
  bins.push_back(Bin("alignment", Name(ClassifyAlignment(p))));
  bins.push_back(Bin("head_ratio", RatioOf(p)));
  bins.push_back(Bin("batch", p.batch == 0 ? "none" : p.batch == 1 ? "1" : "many"));
  bins.push_back(Bin("kv_tail", TailOf(p.kv_len)));
  bins.push_back(Bin("tile_seam", TileSeamOf(p)));
  bins.push_back(Bin("empty_rows", EmptyRowsOf(p)));
  const bool zero = std::min({p.batch, p.q_heads, p.q_len, p.kv_len, p.head_dim, p.value_dim}) == 0;
  bins.push_back(Bin("sizes", zero ? "zero" : "positive"));
  bins.push_back(Bin("layout_q", Name(c.layouts.q)));
  bins.push_back(Bin("layout_k", Name(c.layouts.k)));
  bins.push_back(Bin("layout_v", Name(c.layouts.v)));
  bins.push_back(Bin("layout_out", Name(c.layouts.out)));
  bins.push_back(Bin("scores", Name(c.recipe.scores)));
  bins.push_back(Bin("values", Name(c.recipe.values)));
  if (p.bias) bins.push_back(Bin("bias_values", Name(c.recipe.bias)));
  bins.push_back(Bin("fp8", p.fp8 ? Name(p.fp8->format) : "none"));
  bins.push_back(Bin("asked_scores", p.want_scores ? Name(*p.want_scores) : "none"));
  bins.push_back(Bin("storage", StorageOf(c.storage)));
  AddPairs(FlagsOf(c), bins);
  return bins;
}

std::vector<std::string> GradientBinsOf(const Case& c) {
  std::vector<std::string> bins;
  if (!c.problem.want_gradients) return bins;
  bins.push_back("gradients=any");
  for (const std::string_view flag : FlagsOf(c)) bins.push_back(Bin("gradients", flag));
  if (c.storage.packed) bins.push_back("gradients=packed");
  return bins;
}

std::vector<std::string> RequiredBins(const Contract& contract) {
  const std::vector<std::string_view> flags = OfferedFlags(contract);
  std::vector<std::string> bins;
  RequireData(contract, flags, bins);
  RequireSizes(contract, bins);
  RequireVisibility(contract, flags, bins);
  RequireStorage(contract, bins);
  RequireGradients(contract, bins);
  AddPairs(flags, bins);
  ErasePairsApart(contract, bins);
  std::ranges::sort(bins);
  const auto repeated = std::ranges::unique(bins);
  bins.erase(repeated.begin(), repeated.end());
  return bins;
}

void BinCounts::AddGradients(const Case& call) {
  for (const std::string& bin : GradientBinsOf(call)) ++counts_[bin];
}

void BinCounts::Add(const Case& c) {
  for (const std::string& bin : BinsOf(c)) ++counts_[bin];
}

void BinCounts::Merge(const BinCounts& other) {
  Merge(other.counts_);
}

void BinCounts::Merge(const std::map<std::string, int64_t>& counts) {
  for (const auto& [bin, count] : counts) counts_[bin] += count;
}

std::vector<std::string> BinCounts::Missing(const Contract& contract) const {
  std::vector<std::string> missing = RequiredBins(contract);
  std::erase_if(missing, [&](const std::string& bin) { return counts_.count(bin) != 0; });
  return missing;
}

}  // namespace attest
