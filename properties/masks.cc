// Masks: one visible relation, however it is said. V one-hot reads the relation off the output, so
// polarity, alignment, window count and broadcasting all show as a picture and not as an error.
// Has caught: openvino#31630 (polarity), lighthouse#77 (batch and head swapped), ncnn#6869
// (channel).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/case/planes.h"
#include "properties/hidden_data.h"
#include "properties/judging.h"

namespace attest {
namespace {

// --- Reading the visible set off the output ---

// q = 0 gives every visible key the weight 1 / n, and V one-hot puts key j's weight into lane j.
Derived OneHot(const Case& original, const Contract& contract) {
  const int64_t kv_len = original.problem.kv_len;
  // 64: beyond this the pictures help nobody, and the output grows with the square.
  if (kv_len == 0 || kv_len > 64) return NotApplicable("no keys, or more than 64");
  // What could take a weight to nothing, or a one out of the format, is left out.
  const Case even = WithScores(WithoutFp8(WithoutScoreFeatures(original)), ScoreFamily::kZero);
  Case c = WithBias(WithValues(even, ValueFamily::kOneHot), BiasFamily::kZero);
  c.problem.value_dim = kv_len;
  if (!contract.Has(Feature::kValueDim)) c.problem.head_dim = kv_len;
  return Of(std::move(c));
}

// The same with a finite bias that shifts each row as a whole, as far as -1e4: it hides nothing.
Derived OneHotWithRowConstants(const Case& original, const Contract& contract) {
  Case c = original;
  if (!c.problem.bias) {
    c.problem.bias = BitPlane{{1, 1, c.problem.q_len, 1}, 4, {}};
    c.problem.bias->bits.assign(static_cast<size_t>(c.problem.q_len), 1);
  }
  Derived derived = OneHot(c, contract);
  for (Case& one : derived.cases) one.recipe.bias = BiasFamily::kRowConstant;
  return derived;
}

std::string DescribeKey(int64_t key, unsigned why) {
  if (why == kHiddenByNothing) return fmt::format("key {} is visible but not attended", key);
  std::string reasons;
  for (const auto& [bit, word] : {std::pair{kHiddenByLength, "its length"},
                                  {kHiddenByCausal, "causality"},
                                  {kHiddenByWindow, "the window"},
                                  {kHiddenByMask, "the mask"},
                                  {kHiddenByDocument, "its document"},
                                  {kHiddenByBlock, "the block mask"},
                                  {kHiddenByBias, "the additive mask"}}) {
    if (why & bit) reasons += (reasons.empty() ? "" : " and ") + std::string(word);
  }
  return fmt::format("key {}, hidden by {}, is attended", key, reasons);
}

Verdict JudgeVisibleSet(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const bool zero_rows = evidence.contract.semantics.empty_row == EmptyRow::kZero;
  const Array& due = evidence.oracle.ReferenceOf(0).out;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail || (IsEmptyRow(p, row) && !zero_rows)) return;
    ++verdict.rows;
    if (IsUnconstrained(evidence, 0, row) || IsOpenPadding(evidence, 0, row)) {
      ++verdict.unconstrained_rows;
      return;
    }
    for (int64_t j = 0; j < p.kv_len; ++j) {
      const std::array<int64_t, 4> at{row.batch, row.head, row.query, j};
      const double weight = evidence.outcomes[0].out.At(at[0], at[1], at[2], j);
      const unsigned why = WhyHidden(p, row, j);
      const bool attended = weight > 0;
      if (attended == (why == kHiddenByNothing) && (attended || weight == 0)) continue;
      const std::string reason =
          std::isnan(weight) ? "q is zero and V one-hot, so the lane should be the key's weight"
                             : "q is zero and V one-hot, so lane = key: " + DescribeKey(j, why);
      verdict = FailAt(p, "out", at, due.At(at[0], at[1], at[2], j), weight, 0, reason);
      return;
    }
  });
  return verdict;
}

