// What each fault of the plain kernel does that mutants_test.cc does not show, on calls whose right
// answer anyone can see; those of the blocked kernel are in blocked_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "impl/mutants/testing.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::IsNan;

// The byte 0xA5 four times: what a direct call puts into outputs beforehand.
bool IsUntouched(double value) {
  return std::abs(value + 2.87e-16) < 1e-18;
}

TEST(FaultsTest, EmptyRowsAreNotWhatTheyShouldBe) {
  Small s(1, 1, 2);
  s.problem.key_lengths = {{0}};
  EXPECT_EQ(s.Lse(""), -INFINITY);
  EXPECT_EQ(s.Lse("lse-of-empty-row-positive"), INFINITY);
  EXPECT_EQ(s.Out("hidden-scores-lowest"), 1.5);
  EXPECT_TRUE(IsUntouched(s.Out("out-of-no-keys-unwritten")));
  EXPECT_EQ(s.Lse("out-of-no-keys-unwritten"), -INFINITY);
  s.problem.key_lengths = {{1}};
  EXPECT_EQ(s.Out("hidden-scores-lowest"), 1);
  EXPECT_EQ(s.Out("out-of-no-keys-unwritten"), 1);
  s.problem.key_lengths.reset();
  s.problem.head_dim = 0;
  s.problem.scale = 1;
  s.Resize();
  EXPECT_EQ(s.Out(""), 1.5);
  EXPECT_EQ(s.Out("zero-head-dim-is-empty"), 0);
}

TEST(FaultsTest, TheTriangleLiesOnEveryTile) {
  Small s(1, 6, 6);
  s.problem.causal = true;
  EXPECT_EQ(s.Out("", 0, 0, 4), 3);
  EXPECT_EQ(s.Out("triangle-on-every-tile", 0, 0, 1), (1 + 2 + 5 + 6) / 4.0);
  EXPECT_EQ(s.Out("triangle-on-every-tile", 0, 0, 4), 3);  // keys 0 and 4
}

TEST(FaultsTest, APastMovesNoDiagonalForSeveralQueries) {
  Small s(1, 2, 4);
  s.problem.causal = true;
  s.problem.diagonal_offset = {2};
  const DirectForm past{DirectLayout::kDense, DirectStorage::kPast};
  EXPECT_THAT(s.Run("past-moves-no-diagonal").out.values, ElementsAre(2, 2.5));
  EXPECT_THAT(s.Run("past-moves-no-diagonal", past).out.values, ElementsAre(1, 1.5));
}

TEST(FaultsTest, AskingForWeightsDropsCausality) {
  Small s(1, 1, 2);
  s.problem.causal = true;
  EXPECT_EQ(s.Out("causal-dropped-with-weights"), 1);
  s.problem.want_weights = true;
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_EQ(s.Out("causal-dropped-with-weights"), 1.5);
}

TEST(FaultsTest, WindowsGoWrong) {
  Small s(1, 1, 5);
  s.problem.diagonal_offset = {2};
  s.problem.window = {0, 1};
  EXPECT_EQ(s.Out(""), 3.5);
  EXPECT_EQ(s.Out("window-right-one-fewer"), 3);
  s.problem.window = {1 << 16, 0};
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_EQ(s.Out("window-in-16-bits"), 3);
  s.problem.window = {0, std::nullopt};
  s.problem.causal = true;
  EXPECT_EQ(s.Out(""), 3);
  EXPECT_EQ(s.Out("window-multiplied"), 2);  // keys 0 to 2: those before the window are back
  s.Mask({1, 1, 1, 5}, {1, 1, 0, 1, 1});
  EXPECT_EQ(s.Out(""), 0);
  EXPECT_EQ(s.Out("window-replaces-mask"), 3);
}

