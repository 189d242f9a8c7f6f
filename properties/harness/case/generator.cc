#include "properties/harness/case/generator.h"

#include <algorithm>
#include <array>

#include "properties/harness/case/generator_internal.h"
#include "properties/harness/case/offers.h"

namespace attest {
namespace {

// The mechanisms of visibility. Most real faults need two of them at once.
enum class Flag { kCausal, kWindow, kKeyLengths, kMask, kBias };

std::vector<Flag> OfferedFlags(const Contract& contract) {
  const bool diagonal =
      !OfferedAlignments(contract, false).empty() || !OfferedAlignments(contract, true).empty();
  std::vector<Flag> flags;
  if (contract.Has(Feature::kCausal) && diagonal) flags.push_back(Flag::kCausal);
  if (contract.Has(Feature::kWindow) && diagonal) flags.push_back(Flag::kWindow);
  if (contract.Has(Feature::kKeyLengths)) flags.push_back(Flag::kKeyLengths);
  if (contract.Has(Feature::kMask)) flags.push_back(Flag::kMask);
  if (contract.Has(Feature::kBias)) flags.push_back(Flag::kBias);
  return flags;
}

// Zero to three different flags, two most often; a mask and a bias only where they may meet.
std::vector<Flag> DrawFlags(Draw& draw, const Contract& contract) {
  std::vector<Flag> offered = OfferedFlags(contract);
  const int64_t roll = draw.Below(100);
  size_t wanted = roll < 10 ? 0 : roll < 30 ? 1 : roll < 80 ? 2 : 3;
  std::vector<Flag> flags;
  for (; wanted > 0 && !offered.empty(); --wanted) {
    const Flag flag = draw.Pick(offered);
    flags.push_back(flag);
    const bool excludes = !contract.Has(Feature::kMaskWithBias);
    std::erase_if(offered, [&](Flag other) {
      const bool meets = (flag == Flag::kMask && other == Flag::kBias) ||
                         (flag == Flag::kBias && other == Flag::kMask);
      return other == flag || (excludes && meets);
    });
  }
  return flags;
}

bool Contains(const std::vector<Flag>& flags, Flag flag) {
  return std::ranges::find(flags, flag) != flags.end();
}

int64_t DrawLength(Draw& draw, int64_t kv_len) {
  const int64_t roll = draw.Below(100);
  if (roll < 25) return kv_len;
  if (roll < 40) return std::max<int64_t>(kv_len - 1, 0);
  if (roll < 52) return std::min<int64_t>(1, kv_len);
  if (roll < 62) return 0;
  return draw.Between(0, kv_len);
}

void DrawKeyLengths(Draw& draw, Problem& p) {
  p.key_lengths.emplace();
  for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(DrawLength(draw, p.kv_len));
}

// (0, 0), one side open, both closed, and sides that reach beyond every key.
Window DrawWindow(Draw& draw, const Problem& p) {
  const auto side = [&]() -> int64_t {
    const int64_t roll = draw.Below(100);
    if (roll < 25) return 0;
    if (roll < 60) return draw.Between(1, 4);
    if (roll < 85) return draw.Between(0, std::max<int64_t>(p.kv_len, 1));
    return p.q_len + p.kv_len + 1;
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

// False when the contract can express no diagonal for this problem.
bool DrawDiagonal(Draw& draw, const Contract& contract, Problem& p) {
  const auto offered = OfferedAlignments(contract, p.key_lengths.has_value());
  if (offered.empty()) return false;
  const Alignment alignment = draw.Pick(offered);
  p.diagonal_offset =
      alignment == Alignment::kExplicit ? DrawExplicitOffsets(draw, p) : OffsetsFor(alignment, p);
  return true;
}

void DrawVisibility(Draw& draw, const Contract& contract, Problem& p) {
  const std::vector<Flag> flags = DrawFlags(draw, contract);
  if (Contains(flags, Flag::kKeyLengths)) DrawKeyLengths(draw, p);
  if (Contains(flags, Flag::kMask)) p.mask = DrawMask(draw, contract, p);
  if (Contains(flags, Flag::kBias)) p.bias = DrawBiasPlane(draw, contract, p);
  const bool causal = Contains(flags, Flag::kCausal);
  const bool window = Contains(flags, Flag::kWindow);
  if ((causal || window) && DrawDiagonal(draw, contract, p)) {
    p.causal = causal;
    if (window) p.window = DrawWindow(draw, p);
  }
}

void DrawOutputsAndType(Draw& draw, const Contract& contract, Problem& p) {
  const std::vector<DType> dtypes = OfferedDTypes(contract);
  const bool f32 = std::ranges::find(dtypes, DType::kF32) != dtypes.end();
  p.dtype = f32 && draw.Percent(50) ? DType::kF32 : draw.Pick(dtypes);
  if (draw.Percent(50)) p.scale = draw.Pick<double>({1.0, 0.5, 0.125, 2.0, 0.3});
  p.want_lse = contract.lse != LseKind::kNone;
  p.want_weights = contract.Has(Feature::kWeights) && draw.Percent(35);
}

Layouts DrawLayouts(Draw& draw, const Contract& contract) {
  const std::vector<Layout> offered = OfferedLayouts(contract);
  const Layout plain = offered.front();
  if (draw.Percent(60)) return Layouts{plain, plain, plain, plain};
  return Layouts{draw.Pick(offered), draw.Pick(offered), draw.Pick(offered), draw.Pick(offered)};
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
  DrawSizes(draw, size, within, options, c.problem);
  DrawVisibility(draw, within, c.problem);
  DrawOutputsAndType(draw, within, c.problem);
  c.recipe = DrawRecipe(draw);
  if (!c.problem.bias) c.recipe.bias = BiasFamily::kZero;
  c.layouts = DrawLayouts(draw, within);
  c.placement = draw.Percent(50) ? Placement::kEnd : Placement::kBegin;
  return c;
}

}  // namespace attest