// --- NaN and infinities made by masks ---

Derived Itself(const Case& c, const Contract&) {
  return Of(c);
}

// The element of a row that is not finite though everything the row sees is.
std::optional<Verdict> JudgeFiniteRow(const Evidence& evidence, const Row& row) {
  const Problem& p = evidence.cases[0].problem;
  for (int64_t d = 0; d < p.value_dim; ++d) {
    const std::array<int64_t, 4> at{row.batch, row.head, row.query, d};
    const double due = evidence.oracle.ReferenceOf(0).out.At(at[0], at[1], at[2], d);
    const double got = evidence.outcomes[0].out.At(at[0], at[1], at[2], d);
    if (std::isfinite(got) || !std::isfinite(due)) continue;
    return FailAt(p, "out", at, due, got, 0, "everything that the row sees is finite and in range");
  }
  return std::nullopt;
}

Verdict JudgeFinite(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  const bool zero_rows = evidence.contract.semantics.empty_row == EmptyRow::kZero;
  Verdict verdict;
  ForEachRow(p, [&](const Row& row) {
    if (verdict.kind == VerdictKind::kFail || (IsEmptyRow(p, row) && !zero_rows)) return;
    ++verdict.rows;
    if (IsUnconstrained(evidence, 0, row) || IsOpenPadding(evidence, 0, row)) {
      ++verdict.unconstrained_rows;
    } else if (auto failed = JudgeFiniteRow(evidence, row)) {
      verdict = *failed;
    }
  });
  return verdict;
}

// --- One relation, several forms ---

Derived BooleanAndAdditive(const Case& original, const Contract&) {
  // What a cap makes of -inf shows in the scores.
  const Case boolean = WithoutScoresOutput(WithoutBias(EnsureMask(original)));
  Case additive = WithBias(boolean, BiasFamily::kZero);
  additive.problem.bias = additive.problem.mask;
  additive.problem.mask.reset();
  return Of(boolean, std::move(additive));
}

Derived LengthsAndMask(const Case& original, const Contract& contract) {
  const Case lengths = EnsureLengths(original, contract);
  Case hiding = WithoutBias(WithBiasAlone(lengths));
  hiding.problem.key_lengths = lengths.problem.key_lengths;
  hiding.problem.mask = lengths.problem.mask;
  Case masked = lengths;
  masked.problem.mask = VisiblePlane(hiding.problem);
  masked.problem.key_lengths.reset();
  return Of(lengths, std::move(masked));
}

// Two mechanisms at once, against the one mask that hides what either hides.
Derived ComposedAndSingle(const Case& original, const Contract& contract) {
  Case composed = EnsureMask(WithoutScoresOutput(original));
  Draw draw = DrawFor(original, 0xC0);
  if (contract.Has(Feature::kMaskWithBias) && draw.Percent(50)) {
    composed = EnsureBias(std::move(composed));
  } else if (contract.Has(Feature::kCausal) && draw.Percent(50)) {
    composed = EnsureCausal(std::move(composed), contract);
  } else {
    composed = EnsureLengths(std::move(composed), contract);
  }
  composed = AsLiteral(composed);
  Case single = WithBiasAlone(composed);
  single.problem.mask = VisiblePlane(composed.problem);
  if (single.problem.bias) {
    std::ranges::fill(single.problem.bias->bits, 1);
    for (double& x : single.literals[DataTensor::kBias].values) {
      if (std::isinf(x)) x = 0;
    }
  }
  return Of(std::move(composed), std::move(single));
}

Verdict JudgeForm(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1, "two forms of one mask give two answers", options);
}

// --- Broadcasting ---