TEST(FaultsTest, LengthsGoWrongBesideOthers) {
  Small s(1, 2, 2);
  s.problem.key_lengths = {{1}};
  EXPECT_EQ(s.Out("lengths-dropped-beside-mask"), 1);
  EXPECT_EQ(s.Out("padding-hides-rows", 0, 0, 0), 1);
  EXPECT_EQ(s.Out("padding-hides-rows", 0, 0, 1), 0);
  s.Mask({1, 1, 1, 2}, {1, 1});
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_EQ(s.Out("lengths-dropped-beside-mask"), 1.5);
}

TEST(FaultsTest, MasksAreReadAtOtherPlaces) {
  Small s(2, 1, 2);
  s.problem.q_heads = s.problem.kv_heads = 2;
  s.Resize();  // values 1 2, 3 4 and 5 6, 7 8
  s.Mask({2, 2, 1, 2}, {1, 0, 0, 1, 1, 1, 1, 0});
  EXPECT_EQ(s.Out("", 0, 1), 4);
  EXPECT_EQ(s.Out("mask-head-major", 0, 1), 3.5);  // bits 1 1 of item 1, head 0
  EXPECT_EQ(s.Out("mask-batch-by-kv-head", 0, 1), 3);
  EXPECT_EQ(s.Out("mask-inverted", 0, 1), 3);
}

TEST(FaultsTest, TheMaskComesAfterTheSoftmax) {
  Small s(1, 1, 2);
  s.problem.want_weights = true;
  s.Mask({1, 1, 1, 2}, {0, 1});
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_EQ(s.Out("mask-after-softmax"), 1);
  EXPECT_THAT(s.Run("mask-after-softmax").weights.values, ElementsAre(0, 0.5));
}

TEST(FaultsTest, TwoFillersAreTooMuch) {
  Small s(1, 1, 2);
  s.problem.dtype = DType::kBF16;
  s.problem.causal = true;
  s.problem.diagonal_offset = {-1};
  EXPECT_EQ(s.Out(""), 0);
  EXPECT_EQ(s.Out("fillers-added"), 1.5);  // each hidden once
  s.Mask({1, 1, 1, 2}, {0, 0});
  EXPECT_EQ(s.Out(""), 0);
  EXPECT_THAT(s.Out("fillers-added"), IsNan());
}

TEST(FaultsTest, AWideBiasIsNarrowed) {
  Small s(1, 1, 2);
  s.problem.dtype = DType::kBF16;
  s.problem.bias_dtype = DType::kF32;
  s.problem.bias = BitPlane{{1, 1, 1, 2}, 4, {1, 1}};
  s.inputs.bias = Array({1, 1, 1, 2});
  s.inputs.bias.values = {100.2, 100};
  EXPECT_EQ(s.Out("wide-bias-narrowed"), 1.5);
  EXPECT_LT(s.Out(""), 1.5);
}

TEST(FaultsTest, ATailPoisonsByItsValuesAlone) {
  Small s(1, 1, 3);
  s.problem.key_lengths = {{1}};
  s.inputs.k.values[1] = NAN;
  EXPECT_EQ(s.Out("tail-values-poisoned"), 1);
  s.inputs.v.values[2] = NAN;
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_THAT(s.Out("tail-values-poisoned"), IsNan());
}

TEST(FaultsTest, ComponentsBeyond64AreLost) {
  Small s(1, 1, 2);
  s.problem.head_dim = 65;
  s.problem.scale = 1;
  s.Resize();
  s.inputs.k.values[64] = 100;
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_EQ(s.Out("head-dim-capped"), 1.5);
}

TEST(FaultsTest, MaximaAreNotWhatTheyShouldBe) {
  Small s(1, 1, 5);
  s.inputs.k.values = {0, 0, 0, 0, 100};
  EXPECT_EQ(s.Out(""), 5);
  EXPECT_EQ(s.Out("values-not-rescaled"), 15);
  EXPECT_THAT(s.Out("constant-subtracted"), IsNan());
  s.inputs.k.values[4] = 50;
  EXPECT_EQ(s.Out("constant-subtracted"), 5);
}

