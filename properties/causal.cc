// Causality: a row sees no key after its diagonal. What lies beyond may be anything.
// Has caught: vllm#936 (tail block), flash-attention#282 (diagonal slides when q_len != kv_len).
#include <algorithm>
#include <array>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/judge/compare.h"
#include "properties/hidden_data.h"

namespace attest {
namespace {

template <Change kChange>
Derived ChangeTheFuture(const Case& c, const Contract& contract) {
  return DeriveHiddenChange(EnsureCausal(c, contract), kHiddenByCausal, kChange);
}

template <PoisonTensor kTensor>
constexpr auto NeedsSafeFuture =
    AllOf<NeedsCausal, NeedsSafety<kTensor, Feature::kCausal, PoisonPlace::kCausal>>;

Derived FlagAndTriangle(const Case& original, const Contract& contract) {
  const Case c = EnsureCausal(original, contract);
  return Of(c, WithExplicitMask(c));
}

Verdict JudgeFlag(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1, "the causal flag does not mean the triangle it stands for",
                    options);
}

// Queries [0, split) and [split, q_len) in two calls. Where the kernel's diagonal ends at the last
// key (bottom right), the first chunk must not see the keys that come later, so they are cut off;
// not where a prefix shows them to it.
Derived WholeAndChunks(const Case& original, const Contract& contract) {
  const Case c = WithoutScoresOutput(AsLiteral(EnsureCausal(original, contract)));
  const Problem& p = c.problem;
  if (p.q_len < 2) return NotApplicable("fewer than two queries");
  const int64_t split = DrawFor(c, 0xC4).Between(1, p.q_len - 1);
  Case first = Select(c, Axis::kQLen, IndexRange(0, split));
  const Case second = Select(c, Axis::kQLen, IndexRange(split, p.q_len - split));
  const bool same_offset = std::ranges::all_of(
      p.diagonal_offset, [&](int64_t o) { return o == p.diagonal_offset.front(); });
  const int64_t keys = std::clamp<int64_t>(split + p.DiagonalOffset(0), 0, p.kv_len);
  if (p.batch > 0 && same_offset && keys > 0 && !p.prefix_lengths &&
      !CanExpressDiagonal(contract, first.problem)) {
    first = Select(first, Axis::kKvLen, IndexRange(0, keys));
  }
  return Of(c, std::move(first), second);
}

Verdict JudgeChunks(const Evidence& evidence) {
  const int64_t split = evidence.cases[1].problem.q_len;
  const bool cut = evidence.cases[1].problem.kv_len != evidence.cases[0].problem.kv_len;
  RelationOptions first, second;
  first.exact = second.exact = evidence.contract.Promises(Invariance::kQLen);
  first.exact = first.exact && (!cut || evidence.contract.Promises(Invariance::kKvLen));
  first.compare_weights = !cut;
  first.rows = [=](const Row& row) { return row.query < split; };
  second.rows = [=](const Row& row) { return row.query >= split; };
  second.to_b = [=](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{i[0], i[1], i[2] - split, i[3]};
  };
  constexpr std::string_view kWhy = "the queries give another answer when they come in two chunks";
  return Worst(SameResult(evidence, 0, 1, kWhy, first), SameResult(evidence, 0, 2, kWhy, second));
}

constexpr std::array<Property, 5> kProperties = {{
    {"causal.future_keys_do_not_matter",
     "changing a future key or value changes no bit of earlier rows", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "causal", NeedsCausal, ChangeTheFuture<Change::kFinite>,
     JudgeHiddenChange},
    {"causal.poison_in_future_keys_does_not_matter",
     "NaN and infinities in future keys change no bit of earlier rows", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "causal, poison_safe k:causal", NeedsSafeFuture<PoisonTensor::kK>,
     ChangeTheFuture<Change::kPoisonKeys>, JudgeHiddenChange},
    {"causal.poison_in_future_values_does_not_matter",
     "NaN and infinities in future values change no bit of earlier rows", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "causal, poison_safe v:causal", NeedsSafeFuture<PoisonTensor::kV>,
     ChangeTheFuture<Change::kPoisonValues>, JudgeHiddenChange},
    {"causal.flag_equals_explicit_triangle",
     "the causal flag equals the same triangle given as a mask", Exactness::kBitwise,
     Rung::kMaskCorrect, "causal and a mask", (AllOf<NeedsCausal, NeedsMask>), FlagAndTriangle,
     JudgeFlag},
    {"causal.chunked_equals_one_shot",
     "queries in two chunks, the diagonal carried on, equal the queries in one call",
     Exactness::kBound, Rung::kMaskCorrect, "causal", NeedsCausal, WholeAndChunks, JudgeChunks},
}};

}  // namespace

std::span<const Property> CausalProperties() {
  return kProperties;
}

}  // namespace attest
