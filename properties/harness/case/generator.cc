#include "properties/harness/case/generator.h"

#include <algorithm>
#include <array>

#include "properties/harness/case/generator_internal.h"
#include "properties/harness/case/offers.h"

namespace attest {
namespace {

std::vector<Flag> OfferedFlags(const Contract& contract) {
  const bool diagonal = OffersDiagonal(contract);
  std::vector<Flag> flags;
  if (contract.Has(Feature::kCausal) && diagonal && !contract.IsAlwaysCausal())
    flags.push_back(Flag::kCausal);
  if (contract.Has(Feature::kWindow) && diagonal) flags.push_back(Flag::kWindow);
  if (contract.Has(Feature::kKeyLengths)) flags.push_back(Flag::kKeyLengths);
  if (contract.Has(Feature::kMask)) flags.push_back(Flag::kMask);
  if (contract.Has(Feature::kBias)) flags.push_back(Flag::kBias);
  return flags;
}

// What few kernels have. Kept apart, so that it does not crowd out what all of them have.
std::vector<Flag> OfferedExtras(const Contract& c) {
  const bool diagonal = OffersDiagonal(c);
  std::vector<Flag> flags;
  const auto add = [&](bool offered, Flag flag) {
    if (offered) flags.push_back(flag);
  };
  add(c.Has(Feature::kQueryLengths), Flag::kQueryLengths);
  add(c.Has(Feature::kPrefixLengths) && c.Has(Feature::kCausal) && diagonal, Flag::kPrefix);
  add(c.Has(Feature::kDocuments), Flag::kDocuments);
  add(c.Has(Feature::kBlockMask), Flag::kBlockMask);
  add(c.Has(Feature::kSoftcap), Flag::kSoftcap);
  add(c.Has(Feature::kAlibi), Flag::kAlibi);
  add(c.Has(Feature::kSinks), Flag::kSinks);
  add(c.Has(Feature::kDropout), Flag::kDropout);
  add(!c.fp8.empty(), Flag::kFp8);
  add(c.Has(Feature::kPast) || c.Has(Feature::kPages) || c.Has(Feature::kRing) ||
          c.Has(Feature::kPacked),
      Flag::kStorage);
  return flags;
}

// Whether two flags do not go together in one call.
bool Exclude(const Contract& contract, Flag a, Flag b) {
  const auto is_causal = [&](Flag flag) {
    return flag == Flag::kCausal || flag == Flag::kPrefix ||
           (flag == Flag::kWindow && contract.window_sides == WindowSides::kLeftIfCausal);
  };
  const auto excludes = [&](Flag one, Flag other) {
    if (one == Flag::kMask && other == Flag::kBias) return !contract.Has(Feature::kMaskWithBias);
    if (!is_causal(one)) return false;
    return (other == Flag::kMask && contract.Excludes(Exclusion::kCausalWithMask)) ||
           (other == Flag::kBias && contract.Excludes(Exclusion::kCausalWithBias));
  };
  return excludes(a, b) || excludes(b, a);
}

// Moves up to `wanted` different flags from `offered`; none that does not go with those there are.
void TakeFlags(Draw& draw, const Contract& contract, std::vector<Flag> offered, size_t wanted,
               std::vector<Flag>& flags) {
  const auto erase_beside = [&](Flag flag) {
    std::erase_if(offered,
                  [&](Flag other) { return other == flag || Exclude(contract, flag, other); });
  };
  for (const Flag flag : flags) erase_beside(flag);
  for (; wanted > 0 && !offered.empty(); --wanted) {
    flags.push_back(draw.Pick(offered));
    erase_beside(flags.back());
  }
}

// Half of the cases have the common flags alone: none to three, two most often. The others, where
// the contract offers extras, have one or two of them beside one common flag, as a rule. At the edge
// of a tile four in ten have no common flag: what hides keys hides as well that a kernel took its
// padding for keys.
std::vector<Flag> DrawFlags(Draw& draw, const Contract& contract, SizeClass sizes) {
  const std::vector<Flag> extras = OfferedExtras(contract);
  const bool has_extras = !extras.empty() && draw.Percent(50);
  const int64_t roll = draw.Below(100);
  size_t common = roll < 10 ? 0 : roll < 30 ? 1 : roll < 80 ? 2 : 3;
  if (has_extras) common = roll < 20 ? 0 : roll < 80 ? 1 : 2;
  if (sizes == SizeClass::kSeam && roll < 40) common = 0;
  std::vector<Flag> flags;
  if (contract.IsAlwaysCausal()) flags.push_back(Flag::kCausal);
  TakeFlags(draw, contract, OfferedFlags(contract), common, flags);
  if (has_extras) TakeFlags(draw, contract, extras, draw.Percent(65) ? 1 : 2, flags);
  return flags;
}

bool Contains(const std::vector<Flag>& flags, Flag flag) {
  return std::ranges::find(flags, flag) != flags.end();
}

// Where the contract wants as many keys as queries: shortens the queries, or lengthens the items.
void KeepKeysForQueries(const Contract& contract, Problem& p) {
  if (!contract.Excludes(Exclusion::kFewerKeysThanQueries)) return;
  p.q_len = std::min(p.q_len, p.kv_len);
  for (size_t b = 0; p.key_lengths && b < p.key_lengths->size(); ++b) {
    int64_t& keys = (*p.key_lengths)[b];
    keys = std::max(keys, p.query_lengths ? (*p.query_lengths)[b] : p.q_len);
  }
}

void DrawKeyLengths(Draw& draw, Problem& p) {
  p.key_lengths.emplace();
  for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(DrawLength(draw, p.kv_len));
}

// All that a kernel knows of kv_len in a paged call is the longest item.
void LengthenOne(Draw& draw, Problem& p) {
  if (!p.key_lengths || p.batch == 0) return;
  (*p.key_lengths)[static_cast<size_t>(draw.Below(p.batch))] = p.kv_len;
}

// (0, 0), one side open, both closed, and sides that reach beyond every key: a little, beyond 16 bits,
// and to the longest that a problem may have.
Window DrawWindow(Draw& draw, const Problem& p) {
  const auto side = [&]() -> int64_t {
    const int64_t roll = draw.Below(100);
    if (roll < 25) return 0;
    if (roll < 60) return draw.Between(1, 4);
    if (roll < 85) return draw.Between(0, std::max<int64_t>(p.kv_len, 1));
    return draw.Pick<int64_t>({p.q_len + p.kv_len + 1, 1 << 15, 1 << 16, 1 << 24});
  };
  switch (draw.Below(5)) {
    case 0:
      return Window{0, 0};
    case 1:
      return Window{side(), std::nullopt};
    case 2:
      return Window{std::nullopt, side()};
    default:
      return Window{side(), side()};
  }
}

std::vector<int64_t> DrawExplicitOffsets(Draw& draw, const Problem& p) {
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b < p.batch; ++b) offsets.push_back(draw.Between(-p.q_len, p.kv_len));
  return offsets;
}

// Of packed sequences every rule but top-left goes by the item's own lengths.
bool DrawPackedDiagonal(Draw& draw, const Contract& contract, Problem& p) {
  const bool zero = contract.causal_offset.count(CausalOffset::kZero) != 0;
  const bool by_length = contract.causal_offset.size() > (zero ? 1u : 0u);
  if (!by_length || (zero && draw.Percent(50))) return zero;
  for (size_t b = 0; b < p.key_lengths->size(); ++b) {
    p.diagonal_offset.push_back((*p.key_lengths)[b] - (*p.query_lengths)[b]);
  }
  return true;
}

// False when the contract can express no diagonal for this problem.
bool DrawDiagonal(Draw& draw, const Contract& contract, Case& c) {
  Problem& p = c.problem;
  const auto has = [&](CausalOffset rule) { return contract.causal_offset.count(rule) != 0; };
  if (!has(CausalOffset::kExplicit)) {
    if (c.storage.packed) return DrawPackedDiagonal(draw, contract, p);
    if (c.storage.past > 0 && !p.key_lengths && has(CausalOffset::kByInputs)) {
      p.diagonal_offset.assign(static_cast<size_t>(p.batch), c.storage.past);  // ONNX counts it
      return true;
    }
  }
  const auto offered = OfferedAlignments(contract, p.key_lengths.has_value());
  if (offered.empty()) return false;
  const Alignment alignment = draw.Pick(offered);
  p.diagonal_offset =
      alignment == Alignment::kExplicit ? DrawExplicitOffsets(draw, p) : OffsetsFor(alignment, p);
  return true;
}

// Visibility, storage and what becomes of the scores.
void DrawOptions(Draw& draw, const Contract& contract, SizeClass sizes, Case& c) {
  Problem& p = c.problem;
  std::vector<Flag> flags = DrawFlags(draw, contract, sizes);
  KeepKeysForQueries(contract, p);
  DrawStorage(draw, contract, flags, c);
  if (Contains(flags, Flag::kKeyLengths)) DrawKeyLengths(draw, p);
  if (c.storage.page_size > 0) LengthenOne(draw, p);
  KeepKeysForQueries(contract, p);
  if (Contains(flags, Flag::kMask)) p.mask = DrawMask(draw, contract, p);
  if (Contains(flags, Flag::kBias)) p.bias = DrawBiasPlane(draw, contract, p);
  const bool causal = Contains(flags, Flag::kCausal) || Contains(flags, Flag::kPrefix);
  const bool window = Contains(flags, Flag::kWindow);
  const bool alibi = Contains(flags, Flag::kAlibi);
  // Where nothing is said of the diagonal, ALiBi measures from the one from the top left.
  if (alibi) p.alibi_slopes = DrawAlibi(draw, p);
  if ((causal || window || alibi) && DrawDiagonal(draw, contract, c)) {
    p.causal = causal;
    if (window) p.window = DrawWindow(draw, p);
    FitWindow(contract, p);
  }
  DrawFeatures(draw, contract, flags, p);
}

// Packed sequences have no room for scores, and pages have not every key that raw scores are of.
void DrawAskedScores(Draw& draw, const Contract& contract, Case& c) {
  std::vector<ScoreMode> modes(contract.scores.begin(), contract.scores.end());
  if (c.storage.page_size > 0 && c.problem.key_lengths) {
    std::erase(modes, ScoreMode::kRaw);
    std::erase(modes, ScoreMode::kCapped);
  }
  if (!modes.empty() && !c.storage.packed) c.problem.want_scores = draw.Pick(modes);
}

// Published scales, and now and then one far from them. By attest's own conventions a scale is a
// number like any other; ONNX's function body takes its root, and other operators read 0 as "not given".
double DrawScale(Draw& draw, const Contract& contract) {
  if (!draw.OneIn(4)) return draw.Pick<double>({1.0, 0.5, 0.125, 2.0, 0.3});
  if (contract.name != "attest-1") return draw.Pick<double>({1e-3, 8, 64, 0.1767767});
  const double scale = draw.Pick<double>({1e-3, 8, 64, 0.1767767, -0.5, -0.5, -2, 0});
  return contract.OffersScale(scale) ? scale : 1;
}

void DrawOutputsAndType(Draw& draw, const Contract& contract, Case& c) {
  Problem& p = c.problem;
  const std::vector<DType> dtypes = OfferedDTypes(contract);
  const bool f32 = std::ranges::find(dtypes, DType::kF32) != dtypes.end();
  p.dtype = f32 && draw.Percent(50) ? DType::kF32 : draw.Pick(dtypes);
  if (draw.Percent(50)) p.scale = DrawScale(draw, contract);
  p.want_lse = contract.lse != LseKind::kNone;
  p.want_weights = contract.Has(Feature::kWeights) && draw.Percent(35);
  if (!contract.scores.empty() && draw.OneIn(5)) DrawAskedScores(draw, contract, c);
  if (c.storage.packed) p.want_weights = false;  // has no room for them
  const bool is_short = p.dtype == DType::kF16 || p.dtype == DType::kBF16;
  if (p.bias && is_short && contract.Has(Feature::kBiasF32) && draw.Percent(40)) {
    p.bias_dtype = DType::kF32;
  }
}

// The layouts that keep a worker's mapping. Far ones cost a new one each, so that few cases of other properties have
// them.
std::vector<Layout> NearOnes(std::vector<Layout> layouts) {
  std::erase_if(layouts, IsFar);
  return layouts;
}

// Packed sequences have one layout, whatever the strides.
Layouts DrawLayouts(Draw& draw, const Contract& contract, bool is_packed) {
  const std::vector<Layout> offered = OfferedLayouts(contract);
  const Layout plain = offered.front();
  if (draw.Percent(60) || is_packed) return Layouts{plain, plain, plain, plain};
  const bool is_near = !draw.OneIn(16);
  const std::vector<Layout> all = is_near ? NearOnes(offered) : offered;
  const std::vector<Layout> keys = OfferedKeyLayouts(contract);
  const std::vector<Layout> of_keys = is_near ? NearOnes(keys) : keys;
  return Layouts{draw.Pick(all), draw.Pick(of_keys), draw.Pick(of_keys), draw.Pick(all)};
}

// The families whose answers need no tolerance come up half the time.
ScoreFamily DrawScores(Draw& draw) {
  static const std::vector<ScoreFamily> kExact = {ScoreFamily::kZero, ScoreFamily::kSmallIntegers,
                                                  ScoreFamily::kDominant};
  if (draw.Percent(40)) return draw.Pick(kExact);
  return static_cast<ScoreFamily>(draw.Below(kScoreFamilyCount));
}

ValueFamily DrawValues(Draw& draw) {
  if (draw.Percent(40)) return static_cast<ValueFamily>(draw.Below(5));  // kOnes .. kSmallIntegers
  return static_cast<ValueFamily>(draw.Below(kValueFamilyCount));
}

Recipe DrawRecipe(Draw& draw) {
  Recipe recipe;
  recipe.scores = DrawScores(draw);
  recipe.values = DrawValues(draw);
  recipe.bias = static_cast<BiasFamily>(draw.Below(kBiasFamilyCount));
  recipe.seed = draw.Bits() >> 48;  // 16 bits read better in a report than 64
  return recipe;
}

}  // namespace

Case DrawCase(uint64_t seed, int size, const Contract& contract, const GeneratorOptions& options) {
  size = std::clamp(size, 0, 100);
  Draw draw(MixIn(seed, static_cast<uint64_t>(size)));
  const Contract& within = draw.OneIn(20) ? EverythingContract() : contract;
  Case c;
  const SizeClass sizes = DrawSizes(draw, size, within, options, c.problem);
  DrawOptions(draw, within, sizes, c);
  DrawOutputsAndType(draw, within, c);
  c.recipe = DrawRecipe(draw);
  if (!c.problem.bias) c.recipe.bias = BiasFamily::kZero;
  c.layouts = DrawLayouts(draw, within, c.storage.packed);
  c.placement = draw.Percent(50) ? Placement::kEnd : Placement::kBegin;
  return c;
}

}  // namespace attest