BitPlane DrawBroadcast(const Case& c) {
  Draw draw = DrawFor(c, 0xB0);
  BitPlane plane;
  plane.shape = c.problem.WeightsShape();
  for (size_t axis = 0; axis < 4; ++axis) {
    if (draw.Percent(axis == 3 ? 15 : 50)) plane.shape[axis] = 1;
  }
  if (draw.Percent(50)) {
    const auto first =
        std::ranges::find_if(plane.shape, [](int64_t extent) { return extent != 1; });
    const auto leading = static_cast<int>(first - plane.shape.begin());
    plane.rank = std::max(2, 4 - leading);
  }
  for (int64_t n = ElementCount(plane.shape); n > 0; --n) plane.bits.push_back(draw.Percent(65));
  return plane;
}

Derived BroadcastAndExpandedMask(const Case& original, const Contract&) {
  Case broadcast = WithoutBias(original);
  broadcast.problem.mask = DrawBroadcast(original);
  Case expanded = broadcast;
  expanded.problem.mask = ExpandTo(*broadcast.problem.mask, broadcast.problem.WeightsShape());
  return Of(std::move(broadcast), std::move(expanded));
}

Derived BroadcastAndExpandedBias(const Case& original, const Contract&) {
  Case broadcast = WithBias(original, BiasFamily::kSmallIntegers);
  broadcast.problem.mask.reset();
  broadcast.problem.bias = DrawBroadcast(original);
  broadcast = AsLiteral(broadcast);
  Case expanded = broadcast;
  const Shape4 full = broadcast.problem.WeightsShape();
  expanded.problem.bias = ExpandTo(*broadcast.problem.bias, full);
  expanded.literals[DataTensor::kBias] = ExpandTo(broadcast.literals[DataTensor::kBias], full);
  return Of(std::move(broadcast), std::move(expanded));
}

Verdict JudgeBroadcast(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1, "a broadcast mask gives another answer than its expansion",
                    options);
}

// --- A finite bias, and what is hidden ---

Derived WithoutAndWithConstant(const Case& original, const Contract& contract) {
  Case plain = WithoutScoresOutput(WithoutBias(original));
  plain.problem.sinks.reset();  // they do not move with the scores
  if (contract.semantics.softcap_order == SoftcapOrder::kAfterBias) plain.problem.softcap = 0;
  Case shifted = WithBias(plain, BiasFamily::kRowConstant);
  shifted.problem.bias = BitPlane{{1, 1, plain.problem.q_len, 1}, 4, {}};
  shifted.problem.bias->bits.assign(static_cast<size_t>(plain.problem.q_len), 1);
  return Of(std::move(plain), std::move(shifted));
}

Verdict JudgeConstantBias(const Evidence& evidence) {
  RelationOptions options;
  options.compare_lse = false;  // the lse moves by the constant
  return SameResult(evidence, 0, 1, "a constant added to a whole row's scores changed its output",
                    options);
}

template <Change kChange>
Derived ChangeTheMasked(const Case& c, const Contract&) {
  return DeriveHiddenChange(EnsureMask(c), kHiddenByMask, kChange);
}

template <Change kChange>
Derived ChangeTheBiased(const Case& c, const Contract&) {
  return DeriveHiddenChange(EnsureBias(c), kHiddenByBias, kChange);
}

template <PoisonTensor kTensor>
constexpr auto NeedsSafeMask =
    AllOf<Needs<Feature::kMask>, NeedsSafety<kTensor, Feature::kMask, PoisonPlace::kMask>>;
template <PoisonTensor kTensor>
constexpr auto NeedsSafeBias =
    AllOf<NeedsBias, NeedsSafety<kTensor, Feature::kBias, PoisonPlace::kBias>>;

