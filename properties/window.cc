// Window: a row sees its window and nothing beside it. Has caught: transformers#39408 (one key too
// many), jax#32300 (ignored without a mask), jax#39576 (right side never sent).
#include <algorithm>
#include <array>
#include <cstdint>

#include "properties/derive.h"
#include "properties/harness/judge/compare.h"
#include "properties/hidden_data.h"

namespace attest {
namespace {

template <Change kChange>
Derived ChangeOutside(const Case& c, const Contract& contract) {
  return DeriveHiddenChange(EnsureWindow(c, contract), kHiddenByWindow, kChange);
}

template <PoisonTensor kTensor>
constexpr auto NeedsSafeOutside =
    AllOf<NeedsWindow, NeedsSafety<kTensor, Feature::kWindow, PoisonPlace::kWindow>>;

Derived WindowAndBand(const Case& original, const Contract& contract) {
  const Case c = EnsureWindow(original, contract);
  return Of(c, WithExplicitMask(c));
}

Verdict JudgeBand(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1, "the window does not mean the band it stands for", options);
}

// A left side that reaches beyond every key, with right = 0, leaves exactly the causal triangle. (A
// prefix undoes causality, and no window.)
Derived WideWindowAndCausal(const Case& original, const Contract& contract) {
  Case causal = EnsureCausal(original, contract);
  causal.problem.window = {};
  causal.problem.prefix_lengths.reset();
  int64_t last = causal.problem.q_len;  // no row stands beyond this key
  for (const int64_t offset : causal.problem.diagonal_offset) {
    last = std::max(last, causal.problem.q_len + offset);
  }
  const int64_t left = last + causal.problem.kv_len + 64;
  if (left > kMaxSize)
    return NotApplicable("no window reaches the first key from so far a diagonal");
  Case window = causal;
  window.problem.causal = false;
  window.problem.window = {left, 0};
  return Of(std::move(causal), std::move(window));
}

Verdict JudgeWide(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1, "a window open to the left is not causal", options);
}

constexpr std::array<Property, 5> kProperties = {{
    {"window.keys_outside_do_not_matter",
     "changing keys and values outside the window changes no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "window", NeedsWindow, ChangeOutside<Change::kFinite>,
     JudgeHiddenChange},
    {"window.poison_in_keys_outside_does_not_matter",
     "NaN and infinities in keys outside the window change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "window, poison_safe k:window", NeedsSafeOutside<PoisonTensor::kK>,
     ChangeOutside<Change::kPoisonKeys>, JudgeHiddenChange},
    {"window.poison_in_values_outside_does_not_matter",
     "NaN and infinities in values outside the window change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "window, poison_safe v:window", NeedsSafeOutside<PoisonTensor::kV>,
     ChangeOutside<Change::kPoisonValues>, JudgeHiddenChange},
    {"window.equals_explicit_band", "the window equals the same band given as a mask",
     Exactness::kBitwise, Rung::kMaskCorrect, "window and a mask", (AllOf<NeedsWindow, NeedsMask>),
     WindowAndBand, JudgeBand},
    {"window.open_to_the_left_is_causal",
     "a left side beyond every key with right = 0 equals the causal flag", Exactness::kBitwise,
     Rung::kMaskCorrect, "window and causal", (AllOf<NeedsWindow, NeedsCausal>),
     WideWindowAndCausal, JudgeWide},
}};

}  // namespace

std::span<const Property> WindowProperties() {
  return kProperties;
}

}  // namespace attest
