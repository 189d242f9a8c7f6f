// Every property can fail: for each one of the families below a kernel that computes the reference
// with one fault, which the property must notice. (The faults of the other families are the mutants,
// impl/mutants.) A fault changes what is computed, or what came out.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "impl/attention/visibility.h"
#include "properties/harness/case/generator.h"
#include "properties/harness/case/slice.h"
#include "properties/property.h"
#include "properties/testing.h"

namespace attest {
namespace {

// What the faulty kernel takes for its call.
struct Taken {
  Problem problem;
  Inputs inputs;
  Semantics semantics;
};

struct Fault {
  std::string_view property;
  void (*before)(const Case&, Taken&);  // nullptr: nothing
  void (*after)(const Case&, Outcome&);
  void (*under)(const CallSetting&, Outcome&) = nullptr;
};

template <typename Change>
void ForEachRowOf(Array& a, Change&& change) {
  for (int64_t b = 0; b < a.shape[0]; ++b)
    for (int64_t h = 0; h < a.shape[1]; ++h)
      for (int64_t i = 0; i < a.shape[2]; ++i)
        for (int64_t d = 0; d < a.shape[3]; ++d) change(b, h, i, a.At(b, h, i, d));
}

void Set(Array& a, double value) {
  std::ranges::fill(a.values, value);
}

// --- An option that is not read ---

template <auto kMember>
void Ignore(const Case&, Taken& t) {
  (t.problem.*kMember).reset();
}

void IgnoreCausality(const Case&, Taken& t) {
  t.problem.causal = false;
}

void IgnoreDiagonal(const Case&, Taken& t) {
  t.problem.diagonal_offset.clear();
}

void IgnoreWindow(const Case&, Taken& t) {
  t.problem.window = {};
}

void IgnoreScale(const Case&, Taken& t) {
  t.problem.scale = 1;
}

void IgnoreSoftcap(const Case&, Taken& t) {
  t.problem.softcap = 0;
}

void IgnoreBias(const Case&, Taken& t) {
  t.problem.bias.reset();
  t.inputs.bias = {};
}

void IgnoreKeys(const Case&, Taken& t) {
  Set(t.inputs.k, 0);
}

void IgnoreValues(const Case&, Taken& t) {
  Set(t.inputs.v, 0);
}

// --- Poison: hidden data times zero is still added ---

double ZeroTimes(const Array& a, int64_t batch) {
  double sum = 0;
  const auto item = a.values.size() / static_cast<size_t>(std::max<int64_t>(a.shape[0], 1));
  for (size_t n = 0; n < item; ++n) sum += 0 * a.values[static_cast<size_t>(batch) * item + n];
  return sum;
}

template <Array Inputs::*kTensor>
void AddZeroTimes(const Case& c, Outcome& o) {
  const Inputs inputs = Materialise(c);
  ForEachRowOf(o.out,
               [&](int64_t b, int64_t, int64_t, double& x) { x += ZeroTimes(inputs.*kTensor, b); });
}

// --- Order and place ---

void DoubleFirstKey(const Case&, Taken& t) {
  ForEachRowOf(t.inputs.k, [](int64_t, int64_t, int64_t j, double& x) { x *= j == 0 ? 2 : 1; });
}

void DoubleFirstQuery(const Case&, Taken& t) {
  ForEachRowOf(t.inputs.q, [](int64_t, int64_t, int64_t i, double& x) { x *= i == 0 ? 2 : 1; });
}

void DoubleFirstHead(const Case&, Taken& t) {
  ForEachRowOf(t.inputs.q, [](int64_t, int64_t h, int64_t, double& x) { x *= h == 0 ? 2 : 1; });
}

void DoubleFirstItem(const Case&, Taken& t) {
  ForEachRowOf(t.inputs.q, [](int64_t b, int64_t, int64_t, double& x) { x *= b == 0 ? 2 : 1; });
}

// Query head h reads kv head h mod kv_heads.
void HeadsByModulo(const Case&, Taken& t) {
  Problem& p = t.problem;
  std::vector<int64_t> from;
  for (int64_t h = 0; h < p.q_heads; ++h) from.push_back(h % p.kv_heads);
  t.inputs.k = SelectArray(t.inputs.k, 1, from);
  t.inputs.v = SelectArray(t.inputs.v, 1, from);
  p.kv_heads = p.q_heads;
}

void LastQueryForAll(const Case&, Taken& t) {
  const Array q = t.inputs.q;
  Array& mixed = t.inputs.q;
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t h = 0; h < q.shape[1]; ++h)
      for (int64_t i = 0; i < q.shape[2]; ++i)
        for (int64_t d = 0; d < q.shape[3]; ++d) {
          mixed.At(b, h, i, d) += q.At(b, h, q.shape[2] - 1, d);
        }
}

void ScaleByQueries(const Case&, Taken& t) {
  t.problem.scale = t.problem.EffectiveScale() * (1 + 0.1 * static_cast<double>(t.problem.q_len));
}

// --- Algebra ---

template <Array Inputs::*kTensor>
void Square(const Case&, Taken& t) {
  for (double& x : (t.inputs.*kTensor).values) x *= std::abs(x);
}

void SquareScale(const Case&, Taken& t) {
  t.problem.scale = t.problem.EffectiveScale() * t.problem.EffectiveScale();
}

void DefaultScale(const Case&, Taken& t) {
  t.problem.scale.reset();
}

void NegateKeys(const Case&, Taken& t) {
  for (double& x : t.inputs.k.values) x = -x;
}

void HalveOutput(const Case&, Outcome& o) {
  for (double& x : o.out.values) x /= 2;
}

// --- Range ---

template <int kMost>
void SaturateScores(const Case&, Taken& t) {
  t.problem.softcap = kMost;
}

// A running maximum that starts at -3e4 and is summed like a score.
void FiniteMaximum(const Case&, Taken& t) {
  t.problem.sinks.emplace(static_cast<size_t>(t.problem.q_heads), -3e4);
}

void NanForSubnormals(const Case& c, Outcome& o) {
  const double least = TraitsOf(c.problem.dtype).min_normal;
  const Array q = Materialise(c).q;
  const bool any =
      std::ranges::any_of(q.values, [&](double x) { return x != 0 && std::abs(x) < least; });
  if (any) Set(o.out, std::numeric_limits<double>::quiet_NaN());
}

void OneUnitLess(const Case& c, Outcome& o) {
  const double unit = 2 * TraitsOf(c.problem.dtype).unit_roundoff;
  for (double& x : o.out.values) x = RoundTo(c.problem.dtype, x * (1 - unit));
}

void DoubleSubnormals(const Case& c, Taken& t) {
  const double least = TraitsOf(c.problem.dtype).min_normal;
  for (double& x : t.inputs.v.values) {
    if (std::abs(x) < least) x += least;
  }
}

// --- What becomes of a score ---

void CapInTheOtherPlace(const Case&, Taken& t) {
  SoftcapOrder& order = t.semantics.softcap_order;
  order = order == SoftcapOrder::kAfterBias ? SoftcapOrder::kBeforeBias : SoftcapOrder::kAfterBias;
}

void LeastCap(const Case&, Taken& t) {
  t.problem.softcap = std::min(t.problem.softcap, 1.0);
}

void FlipSlopes(const Case&, Taken& t) {
  if (!t.problem.alibi_slopes) return;
  for (double& slope : *t.problem.alibi_slopes) slope = -slope;
}

void FirstSlopeForAll(const Case&, Taken& t) {
  auto& slopes = t.problem.alibi_slopes;
  if (slopes && !slopes->empty()) std::ranges::fill(*slopes, slopes->front());
}

void ClampSinks(const Case&, Taken& t) {
  if (!t.problem.sinks) return;
  for (double& sink : *t.problem.sinks) sink = std::clamp(sink, -3.0, 3.0);
}

void RaiseSinks(const Case&, Taken& t) {
  if (!t.problem.sinks) return;
  for (double& sink : *t.problem.sinks) sink += 1;
}

void DropWideBias(const Case&, Taken& t) {
  if (!t.problem.bias_dtype) return;
  for (double& x : t.inputs.bias.values) x = std::isinf(x) ? x : 0;
}

void RaiseScores(const Case&, Outcome& o) {
  for (double& x : o.scores.values) x += 1;
}

void HalveWhereScoresAreAsked(const Case& c, Outcome& o) {
  if (c.problem.want_scores) HalveOutput(c, o);
}

// --- Dropout ---

void FlipKept(const Case&, Taken& t) {
  if (!t.problem.dropout) return;
  for (uint8_t& bit : t.problem.dropout->keep.bits) bit ^= 1;
}

void LseAfterDropout(const Case& c, Outcome& o) {
  if (!c.problem.dropout) return;
  for (double& x : o.lse.values) x += std::log1p(-c.problem.dropout->probability);
}

// --- Storage ---

void LosePastValue(const Case& c, Taken& t) {
  ForEachRowOf(t.inputs.v, [&](int64_t, int64_t, int64_t j, double& x) {
    if (c.storage.past > 0 && j == c.storage.past - 1) x = 0;
  });
}

template <auto kMember>
void LoseFirstValue(const Case& c, Taken& t) {
  ForEachRowOf(t.inputs.v, [&](int64_t, int64_t, int64_t j, double& x) {
    if (c.storage.*kMember && j == 0) x = 0;
  });
}

void SharedIsFirstHead(const Case& c, Taken& t) {
  if (c.layouts.v == Layout::kSharedHead) Set(t.inputs.v, 0);
}

void ForgetFarValues(const Case& c, Taken& t) {
  if (IsFar(c.layouts.v)) Set(t.inputs.v, 0);
}

void ForgetValueScale(const Case& c, Taken& t) {
  if (!c.problem.fp8) return;
  for (double& x : t.inputs.v.values) x /= c.problem.fp8->v_scale;
}

void ForgetQueryScale(const Case& c, Taken& t) {
  if (!c.problem.fp8) return;
  for (double& x : t.inputs.q.values) x /= c.problem.fp8->q_scale;
}

// --- How a call is made ---

void HalveWithSevenThreads(const CallSetting& setting, Outcome& o) {
  for (double& x : o.out.values) x /= setting.threads == 7 ? 2 : 1;
}

void HalveAtOnce(const CallSetting& setting, Outcome& o) {
  for (double& x : o.out.values) x /= setting.at_once ? 2 : 1;
}

// --- Padding and prefixes ---

void OneInPaddedRows(const Case& c, Outcome& o) {
  ForEachRowOf(o.out, [&](int64_t b, int64_t h, int64_t i, double& x) {
    if (IsPaddedQuery(c.problem, {b, h, i})) x = 1;
  });
}

void PrefixOfOneAtLeast(const Case&, Taken& t) {
  if (!t.problem.prefix_lengths) return;
  for (int64_t& length : *t.problem.prefix_lengths) {
    length = std::min(std::max<int64_t>(length, 1), t.problem.kv_len);
  }
}

constexpr auto kIgnoreMask = Ignore<&Problem::mask>;
constexpr auto kIgnoreLengths = Ignore<&Problem::key_lengths>;
constexpr auto kIgnorePrefix = Ignore<&Problem::prefix_lengths>;
constexpr auto kIgnoreDocuments = Ignore<&Problem::documents>;
constexpr auto kIgnoreBlocks = Ignore<&Problem::block_mask>;
constexpr auto kIgnoreAlibi = Ignore<&Problem::alibi_slopes>;
constexpr auto kIgnoreSinks = Ignore<&Problem::sinks>;
constexpr auto kIgnoreDropout = Ignore<&Problem::dropout>;

constexpr Fault kFaults[] = {
    {"documents.equal_explicit_mask", kIgnoreDocuments, nullptr},
    {"documents.others_do_not_matter", kIgnoreDocuments, nullptr},
    {"documents.poison_in_others_keys_does_not_matter", nullptr, AddZeroTimes<&Inputs::k>},
    {"documents.poison_in_others_values_does_not_matter", nullptr, AddZeroTimes<&Inputs::v>},
    {"documents.each_equals_itself_alone", kIgnoreDocuments, nullptr},
    {"prefix.equals_explicit_mask", kIgnorePrefix, nullptr},
    {"prefix.of_no_keys_is_causal", PrefixOfOneAtLeast, nullptr},
    {"prefix.of_all_keys_is_not_causal", kIgnorePrefix, nullptr},
    {"blocks.equal_explicit_mask", kIgnoreBlocks, nullptr},
    {"blocks.hidden_tiles_do_not_matter", kIgnoreBlocks, nullptr},
    {"blocks.poison_in_hidden_keys_does_not_matter", nullptr, AddZeroTimes<&Inputs::k>},
    {"blocks.poison_in_hidden_values_does_not_matter", nullptr, AddZeroTimes<&Inputs::v>},
    {"query_padding.padded_queries_change_no_other_row", LastQueryForAll, nullptr},
    {"query_padding.removing_padded_queries_changes_nothing", ScaleByQueries, nullptr},
    {"query_padding.padded_rows_hold_what_is_promised", nullptr, OneInPaddedRows},
    {"sensitivity.every_visible_key_matters", IgnoreKeys, nullptr},
    {"sensitivity.every_visible_value_matters", IgnoreValues, nullptr},
    {"sensitivity.the_boolean_mask_matters", kIgnoreMask, nullptr},
    {"sensitivity.the_additive_mask_matters", IgnoreBias, nullptr},
    {"sensitivity.causality_matters", IgnoreCausality, nullptr},
    {"sensitivity.the_diagonal_offset_matters", IgnoreDiagonal, nullptr},
    {"sensitivity.the_window_matters", IgnoreWindow, nullptr},
    {"sensitivity.key_lengths_matter", kIgnoreLengths, nullptr},
    {"sensitivity.the_prefix_matters", kIgnorePrefix, nullptr},
    {"sensitivity.documents_matter", kIgnoreDocuments, nullptr},
    {"sensitivity.the_block_mask_matters", kIgnoreBlocks, nullptr},
    {"sensitivity.the_scale_matters", IgnoreScale, nullptr},
    {"sensitivity.the_softcap_matters", IgnoreSoftcap, nullptr},
    {"sensitivity.alibi_slopes_matter", kIgnoreAlibi, nullptr},
    {"sensitivity.sinks_matter", kIgnoreSinks, nullptr},
    {"sensitivity.the_dropout_mask_matters", kIgnoreDropout, nullptr},
    {"symmetry.the_order_of_keys_does_not_matter", DoubleFirstKey, nullptr},
    {"symmetry.keys_given_twice_add_log_two", DoubleFirstKey, nullptr},
    {"symmetry.the_order_of_queries_does_not_matter", DoubleFirstQuery, nullptr},
    {"symmetry.the_order_of_heads_does_not_matter", DoubleFirstHead, nullptr},
    {"symmetry.the_order_of_batch_items_does_not_matter", DoubleFirstItem, nullptr},
    {"algebra.output_is_linear_in_values", Square<&Inputs::v>, nullptr},
    {"algebra.a_vector_added_to_every_key_shifts_the_lse_alone", Square<&Inputs::k>, nullptr},
    {"algebra.the_scale_folds_into_q", SquareScale, nullptr},
    {"algebra.lanes_of_zeros_change_nothing", DefaultScale, nullptr},
    {"algebra.one_visible_key_gives_its_value", nullptr, HalveOutput},
    {"heads.shared_equals_repeated", HeadsByModulo, nullptr},
    {"numerics.huge_scores_stay_right", SaturateScores<1000>, nullptr},
    {"numerics.very_negative_scores_stay_right", FiniteMaximum, nullptr},
    {"numerics.one_dominant_score_takes_all", SaturateScores<5>, nullptr},
    {"numerics.rising_scores_stay_right", SaturateScores<5>, nullptr},
    {"numerics.tied_scores_share_alike", SaturateScores<1>, nullptr},
    {"numerics.spread_scores_stay_right", SaturateScores<5>, nullptr},
    {"numerics.denormal_scores_stay_right", nullptr, NanForSubnormals},
    {"numerics.denormal_values_stay_right", DoubleSubnormals, nullptr},
    {"numerics.a_weight_follows_its_score", NegateKeys, nullptr},
    {"numerics.a_mean_is_rounded_once", nullptr, OneUnitLess},
    {"scores.softcap_comes_where_the_contract_says", CapInTheOtherPlace, nullptr},
    {"scores.a_huge_softcap_equals_none", LeastCap, nullptr},
    {"scores.alibi_equals_explicit_bias", FlipSlopes, nullptr},
    {"scores.alibi_slopes_go_by_head", FirstSlopeForAll, nullptr},
    {"scores.a_sink_far_below_changes_nothing", ClampSinks, nullptr},
    {"scores.a_sink_far_above_takes_all", ClampSinks, nullptr},
    {"scores.a_sink_takes_its_share", RaiseSinks, nullptr},
    {"scores.a_sink_alone_gives_zero", kIgnoreSinks, nullptr},
    {"scores.a_wide_bias_equals_a_narrow_one", DropWideBias, nullptr},
    {"scores.raw_equal_the_reference", nullptr, RaiseScores},
    {"scores.capped_equal_the_reference", nullptr, RaiseScores},
    {"scores.biased_equal_the_reference", nullptr, RaiseScores},
    {"scores.weights_equal_the_reference", nullptr, RaiseScores},
    {"scores.asking_changes_nothing_else", nullptr, HalveWhereScoresAreAsked},
    {"dropout.none_dropped_equals_none", FlipKept, nullptr},
    {"dropout.all_dropped_gives_zero", kIgnoreDropout, nullptr},
    {"dropout.lse_and_weights_are_those_before_it", nullptr, LseAfterDropout},
    {"dropout.one_hot_values_read_off_the_kept_set", FlipKept, nullptr},
    {"cache.past_and_new_keys_equal_all_at_once", LosePastValue, nullptr},
    {"cache.present_is_past_and_new_together", LosePastValue, nullptr},
    {"cache.pages_may_lie_anywhere", LoseFirstValue<&Storage::page_size>, nullptr},
    {"cache.a_ring_may_begin_anywhere", LoseFirstValue<&Storage::ring>, nullptr},
    {"cache.packed_equals_padded", LoseFirstValue<&Storage::packed>, nullptr},
    {"cache.decoding_equals_prefill", IgnoreDiagonal, nullptr},
    {"cache.any_chunking_equals_prefill", IgnoreDiagonal, nullptr},
    {"fp8.equals_the_same_values_wide", ForgetValueScale, nullptr},
    {"fp8.scales_of_q_and_k_multiply", ForgetQueryScale, nullptr},
    {"memory.heads_may_share_an_address", SharedIsFirstHead, nullptr},
    {"memory.far_strides_do_not_matter", ForgetFarValues, nullptr},
    {"determinism.the_thread_count_does_not_matter", nullptr, nullptr, HalveWithSevenThreads},
    {"determinism.concurrent_calls_give_what_each_gives_alone", nullptr, nullptr, HalveAtOnce},
};

Outcome RunFaulty(const Fault& fault, const Case& c, const Contract& contract) {
  Taken taken{c.problem, Materialise(c), contract.semantics};
  if (fault.before != nullptr) fault.before(c, taken);
  Outcome outcome = ReferenceOf(c, taken.problem, taken.inputs, taken.semantics, contract);
  if (fault.after != nullptr) fault.after(c, outcome);
  return outcome;
}

bool Fails(const Property& property, const Fault& fault, const Case& c, const Contract& contract) {
  const Derived derived = property.derive(c, contract);
  if (!derived.not_applicable.empty()) return false;
  std::vector<Outcome> outcomes;
  for (const Case& one : derived.cases) {
    outcomes.push_back(RunFaulty(fault, one, contract));
    const size_t i = outcomes.size() - 1;
    if (fault.under != nullptr && i < derived.settings.size()) {
      fault.under(derived.settings[i], outcomes.back());
    }
  }
  Oracle oracle(derived.cases, contract);
  // Nobody asks why it failed.
  const auto never = [](const Verdict&) { return false; };
  const Evidence evidence{contract, derived.cases, outcomes, oracle, never};
  return property.judge(evidence).kind == VerdictKind::kFail;
}

TEST(PropertyFaultsTest, EachFaultIsNoticed) {
  const Contract contract = WholeSurface();
  for (const Fault& fault : kFaults) {
    const Property* property = FindProperty(fault.property);
    ASSERT_NE(property, nullptr) << fault.property;
    bool noticed = false;
    for (uint64_t seed = 0; seed < 150 && !noticed; ++seed) {
      noticed = Fails(*property, fault, DrawCase(seed, 40, contract), contract);
    }
    EXPECT_TRUE(noticed) << fault.property << " notices nothing";
  }
}

// The verdict where the first element of out of one call is far off, every other element as the reference has it.
Verdict WhereOneCallIsOff(const Property& property, size_t wrong, const Contract& contract) {
  Case c;
  c.problem.q_len = c.problem.kv_len = 4;
  c.problem.head_dim = c.problem.value_dim = 2;
  const Derived derived = property.derive(c, contract);
  std::vector<Outcome> outcomes;
  for (const Case& one : derived.cases) {
    outcomes.push_back(RunFaulty({property.id, nullptr, nullptr}, one, contract));
  }
  outcomes.at(wrong).out.values.at(0) += 100;
  Oracle oracle(derived.cases, contract);
  const auto never = [](const Verdict&) { return false; };
  return property.judge({contract, derived.cases, outcomes, oracle, never});
}

TEST(PropertyFaultsTest, TheWrongCallOfARelationIsNamedWhicheverItIs) {
  const Contract contract = WholeSurface();
  const std::pair<std::string_view, size_t> relations[] = {
      {"algebra.output_is_linear_in_values", 3},
      {"algebra.a_vector_added_to_every_key_shifts_the_lse_alone", 2},
      {"symmetry.keys_given_twice_add_log_two", 2},
      {"scores.a_huge_softcap_equals_none", 2},
  };
  for (const auto& [id, calls] : relations) {
    for (size_t wrong = 0; wrong < calls; ++wrong) {
      const Verdict verdict = WhereOneCallIsOff(*FindProperty(id), wrong, contract);
      ASSERT_EQ(verdict.kind, VerdictKind::kFail) << id << " " << wrong;
      EXPECT_EQ(verdict.call, wrong) << id << ": " << verdict.sentence;
      EXPECT_GT(verdict.witness->observed - verdict.witness->expected, 50) << verdict.sentence;
    }
  }
}

TEST(PropertyFaultsTest, EveryPropertyOfTheseFamiliesHasAFault) {
  std::set<std::string_view> covered;
  for (const Fault& fault : kFaults) covered.insert(fault.property);
  for (const auto family :
       {VisibilityFeaturesProperties(), QueryPaddingProperties(), SensitivityProperties(),
        SymmetryProperties(), AlgebraProperties(), NumericsProperties(), ScoresProperties(),
        DropoutProperties(), CacheProperties(), Fp8Properties()}) {
    for (const Property& property : family) EXPECT_TRUE(covered.count(property.id)) << property.id;
  }
}

}  // namespace
}  // namespace attest