TEST(FaultsTest, ALateSinkOverflows) {
  Small s(1, 1, 1);
  s.problem.sinks = {{0.0}};
  EXPECT_EQ(s.Lse("sink-not-in-maximum"), s.Lse(""));
  s.problem.sinks = {{1000.0}};
  EXPECT_EQ(s.Lse(""), 1000);
  EXPECT_EQ(s.Lse("sink-not-in-maximum"), INFINITY);
}

TEST(FaultsTest, SlopesAreOneGeometricRow) {
  Small s(1, 1, 2);
  s.problem.q_heads = s.problem.kv_heads = 3;
  s.problem.alibi_slopes = {{0, 0, 0}};
  s.Resize();
  EXPECT_EQ(s.Out("", 0, 2), 5.5);
  EXPECT_LT(s.Out("alibi-slopes-geometric", 0, 0), 1.5);  // 2^(-8/3)
  s.problem.q_heads = s.problem.kv_heads = 2;
  s.problem.alibi_slopes = {{0, 0}};
  s.Resize();
  EXPECT_EQ(s.Out("alibi-slopes-geometric", 0, 0), 1.5);
}

TEST(FaultsTest, HalfPrecisionIsAPathOfItsOwn) {
  Small s(1, 1, 2);
  s.problem.dtype = DType::kF16;
  s.problem.softcap = 1;
  s.inputs.k.values = {0, 100};
  EXPECT_LT(s.Out(""), 1.8);
  EXPECT_EQ(s.Out("softcap-skipped-in-f16"), 2);
  s.problem.softcap = 0;
  s.problem.scale = 0x1p-10;
  s.inputs.q.values = {1000};
  s.inputs.k.values = {1000, 1000};
  EXPECT_EQ(s.Out(""), 1.5);
  EXPECT_THAT(s.Out("scores-scaled-late"), IsNan());
}

TEST(FaultsTest, GroupsAreMisread) {
  Small s(1, 1, 1);
  s.problem.q_heads = 6;
  s.problem.kv_heads = 2;
  s.Resize();
  EXPECT_EQ(s.Out("", 0, 3), 2);
  EXPECT_EQ(s.Out("group-size-power-of-two", 0, 3), 1);
  EXPECT_EQ(s.Out("group-size-power-of-two", 0, 4), 2);
  EXPECT_EQ(s.Out("kv-head-modulo-in-window", 0, 1), 1);
  s.problem.window = {0, 0};
  EXPECT_EQ(s.Out("kv-head-modulo-in-window", 0, 1), 2);
}

TEST(FaultsTest, StridesAreTakenForGranted) {
  Small s(2, 1, 2);
  s.problem.head_dim = s.problem.value_dim = 2;
  s.problem.q_heads = s.problem.kv_heads = 2;
  s.problem.scale = 1;
  s.Resize();
  for (size_t n = 0; n < s.inputs.k.values.size(); ++n) s.inputs.k.values[n] = double(n % 3);
  const DirectForm gapped{DirectLayout::kGapped};
  const std::vector<double> right = s.Run("").out.values;
  for (const std::string_view id :
       {"inner-stride-one", "values-read-as-dense", "strided-values-of-batch-0"}) {
    EXPECT_EQ(s.Run(id).out.values, right) << id;
    EXPECT_NE(s.Run(id, gapped).out.values, right) << id;
  }
  EXPECT_EQ(s.Run("", gapped).out.values, right);
  EXPECT_NE(s.Run("values-read-as-dense", {DirectLayout::kBshd}).out.values, right);
}

TEST(FaultsTest, OffsetsBeyond15BitsAreLost) {
  Small s(1, 1, 3);
  s.problem.head_dim = 16384;
  s.problem.scale = 1;
  s.Resize();
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_EQ(s.Out("offset-in-16-bits"), 1.5);
}

