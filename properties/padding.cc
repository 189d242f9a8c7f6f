// Padding: keys at or beyond an item's length are not there. Their values, their number and their
// side change nothing. Has caught: jax#23349 (lengths ignored), triton-style tails,
// flash-attention#1745.
#include <algorithm>
#include <array>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/judge/compare.h"
#include "properties/hidden_data.h"

namespace attest {
namespace {

template <Change kChange>
Derived ChangeThePadding(const Case& c, const Contract& contract) {
  return DeriveHiddenChange(EnsureLengths(c, contract), kHiddenByLength, kChange);
}

template <PoisonTensor kTensor>
constexpr auto NeedsSafePadding = NeedsSafety<kTensor, Feature::kKeyLengths, PoisonPlace::kLength>;

bool HasKvAxis(const std::optional<BitPlane>& plane) {
  return plane && plane->shape[3] != 1;
}

Derived WithAndWithoutPadding(const Case& original, const Contract& contract) {
  const Case c = WithoutKeyOutputs(AsLiteral(EnsureLengths(original, contract)));
  const auto& lengths = *c.problem.key_lengths;
  const int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  if (longest == c.problem.kv_len) return NotApplicable("no key is padding in every item");
  return Of(c, Select(c, Axis::kKvLen, IndexRange(0, longest)));
}

Derived WithMorePadding(const Case& original, const Contract& contract) {
  const Case c = WithoutKeyOutputs(EnsureLengths(original, contract));
  return Of(c, ExtendKeys(c, DrawFor(c, 0xADD).Between(1, 9)));
}

Verdict JudgeLength(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kKvLen) &&
                  evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1, "the result depends on how many padded keys there are",
                    options);
}

// Moves the padding of each item from the end to the beginning: key j goes to j + padding.
Array Rotated(const Array& array, size_t axis, const std::vector<int64_t>& lengths,
              int64_t kv_len) {
  Array moved(array.shape);
  for (int64_t a = 0; a < array.shape[0]; ++a)
    for (int64_t b = 0; b < array.shape[1]; ++b)
      for (int64_t i = 0; i < array.shape[2]; ++i)
        for (int64_t d = 0; d < array.shape[3]; ++d) {
          const int64_t length = lengths[static_cast<size_t>(a)];
          const int64_t from = axis == 2 ? i : d;
          const int64_t to = from < length ? from + kv_len - length : from - length;
          moved.At(a, b, axis == 2 ? to : i, axis == 3 ? to : d) = array.At(a, b, i, d);
        }
  return moved;
}

Derived RightAndLeftPadding(const Case& original, const Contract& contract) {
  Case right = WithoutKeyOutputs(WithoutScoreFeatures(original));
  right.problem.causal = false;  // position-dependent: the keys are about to move
  right.problem.window = {};
  right.problem.prefix_lengths.reset();
  right = AsLiteral(EnsureLengths(std::move(right), contract));
  if (HasKvAxis(right.problem.bias)) return NotApplicable("an additive mask over the keys");
  const std::vector<int64_t> lengths = *right.problem.key_lengths;
  Case left = WithExplicitMask(right);
  Array bits(left.problem.mask->shape);
  std::ranges::copy(left.problem.mask->bits, bits.values.begin());
  bits = Rotated(bits, 3, lengths, right.problem.kv_len);
  left.problem.mask->bits.assign(bits.values.begin(), bits.values.end());
  for (const DataTensor tensor : {DataTensor::kK, DataTensor::kV}) {
    left.literals[tensor] = Rotated(left.literals[tensor], 2, lengths, right.problem.kv_len);
  }
  return Of(std::move(right), std::move(left));
}

Verdict JudgeSide(const Evidence& evidence) {
  RelationOptions options;
  return SameResult(evidence, 0, 1, "left padding gives another answer than right padding",
                    options);
}

constexpr std::array<Property, 6> kProperties = {{
    {"padding.padded_keys_do_not_matter",
     "changing padded keys and values, to large finite ones too, changes no bit",
     Exactness::kBitwise, Rung::kHiddenMeansHidden, "key_lengths or a mask", NeedsLengths,
     ChangeThePadding<Change::kFinite>, JudgeHiddenChange},
    {"padding.poison_in_padded_keys_does_not_matter",
     "NaN and infinities in padded keys alone change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "key_lengths or a mask, poison_safe k:length",
     NeedsSafePadding<PoisonTensor::kK>, ChangeThePadding<Change::kPoisonKeys>, JudgeHiddenChange},
    {"padding.poison_in_padded_values_does_not_matter",
     "NaN and infinities in padded values alone change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "key_lengths or a mask, poison_safe v:length",
     NeedsSafePadding<PoisonTensor::kV>, ChangeThePadding<Change::kPoisonValues>,
     JudgeHiddenChange},
    {"padding.removing_padded_keys_changes_nothing",
     "cutting off keys that are padding in every item changes nothing", Exactness::kBound,
     Rung::kHiddenMeansHidden, "key_lengths or a mask", NeedsLengths, WithAndWithoutPadding,
     JudgeLength},
    {"padding.adding_padded_keys_changes_nothing", "appending padded keys changes nothing",
     Exactness::kBound, Rung::kHiddenMeansHidden, "key_lengths or a mask", NeedsLengths,
     WithMorePadding, JudgeLength},
    {"padding.side_does_not_matter",
     "keys padded on the left (by mask) give what keys padded on the right give", Exactness::kBound,
     Rung::kMaskCorrect, "key_lengths or a mask", NeedsLengths, RightAndLeftPadding, JudgeSide},
}};

}  // namespace

std::span<const Property> PaddingProperties() {
  return kProperties;
}

}  // namespace attest