constexpr std::array<Property, 15> kProperties = {{
    {"masks.make_no_nan_or_infinity",
     "a row whose visible inputs are finite and in range has a finite output, whatever is hidden",
     Exactness::kExact, Rung::kFinite, "nothing", AlwaysSupported, Itself, JudgeFinite},
    {"masks.one_hot_values_read_off_the_visible_set",
     "with q = 0 and V one-hot, exactly the visible keys' lanes are above zero", Exactness::kExact,
     Rung::kMaskCorrect, "nothing", AlwaysSupported, OneHot, JudgeVisibleSet},
    {"masks.a_finite_bias_hides_nothing",
     "a bias of down to -1e4 on a whole row leaves exactly the visible keys' lanes above zero",
     Exactness::kExact, Rung::kMaskCorrect, "an additive mask", NeedsBias, OneHotWithRowConstants,
     JudgeVisibleSet},
    {"masks.a_constant_bias_changes_no_output",
     "a constant added to a row's scores leaves its output", Exactness::kBound, Rung::kWithinBound,
     "an additive mask", NeedsBias, WithoutAndWithConstant, JudgeConstantBias},
    {"masks.boolean_equals_additive", "a boolean mask equals the additive one of 0 and -inf",
     Exactness::kBitwise, Rung::kMaskCorrect, "both masks",
     (AllOf<Needs<Feature::kMask>, NeedsBias>), BooleanAndAdditive, JudgeForm},
    {"masks.lengths_equal_mask", "key lengths equal the mask that hides the same keys",
     Exactness::kBitwise, Rung::kMaskCorrect, "key_lengths and a mask",
     (AllOf<Needs<Feature::kKeyLengths>, NeedsMask>), LengthsAndMask, JudgeForm},
    {"masks.composition_equals_intersection",
     "two mechanisms together equal the one mask that hides what either hides", Exactness::kBitwise,
     Rung::kMaskCorrect, "a mask", NeedsMask, ComposedAndSingle, JudgeForm},
    {"masks.broadcast_mask_equals_its_expansion",
     "a boolean mask of any broadcast shape and rank equals its expansion", Exactness::kBitwise,
     Rung::kMaskCorrect, "a mask", NeedsMask, BroadcastAndExpandedMask, JudgeBroadcast},
    {"masks.broadcast_bias_equals_its_expansion",
     "an additive mask of any broadcast shape and rank equals its expansion", Exactness::kBitwise,
     Rung::kMaskCorrect, "an additive mask", NeedsBias, BroadcastAndExpandedBias, JudgeBroadcast},
    {"masks.masked_keys_do_not_matter",
     "changing keys and values that the boolean mask hides changes no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "a mask", NeedsMask, ChangeTheMasked<Change::kFinite>,
     JudgeHiddenChange},
    {"masks.poison_in_masked_keys_does_not_matter",
     "NaN and infinities in keys that the boolean mask hides change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "mask, poison_safe k:mask", NeedsSafeMask<PoisonTensor::kK>,
     ChangeTheMasked<Change::kPoisonKeys>, JudgeHiddenChange},
    {"masks.poison_in_masked_values_does_not_matter",
     "NaN and infinities in values that the boolean mask hides change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "mask, poison_safe v:mask", NeedsSafeMask<PoisonTensor::kV>,
     ChangeTheMasked<Change::kPoisonValues>, JudgeHiddenChange},
    {"masks.keys_hidden_by_bias_do_not_matter",
     "changing keys and values where the bias is -inf changes no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "an additive mask", NeedsBias, ChangeTheBiased<Change::kFinite>,
     JudgeHiddenChange},
    {"masks.poison_in_keys_hidden_by_bias_does_not_matter",
     "NaN and infinities in keys where the bias is -inf change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "bias, poison_safe k:bias", NeedsSafeBias<PoisonTensor::kK>,
     ChangeTheBiased<Change::kPoisonKeys>, JudgeHiddenChange},
    {"masks.poison_in_values_hidden_by_bias_does_not_matter",
     "NaN and infinities in values where the bias is -inf change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "bias, poison_safe v:bias", NeedsSafeBias<PoisonTensor::kV>,
     ChangeTheBiased<Change::kPoisonValues>, JudgeHiddenChange},
}};

}  // namespace

std::span<const Property> MasksProperties() {
  return kProperties;
}

}  // namespace attest