TEST(FaultsTest, ValuesHaveTheirOwnSize) {
  Small s(1, 1, 2);
  s.problem.value_dim = 2;
  s.Resize();
  const DirectResult out = s.Run("value-lanes-by-head-dim");
  EXPECT_EQ(out.out.values[0], 2);
  EXPECT_TRUE(IsUntouched(out.out.values[1]));
  const DirectForm past{DirectLayout::kDense, DirectStorage::kPast, true};
  const DirectResult present = s.Run("present-values-by-head-dim", past);
  EXPECT_THAT(s.Run("", past).present_v.values, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(present.present_v.values[2], 3);
  EXPECT_TRUE(IsUntouched(present.present_v.values[1]));
}

TEST(FaultsTest, PagesBeginInThePageBefore) {
  const Small s(1, 1, 4);
  const DirectForm pages{DirectLayout::kDense, DirectStorage::kPages};
  EXPECT_EQ(s.Run("", pages).out.values[0], 2.5);
  EXPECT_EQ(s.Run("page-of-the-previous", pages).out.values[0], (1 + 2 + 1 + 4) / 4.0);
}

TEST(FaultsTest, PackedItemsMayHaveNoQuery) {
  Small s(2, 1, 1);
  s.problem.query_lengths = {{0, 1}};
  s.inputs.k.values = {0, 0};
  const DirectForm packed{DirectLayout::kDense, DirectStorage::kPacked};
  EXPECT_EQ(s.Run("packed-single-query", packed).out.values[1], 2);  // there is no other row
  Small three(3, 1, 2);
  three.problem.query_lengths = {{0, 1, 1}};
  three.inputs.q.values = {0, 0, 100};
  three.inputs.k.values = {0, 1, 0, 1, 0, 1};
  EXPECT_EQ(three.Run("", packed).out.values[1], 3.5);
  EXPECT_EQ(three.Run("packed-single-query", packed).out.values[1], 4);
}

TEST(FaultsTest, TheLastCallComesBack) {
  Small s(1, 1, 2);
  s.problem.key_lengths = {{2}};
  s.inputs.k.values = {0, 100};
  Small other = s;
  other.problem.scale = 0;
  other.problem.key_lengths = {{1}};
  const DirectKernel scales = Make("scale-of-last-call");
  EXPECT_EQ(scales.Run(s.problem, s.inputs).out.values[0], 2);
  other.problem.key_lengths = {{2}};
  EXPECT_EQ(scales.Run(other.problem, other.inputs).out.values[0], 2);
  EXPECT_EQ(other.Out(""), 1.5);
  const DirectKernel lengths = Make("lengths-of-last-call");
  EXPECT_EQ(lengths.Run(s.problem, s.inputs).out.values[0], 2);
  other = s;
  other.problem.key_lengths = {{1}};
  EXPECT_EQ(lengths.Run(other.problem, other.inputs).out.values[0], 2);
  EXPECT_EQ(other.Out(""), 1);
}

// The smallest case of ggml's fault: 63 keys of weight e^-2 beside one of weight 1.
TEST(FaultsTest, TheTailOfALargeTileIsAttendedUnderASoftcap) {
  Small s(1, 64, 1);
  s.problem.softcap = 2;
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_NEAR(s.Out("softcap-tail-attended"), 1 / (1 + 63 * std::exp(-2)), 1e-6);
  s.problem.softcap = 0;
  EXPECT_EQ(s.Out("softcap-tail-attended"), 1);
  Small fewer(1, 63, 1);
  fewer.problem.softcap = 2;
  EXPECT_EQ(fewer.Out("softcap-tail-attended"), 1);
  Small full(1, 64, 64);
  full.problem.softcap = 2;
  EXPECT_EQ(full.Out("softcap-tail-attended"), full.Out(""));
}

TEST(FaultsTest, CausalityIsDroppedForSomeRows) {
  Small s(1, 2, 4);
  s.problem.causal = true;
  EXPECT_EQ(s.Out("", 0, 0, 1), 1.5);
  EXPECT_EQ(s.Out("last-row-not-causal", 0, 0, 0), 1);
  EXPECT_EQ(s.Out("last-row-not-causal", 0, 0, 1), 2.5);
  EXPECT_EQ(s.Out("one-query-not-causal", 0, 0, 1), 1.5);
  Small one(1, 1, 4);
  one.problem.causal = true;
  EXPECT_EQ(one.Out("one-query-not-causal"), 1);
  const DirectForm past{DirectLayout::kDense, DirectStorage::kPast};
  EXPECT_EQ(Make("").Run(one.problem, one.inputs, past).out.values[0], 1);
  EXPECT_EQ(Make("one-query-not-causal").Run(one.problem, one.inputs, past).out.values[0], 2.5);
}

TEST(FaultsTest, ThePastNeedsThePresent) {
  const Small s(1, 1, 4);
  DirectForm past{DirectLayout::kDense, DirectStorage::kPast};
  const DirectKernel kernel = Make("past-needs-present");
  EXPECT_EQ(kernel.Run(s.problem, s.inputs, past).out.values[0], 3.5);
  past.want_present = true;
  EXPECT_EQ(kernel.Run(s.problem, s.inputs, past).out.values[0], 2.5);
}

TEST(FaultsTest, MasksAreAddedInsteadOfHiding) {
  Small s(1, 1, 2);
  s.problem.mask = BitPlane{{1, 1, 1, 2}, 2, {0, 1}};
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_NEAR(s.Out("mask-added"), (1 + 2 * std::exp(1)) / (1 + std::exp(1)), 1e-6);
  EXPECT_EQ(s.Out("mask-filler-finite"), 2);
  s.inputs.k.values = {49984, -49984};
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_EQ(s.Out("mask-filler-finite"), 1);
}

TEST(FaultsTest, SumsAreKeptInTheTypeOfTheCall) {
  Small s(1, 1, 9);
  s.problem.dtype = DType::kF16;
  s.inputs.v.values.assign(9, 8184);
  EXPECT_EQ(s.Out(""), 8184);
  EXPECT_EQ(s.Out("sums-in-storage-type"), INFINITY);
  Small products(1, 1, 2);
  products.problem.dtype = DType::kF16;
  products.problem.scale = 0x1p-4;
  products.inputs.q.values = {256};
  products.inputs.k.values = {256, 0};
  EXPECT_EQ(products.Out(""), 1);
  EXPECT_THAT(products.Out("products-in-f16"), IsNan());
}

TEST(FaultsTest, TheLastRowIsUnwritten) {
  const Small s(1, 5, 1);
  EXPECT_EQ(s.Out("row-unwritten", 0, 0, 3), 1);
  EXPECT_NE(s.Out("row-unwritten", 0, 0, 4), 1);
  EXPECT_EQ(Small(1, 4, 1).Out("row-unwritten", 0, 0, 3), 1);
}

TEST(FaultsTest, PlanesOfOneRowServeQuery0Alone) {
  Small s(1, 2, 2);
  s.Mask({1, 1, 1, 2}, {1, 0});
  EXPECT_EQ(s.Out("broadcast-mask-for-query-0", 0, 0, 0), 1);
  EXPECT_EQ(s.Out("broadcast-mask-for-query-0", 0, 0, 1), 1.5);
  s.problem.bias = BitPlane{{1, 1, 1, 2}, 4, {1, 0}};
  s.inputs.bias = Array({1, 1, 1, 2});
  s.inputs.bias.values = {0, -INFINITY};
  EXPECT_EQ(s.Run("mask-beside-bias-refused").status, ATTEST_UNSUPPORTED);
  s.problem.mask.reset();
  EXPECT_EQ(s.Run("mask-beside-bias-refused").status, ATTEST_OK);
  EXPECT_EQ(s.Out("", 0, 0, 1), 1);
  EXPECT_EQ(s.Out("broadcast-bias-for-query-0", 0, 0, 1), 1.5);
}

TEST(FaultsTest, APrefixHasAKeyAtLeast) {
  Small s(1, 1, 2);
  s.problem.causal = true;
  s.problem.diagonal_offset = {-1};
  s.problem.prefix_lengths = {{0}};
  EXPECT_EQ(s.Out(""), 0);
  EXPECT_EQ(s.Out("prefix-of-one-at-least"), 1);
}

TEST(FaultsTest, AWideBiasIsMisread) {
  Small s(1, 1, 2);
  s.problem.dtype = DType::kBF16;
  s.problem.bias_dtype = DType::kF32;
  s.problem.bias = BitPlane{{1, 1, 1, 2}, 4, {1, 1}};
  s.inputs.bias = Array({1, 1, 1, 2});
  s.inputs.bias.values = {100, 0};
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_EQ(s.Out("wide-bias-misread"), 2);  // the lower half of 100 is 0, the upper 100
}

TEST(FaultsTest, ScoresAreClampedAndCappedInF16) {
  Small s(1, 1, 2);
  s.inputs.k.values = {100, 200};
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_EQ(s.Out("scores-clamped"), 1.5);
  s.inputs.k.values = {0, 2};
  s.problem.softcap = 1e9;
  EXPECT_GT(s.Out(""), 1.8);
  EXPECT_EQ(s.Out("softcap-in-f16"), 1.5);
  s.inputs.k.values = {100, 200};
  EXPECT_EQ(s.Out(""), 2);
  EXPECT_NEAR(s.Out("softcap-at-most-16"), 1.5, 1e-3);
}

TEST(FaultsTest, KeptWeightsAreDividedByTooMuch) {
  Small s(1, 1, 1);
  s.problem.dropout = Dropout{0, BitPlane{{1, 1, 1, 1}, 4, {1}}};
  EXPECT_EQ(s.Out(""), 1);
  EXPECT_FLOAT_EQ(s.Out("dropout-share-off"), 1 / 1.001);
}

TEST(FaultsTest, ThePresentBeginsWithTheNewKeys) {
  const Small s(1, 1, 4);
  const DirectForm past{DirectLayout::kDense, DirectStorage::kPast, true};
  EXPECT_THAT(s.Run("", past).present_v.values, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(s.Run("present-new-first", past).present_v.values, ElementsAre(3, 4, 1, 2));
}

// A past of half of one key is empty.
TEST(FaultsTest, AFirstCallHasAPresentAndPerhapsAnEmptyPast) {
  Small s(1, 1, 1);
  const DirectForm empty{DirectLayout::kDense, DirectStorage::kPast, true};
  EXPECT_THAT(s.Run("", empty).out.values, ElementsAre(1));
  EXPECT_THAT(s.Run("empty-past-ends-call", empty).out.values, ElementsAre(0));
  EXPECT_THAT(s.Run("empty-past-ends-call").out.values, ElementsAre(1));
  s.problem.q_heads = s.problem.kv_heads = s.problem.kv_len = 2;
  s.inputs.q = Array({1, 2, 1, 1});
  s.inputs.k = Array({1, 2, 2, 1});
  s.inputs.v = Array({1, 2, 2, 1});
  s.inputs.v.values = {1, 2, 3, 4};
  const DirectForm first{DirectLayout::kDense, DirectStorage::kPlain, true};
  const DirectForm later{DirectLayout::kDense, DirectStorage::kPast, true};
  EXPECT_THAT(s.Run("first-present-by-position", first).present_v.values, ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(s.Run("first-present-by-position", later).present_v.values, ElementsAre(1, 2, 3, 4));
}

// Forty keys are five splits of the blocked kernel, whose sums are rounded otherwise.
TEST(FaultsTest, TheFirstCallOfEachSizeTakesItsOwnPath) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  Small s(1, 4, 40);
  for (Array* array : {&s.inputs.q, &s.inputs.k, &s.inputs.v}) {
    for (double& x : array->values) x = RoundTo(DType::kF32, normal(random));
  }
  const std::vector<double> plain = s.Run("").out.values;
  const std::vector<double> blocked = s.Run("blocked").out.values;
  EXPECT_NE(blocked, plain);
  const DirectKernel kernel = Make("first-call-differs");
  EXPECT_EQ(kernel.Run(s.problem, s.inputs).out.values, blocked);
  const Small other(1, 1, 1);
  kernel.Run(other.problem, other.inputs);
  EXPECT_EQ(kernel.Run(s.problem, s.inputs).out.values, plain);
}

}  // namespace
}  // namespace attest
