// The names of families, layouts, score modes and tensors: one table each, for printing and for
// parsing.
#include <utility>

#include "properties/harness/case/case.h"

namespace attest {
namespace {

template <typename T, size_t kCount>
using Names = std::array<std::pair<T, std::string_view>, kCount>;

constexpr Names<DataTensor, 5> kTensors = {{{DataTensor::kQ, "q"},
                                            {DataTensor::kK, "k"},
                                            {DataTensor::kV, "v"},
                                            {DataTensor::kBias, "bias"},
                                            {DataTensor::kDout, "dout"}}};

constexpr Names<ScoreFamily, kScoreFamilyCount> kScores = {
    {{ScoreFamily::kZero, "zero"},
     {ScoreFamily::kSmallIntegers, "small_integers"},
     {ScoreFamily::kNormal, "normal"},
     {ScoreFamily::kHeavyTailed, "heavy_tailed"},
     {ScoreFamily::kTied, "tied"},
     {ScoreFamily::kSpread, "spread"},
     {ScoreFamily::kDominant, "dominant"},
     {ScoreFamily::kAscending, "ascending"},
     {ScoreFamily::kDescending, "descending"},
     {ScoreFamily::kVeryNegative, "very_negative"},
     {ScoreFamily::kHuge, "huge"},
     {ScoreFamily::kDenormal, "denormal"},
     {ScoreFamily::kSignedZeros, "signed_zeros"}}};

constexpr Names<ValueFamily, kValueFamilyCount> kValues = {
    {{ValueFamily::kOnes, "ones"},
     {ValueFamily::kConstant, "constant"},
     {ValueFamily::kOneHot, "one_hot"},
     {ValueFamily::kLabels, "labels"},
     {ValueFamily::kSmallIntegers, "small_integers"},
     {ValueFamily::kNormal, "normal"},
     {ValueFamily::kHeavyTailed, "heavy_tailed"},
     {ValueFamily::kCancelling, "cancelling"},
     {ValueFamily::kDenormal, "denormal"},
     {ValueFamily::kSignedZeros, "signed_zeros"},
     {ValueFamily::kLarge, "large"}}};

constexpr Names<BiasFamily, kBiasFamilyCount> kBiases = {
    {{BiasFamily::kZero, "zero"},
     {BiasFamily::kSmallIntegers, "small_integers"},
     {BiasFamily::kNormal, "normal"},
     {BiasFamily::kWide, "wide"},
     {BiasFamily::kRowConstant, "row_constant"},
     {BiasFamily::kFiniteMask, "finite_mask"}}};

constexpr Names<Layout, kLayoutCount> kLayouts = {{{Layout::kBhsd, "bhsd"},
                                                   {Layout::kBshd, "bshd"},
                                                   {Layout::kGapped, "gapped"},
                                                   {Layout::kTransposed, "transposed"},
                                                   {Layout::kPackedQkv, "packed_qkv"},
                                                   {Layout::kSharedHead, "shared_head"},
                                                   {Layout::kFarHeads, "far_heads"},
                                                   {Layout::kFarRows, "far_rows"}}};

constexpr Names<FirstCall, kFirstCallCount> kFirstCalls = {{{FirstCall::kNo, "no"},
                                                            {FirstCall::kPastAbsent, "past_absent"},
                                                            {FirstCall::kPastEmpty, "past_empty"}}};

constexpr Names<ScoreMode, 4> kScoreModes = {{{ScoreMode::kRaw, "raw"},
                                              {ScoreMode::kCapped, "capped"},
                                              {ScoreMode::kBiased, "biased"},
                                              {ScoreMode::kWeights, "weights"}}};

template <typename T, size_t kCount>
std::string_view NameIn(const Names<T, kCount>& names, T wanted) {
  for (const auto& [value, name] : names) {
    if (value == wanted) return name;
  }
  return "unknown";
}

template <typename T, size_t kCount>
std::optional<T> ValueIn(const Names<T, kCount>& names, std::string_view wanted) {
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(DataTensor tensor) {
  return NameIn(kTensors, tensor);
}
std::string_view Name(ScoreFamily family) {
  return NameIn(kScores, family);
}
std::string_view Name(ValueFamily family) {
  return NameIn(kValues, family);
}
std::string_view Name(BiasFamily family) {
  return NameIn(kBiases, family);
}
std::string_view Name(ScoreMode mode) {
  return NameIn(kScoreModes, mode);
}
std::string_view Name(Layout layout) {
  return NameIn(kLayouts, layout);
}
std::string_view Name(FirstCall first_call) {
  return NameIn(kFirstCalls, first_call);
}

std::optional<ScoreFamily> ParseScoreFamily(std::string_view name) {
  return ValueIn(kScores, name);
}
std::optional<ValueFamily> ParseValueFamily(std::string_view name) {
  return ValueIn(kValues, name);
}
std::optional<BiasFamily> ParseBiasFamily(std::string_view name) {
  return ValueIn(kBiases, name);
}
std::optional<ScoreMode> ParseScoreMode(std::string_view name) {
  return ValueIn(kScoreModes, name);
}
std::optional<Layout> ParseLayout(std::string_view name) {
  return ValueIn(kLayouts, name);
}
std::optional<FirstCall> ParseFirstCall(std::string_view name) {
  return ValueIn(kFirstCalls, name);
}

}  // namespace attest
