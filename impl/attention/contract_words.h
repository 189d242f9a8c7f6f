// The words of a contract's JSON text, each enumeration once: the parser (contract.cc), the printer
// (contract_json.cc) and the probe's report share them, and error messages list them.
#ifndef ATTEST_ATTENTION_CONTRACT_WORDS_H_
#define ATTEST_ATTENTION_CONTRACT_WORDS_H_

#include <string_view>
#include <utility>
#include <vector>

#include "impl/attention/contract.h"

namespace attest::contract_words {

template <typename T>
using Words = std::vector<std::pair<std::string_view, T>>;

inline const Words<MaskPolarity> kPolarities = {{"attend", MaskPolarity::kAttend},
                                                {"hide", MaskPolarity::kHide}};
inline const Words<CausalOffset> kCausalOffsets = {
    {"zero", CausalOffset::kZero},
    {"kv_len_minus_q_len", CausalOffset::kKvLenMinusQLen},
    {"key_length_minus_q_len", CausalOffset::kKeyLengthMinusQLen},
    {"by_inputs", CausalOffset::kByInputs},
    {"explicit", CausalOffset::kExplicit}};
inline const Words<WindowCounts> kWindowCounts = {
    {"keys_beside_diagonal", WindowCounts::kKeysBesideDiagonal},
    {"keys_with_diagonal", WindowCounts::kKeysWithDiagonal}};
inline const Words<CausalCalls> kCausalCalls = {{"optional", CausalCalls::kOptional},
                                                {"always", CausalCalls::kAlways}};
inline const Words<WindowSides> kWindowSides = {{"both", WindowSides::kBoth},
                                                {"left", WindowSides::kLeft},
                                                {"left_if_causal", WindowSides::kLeftIfCausal}};
inline const Words<Exclusion> kExclusions = {
    {"causal_with_mask", Exclusion::kCausalWithMask},
    {"causal_with_bias", Exclusion::kCausalWithBias},
    {"past_without_present", Exclusion::kPastWithoutPresent},
    {"present_without_past", Exclusion::kPresentWithoutPast},
    {"empty_past", Exclusion::kEmptyPast},
    {"fewer_keys_than_queries", Exclusion::kFewerKeysThanQueries},
    {"zero_scale", Exclusion::kZeroScale},
    {"negative_scale", Exclusion::kNegativeScale}};
inline const Words<EmptyRow> kEmptyRows = {{"zero", EmptyRow::kZero},
                                           {"nan", EmptyRow::kNan},
                                           {"mean_value", EmptyRow::kMeanValue},
                                           {"unmasked", EmptyRow::kUnmasked},
                                           {"unspecified", EmptyRow::kUnspecified}};
inline const Words<LseKind> kLseKinds = {
    {"none", LseKind::kNone}, {"natural", LseKind::kNatural}, {"base2", LseKind::kBase2}};
inline const Words<LseEmptyRow> kLseEmptyRows = {{"-inf", LseEmptyRow::kMinusInf},
                                                 {"+inf", LseEmptyRow::kPlusInf},
                                                 {"nan", LseEmptyRow::kNan},
                                                 {"unspecified", LseEmptyRow::kUnspecified}};
inline const Words<Feature> kFeatures = {{"causal", Feature::kCausal},
                                         {"window", Feature::kWindow},
                                         {"key_lengths", Feature::kKeyLengths},
                                         {"mask", Feature::kMask},
                                         {"bias", Feature::kBias},
                                         {"mask_with_bias", Feature::kMaskWithBias},
                                         {"gqa", Feature::kGqa},
                                         {"value_dim", Feature::kValueDim},
                                         {"zero_sizes", Feature::kZeroSizes},
                                         {"weights", Feature::kWeights},
                                         {"mask_broadcast", Feature::kMaskBroadcast},
                                         {"mask_key_broadcast", Feature::kMaskKeyBroadcast},
                                         {"mask_ranks", Feature::kMaskRanks},
                                         {"bias_f32", Feature::kBiasF32},
                                         {"query_lengths", Feature::kQueryLengths},
                                         {"prefix_lengths", Feature::kPrefixLengths},
                                         {"documents", Feature::kDocuments},
                                         {"block_mask", Feature::kBlockMask},
                                         {"softcap", Feature::kSoftcap},
                                         {"alibi", Feature::kAlibi},
                                         {"sinks", Feature::kSinks},
                                         {"dropout", Feature::kDropout},
                                         {"past", Feature::kPast},
                                         {"present", Feature::kPresent},
                                         {"pages", Feature::kPages},
                                         {"ring", Feature::kRing},
                                         {"packed", Feature::kPacked},
                                         {"dbias", Feature::kBiasGradient},
                                         {"dsink", Feature::kSinkGradient}};
inline const Words<PaddedQueryRows> kPaddedQueryRows = {
    {"zero", PaddedQueryRows::kZero},
    {"computed", PaddedQueryRows::kComputed},
    {"unwritten", PaddedQueryRows::kUnwritten},
    {"unspecified", PaddedQueryRows::kUnspecified}};
inline const Words<SoftcapOrder> kSoftcapOrders = {{"before_bias", SoftcapOrder::kBeforeBias},
                                                   {"after_bias", SoftcapOrder::kAfterBias}};
inline const Words<DType> kFp8Formats = {{"e4m3", DType::kE4M3}, {"e5m2", DType::kE5M2}};
inline const Words<ScoreMode> kScoreModes = {{"raw", ScoreMode::kRaw},
                                             {"capped", ScoreMode::kCapped},
                                             {"biased", ScoreMode::kBiased},
                                             {"weights", ScoreMode::kWeights}};
inline const Words<Invariance> kInvariances = {{"hidden_values", Invariance::kHiddenValues},
                                               {"kv_len", Invariance::kKvLen},
                                               {"q_len", Invariance::kQLen},
                                               {"batch", Invariance::kBatch},
                                               {"heads", Invariance::kHeads},
                                               {"layout", Invariance::kLayout},
                                               {"mask_form", Invariance::kMaskForm},
                                               {"split", Invariance::kSplit},
                                               {"threads", Invariance::kThreads},
                                               {"rerun", Invariance::kRerun}};
inline const Words<std::pair<PoisonTensor, PoisonPlace>> kPoisonPlaces = {
    {"k:length", {PoisonTensor::kK, PoisonPlace::kLength}},
    {"k:causal", {PoisonTensor::kK, PoisonPlace::kCausal}},
    {"k:window", {PoisonTensor::kK, PoisonPlace::kWindow}},
    {"k:mask", {PoisonTensor::kK, PoisonPlace::kMask}},
    {"k:bias", {PoisonTensor::kK, PoisonPlace::kBias}},
    {"k:document", {PoisonTensor::kK, PoisonPlace::kDocument}},
    {"k:block", {PoisonTensor::kK, PoisonPlace::kBlock}},
    {"k:page", {PoisonTensor::kK, PoisonPlace::kPage}},
    {"v:length", {PoisonTensor::kV, PoisonPlace::kLength}},
    {"v:causal", {PoisonTensor::kV, PoisonPlace::kCausal}},
    {"v:window", {PoisonTensor::kV, PoisonPlace::kWindow}},
    {"v:mask", {PoisonTensor::kV, PoisonPlace::kMask}},
    {"v:bias", {PoisonTensor::kV, PoisonPlace::kBias}},
    {"v:document", {PoisonTensor::kV, PoisonPlace::kDocument}},
    {"v:block", {PoisonTensor::kV, PoisonPlace::kBlock}},
    {"v:page", {PoisonTensor::kV, PoisonPlace::kPage}}};
inline const Words<DType> kDTypes = {
    {"f32", DType::kF32}, {"f64", DType::kF64}, {"f16", DType::kF16}, {"bf16", DType::kBF16}};
inline const Words<ScalePlacement> kScalePlacements = {
    {"accumulator", ScalePlacement::kAccumulator}, {"storage", ScalePlacement::kStorage}};
inline const Words<OutputRounding> kOutputRoundings = {{"nearest", OutputRounding::kNearest},
                                                       {"truncate", OutputRounding::kTruncate}};
inline const Words<TensorLayout> kLayouts = {{"bhsd", TensorLayout::kBhsd},
                                             {"bshd", TensorLayout::kBshd}};
inline const Words<Strides> kStrides = {{"dense", Strides::kDense},
                                        {"last_dim_contiguous", Strides::kLastDimContiguous},
                                        {"any", Strides::kAny}};

// The word of a value that its table has.
template <typename T>
std::string_view WordOf(const Words<T>& words, const T& value) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "?";
}

}  // namespace attest::contract_words

#endif  // ATTEST_ATTENTION_CONTRACT_WORDS_H_
