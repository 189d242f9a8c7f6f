#include "properties/harness/judge/explain/cause_features.h"

#include <algorithm>
#include <iterator>

#include "impl/attention/visibility.h"
#include "properties/harness/judge/explain/explain.h"

namespace attest {
namespace {

// Pairs of a row and a key that are looked at for rows that see none.
constexpr int64_t kMostPairs = int64_t{1} << 20;

using Has = bool (*)(const Case&);

struct CauseFeature {
  std::string_view cause_class;
  Has is_in;
};

bool IsCausal(const Case& c) {
  return c.problem.causal;
}
bool HasWindow(const Case& c) {
  return c.problem.window.active();
}
// Where rows stand among the keys matters to causality, windows and ALiBi.
bool HasDiagonal(const Case& c) {
  return IsCausal(c) || HasWindow(c) || c.problem.alibi_slopes.has_value();
}
bool HasLengths(const Case& c) {
  return c.problem.key_lengths.has_value();
}
bool HasQueryLengths(const Case& c) {
  return c.problem.query_lengths.has_value();
}
bool HasSomeLengths(const Case& c) {
  return HasLengths(c) || HasQueryLengths(c);
}
bool HasMask(const Case& c) {
  return c.problem.mask.has_value();
}
bool HasBias(const Case& c) {
  return c.problem.bias.has_value();
}
bool HasDocuments(const Case& c) {
  return c.problem.documents.has_value();
}
bool HasBlocks(const Case& c) {
  return c.problem.block_mask.has_value();
}
bool HasPrefix(const Case& c) {
  return c.problem.prefix_lengths.has_value();
}
bool HasItems(const Case& c) {
  return c.problem.batch > 1;
}
bool HasHeads(const Case& c) {
  return c.problem.q_heads > 1;
}
bool HasQueries(const Case& c) {
  return c.problem.q_len > 1;
}
bool HasPast(const Case& c) {
  return c.storage.past > 0;
}
bool HasStorage(const Case& c) {
  return c.storage != Storage{};
}
bool HasPresent(const Case& c) {
  return c.storage.past > 0 || c.storage.first_call != FirstCall::kNo;
}
bool HasRing(const Case& c) {
  return c.storage.ring;
}
bool HasFarStrides(const Case& c) {
  const Layouts& l = c.layouts;
  return IsFar(l.q) || IsFar(l.k) || IsFar(l.v) || IsFar(l.out);
}
bool HasStrides(const Case& c) {
  return c.layouts != Layouts{};
}
bool HasPages(const Case& c) {
  return c.storage.page_size > 0;
}
bool HasSoftcap(const Case& c) {
  return c.problem.softcap > 0;
}
bool HasAlibi(const Case& c) {
  return c.problem.alibi_slopes.has_value();
}
bool HasSinks(const Case& c) {
  return c.problem.sinks.has_value();
}
bool HasDropout(const Case& c) {
  return c.problem.dropout.has_value();
}
bool HasScores(const Case& c) {
  return c.problem.want_scores.has_value();
}
bool HasFp8(const Case& c) {
  return c.problem.fp8.has_value();
}
bool HasGradients(const Case& c) {
  return c.problem.want_gradients;
}
bool HasSomeMask(const Case& c) {
  return HasMask(c) || HasBias(c);
}
bool MayHide(const Case& c) {
  return IsCausal(c) || HasWindow(c) || HasLengths(c) || HasMask(c) || HasBias(c) ||
         HasDocuments(c) || HasBlocks(c);
}
bool HasEmptyRow(const Case& c) {
  const Problem& p = c.problem;
  if (p.batch * p.q_heads * p.q_len * p.kv_len > kMostPairs) return MayHide(c);
  bool has = false;
  ForEachRow(p, [&](const Row& row) { has = has || SeesNoKey(p, row); });
  return has;
}

// Classes that are not listed may show anywhere.
constexpr CauseFeature kFeatures[] = {
    {"causal-ignored", IsCausal},
    {"diagonal-top-left", HasDiagonal},
    {"diagonal-bottom-right", HasDiagonal},
    {"diagonal-slid", HasDiagonal},
    {"triangle-repeated", IsCausal},
    {"window-ignored", HasWindow},
    {"packed-row-index", HasHeads},
    {"window-left-end", HasWindow},
    {"window-right-end", HasWindow},
    {"lengths-ignored", HasLengths},
    {"lengths-off-by-one", HasLengths},
    {"lengths-mistaken", HasSomeLengths},
    {"padded-query-rows", HasQueryLengths},
    {"mask-ignored", HasMask},
    {"mask-inverted", HasMask},
    {"mask-added", HasMask},
    {"mask-transposed", HasMask},
    {"mask-head-major", HasSomeMask},
    {"bias-ignored", HasBias},
    {"bias-as-mask", HasBias},
    {"documents-ignored", HasDocuments},
    {"blocks-ignored", HasBlocks},
    {"prefix-ignored", HasPrefix},
    {"prefix-off-by-one", HasPrefix},
    {"batch-0-for-all", HasItems},
    {"other-batch-read", HasItems},
    {"head-0-for-all", HasHeads},
    {"kv-head-mapping", HasHeads},
    {"query-0-for-all", HasQueries},
    {"feature-of-other-head", HasHeads},
    {"feature-of-other-item", HasItems},
    {"feature-of-other-query", HasQueries},
    {"fp8-scale-misread", HasFp8},
    {kNarrowOffset, HasFarStrides},
    {kStridesMisread, HasStrides},
    {kStorageMisread, HasStorage},
    {kPresentMisplaced, HasPresent},
    {"past-ignored", HasPast},
    {"past-misplaced", HasPast},
    {"ring-misread", HasRing},
    {"page-misread", HasPages},
    {"softcap-ignored", HasSoftcap},
    {"softcap-value", HasSoftcap},
    {"softcap-order", HasSoftcap},
    {"hidden-before-softcap", HasSoftcap},
    {"alibi-ignored", HasAlibi},
    {"alibi-slopes", HasAlibi},
    {"alibi-anchor", HasAlibi},
    {"sinks-ignored", HasSinks},
    {"sinks-repeated", HasSinks},
    {"sinks-scaled", HasSinks},
    {"dropout-ignored", HasDropout},
    {"dropout-unscaled", HasDropout},
    {"dropout-scale", HasDropout},
    {"dropout-order", HasDropout},
    {"scores-mode", HasScores},
    {"hidden-finite", MayHide},
    {"hidden-maximum", MayHide},
    {"hidden-keys-in-sum", MayHide},
    {"hidden-nonfinite", MayHide},
    {"key-too-many", MayHide},
    {"empty-row", HasEmptyRow},
    {"hidden-tile", MayHide},
    {"gradient-scale", HasGradients},
    {"gradient-delta", HasGradients},
    {"gradient-softcap", HasGradients},
    {"gradient-row-lost", HasGradients},
    {"gradient-of-one-head", HasGradients},
    {"gradient-of-shared-bias", HasGradients},
    {"gradient-bias-scaled", HasGradients},
    {"gradient-sink-sign", HasGradients},
    {"gradient-kv-head", HasGradients},
    {"gradient-lanes", HasGradients},
    {"gradient-split", HasGradients},
    {"gradient-factor", HasGradients},
    {"gradient-zero", HasGradients},
    {"gradient-uninitialised", HasGradients},
    {"backward-over-forward", HasGradients},
};

}  // namespace

bool NeedsFeature(std::string_view cause_class) {
  return std::ranges::find(kFeatures, cause_class, &CauseFeature::cause_class) !=
         std::end(kFeatures);
}

bool MayShowIn(std::string_view cause_class, const Case& c) {
  const auto* known = std::ranges::find(kFeatures, cause_class, &CauseFeature::cause_class);
  return known == std::end(kFeatures) || known->is_in(c);
}

}  // namespace attest
