// Documents, prefixes and block masks: each means the explicit mask that hides the same keys, and what
// it hides takes no part. Has caught: flex_attention-style tiles skipped wrongly, packed documents
// that see each other at their seams, a prefix that undoes the window.
#include <algorithm>
#include <array>
#include <cmath>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/harness/judge/compare.h"
#include "properties/hidden_data.h"

namespace attest {
namespace {

using Ensure = Case (*)(Case, const Contract&);

Case WithDocuments(Case c, const Contract&) {
  return EnsureDocuments(std::move(c));
}

Case WithBlocks(Case c, const Contract&) {
  return EnsureBlockMask(std::move(c));
}

template <Ensure kEnsure>
Derived FeatureAndMask(const Case& original, const Contract& contract) {
  const Case c = kEnsure(original, contract);
  return Of(c, WithExplicitMask(c));
}

Verdict JudgeMask(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1, "it does not mean the mask it stands for", options);
}

template <Ensure kEnsure, unsigned kReason, Change kChange>
Derived ChangeHidden(const Case& c, const Contract& contract) {
  return DeriveHiddenChange(kEnsure(c, contract), kReason, kChange);
}

// --- The ends of a prefix ---

std::vector<int64_t> OneLength(const Problem& p, int64_t length) {
  return std::vector<int64_t>(static_cast<size_t>(p.batch), length);
}

Derived CausalAndPrefixOfZero(const Case& original, const Contract& contract) {
  Case causal = EnsureCausal(original, contract);
  causal.problem.prefix_lengths.reset();
  Case prefix = causal;
  prefix.problem.prefix_lengths = OneLength(causal.problem, 0);
  return Of(std::move(causal), std::move(prefix));
}

Derived OpenAndPrefixOfAll(const Case& original, const Contract& contract) {
  Case prefix = EnsureCausal(original, contract);
  prefix.problem.prefix_lengths = OneLength(prefix.problem, prefix.problem.kv_len);
  Case open = prefix;
  open.problem.causal = false;
  open.problem.prefix_lengths.reset();
  return Of(std::move(open), std::move(prefix));
}

Verdict JudgePrefix(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kMaskForm);
  return SameResult(evidence, 0, 1,
                    "a prefix of no keys is plain causality, one of all keys is none", options);
}

// --- Documents as sequences of their own ---

constexpr uint64_t kDocumentSalt = 0xD0C5;

// One document's rows and keys in a call of their own. Where the contract cannot say where their
// diagonal stands, nothing may look at it.
Derived TogetherAndAlone(const Case& original, const Contract& contract) {
  Case c = WithoutKeyOutputs(original);
  if (contract.causal_offset.count(CausalOffset::kExplicit) == 0) {
    c = WithoutPositions(std::move(c), contract);
  }
  c.problem.query_lengths.reset();
  const std::vector<Run> runs = DrawRuns(c);
  c = AsLiteral(WithRuns(std::move(c), runs));
  const Run run = DrawFor(c, kDocumentSalt).Pick(runs);
  const int64_t rows = run.last_query - run.first_query, keys = run.last_key - run.first_key;
  if (rows == 0 || keys == 0) return NotApplicable("the document has no rows, or no keys");
  Case alone = Select(c, Axis::kQLen, IndexRange(run.first_query, rows));
  alone = Select(alone, Axis::kKvLen, IndexRange(run.first_key, keys));
  alone.problem.documents.reset();
  return Of(std::move(c), std::move(alone));
}

Verdict JudgeAlone(const Evidence& evidence) {
  const std::vector<Run> runs = DrawRuns(evidence.cases[0]);
  const Run run = DrawFor(evidence.cases[0], kDocumentSalt).Pick(runs);
  RelationOptions options;
  options.rows = [=](const Row& row) {
    return row.query >= run.first_query && row.query < run.last_query;
  };
  options.to_b = [=](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{i[0], i[1], i[2] - run.first_query, i[3]};
  };
  return SameResult(evidence, 0, 1, "a document alone gives another answer than among others",
                    options);
}

constexpr auto kNeedsPrefix = AllOf<NeedsCausal, NeedsOrMask<Feature::kPrefixLengths>>;

template <PoisonTensor kTensor>
constexpr auto NeedsSafeDocuments =
    NeedsSafety<kTensor, Feature::kDocuments, PoisonPlace::kDocument>;
template <PoisonTensor kTensor>
constexpr auto NeedsSafeBlocks = NeedsSafety<kTensor, Feature::kBlockMask, PoisonPlace::kBlock>;

constexpr std::array<Property, 12> kProperties = {{
    {"documents.equal_explicit_mask", "documents equal the mask that hides the same keys",
     Exactness::kBitwise, Rung::kMaskCorrect, "documents and a mask",
     AllOf<Needs<Feature::kDocuments>, NeedsMask>, FeatureAndMask<WithDocuments>, JudgeMask},
    {"documents.others_do_not_matter", "changing keys and values of other documents changes no bit",
     Exactness::kBitwise, Rung::kHiddenMeansHidden, "documents or a mask",
     NeedsOrMask<Feature::kDocuments>,
     ChangeHidden<WithDocuments, kHiddenByDocument, Change::kFinite>, JudgeHiddenChange},
    {"documents.poison_in_others_keys_does_not_matter",
     "NaN and infinities in other documents' keys change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "documents or a mask, poison_safe k:document",
     NeedsSafeDocuments<PoisonTensor::kK>,
     ChangeHidden<WithDocuments, kHiddenByDocument, Change::kPoisonKeys>, JudgeHiddenChange},
    {"documents.poison_in_others_values_does_not_matter",
     "NaN and infinities in other documents' values change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "documents or a mask, poison_safe v:document",
     NeedsSafeDocuments<PoisonTensor::kV>,
     ChangeHidden<WithDocuments, kHiddenByDocument, Change::kPoisonValues>, JudgeHiddenChange},
    {"documents.each_equals_itself_alone",
     "a document in a call of its own gives the rows it gives among others", Exactness::kBound,
     Rung::kMaskCorrect, "documents or a mask", NeedsOrMask<Feature::kDocuments>, TogetherAndAlone,
     JudgeAlone},
    {"prefix.equals_explicit_mask", "causality with a prefix equals the mask it stands for",
     Exactness::kBitwise, Rung::kMaskCorrect, "causal, prefix_lengths and a mask",
     AllOf<NeedsCausal, Needs<Feature::kPrefixLengths>, NeedsMask>, FeatureAndMask<EnsurePrefix>,
     JudgeMask},
    {"prefix.of_no_keys_is_causal", "a prefix of no keys leaves plain causality",
     Exactness::kBitwise, Rung::kMaskCorrect, "causal, prefix_lengths or a mask", kNeedsPrefix,
     CausalAndPrefixOfZero, JudgePrefix},
    {"prefix.of_all_keys_is_not_causal", "a prefix of all keys leaves no causality",
     Exactness::kBitwise, Rung::kMaskCorrect, "causal, prefix_lengths or a mask", kNeedsPrefix,
     OpenAndPrefixOfAll, JudgePrefix},
    {"blocks.equal_explicit_mask", "a block mask equals the mask that hides the same keys",
     Exactness::kBitwise, Rung::kMaskCorrect, "block_mask and a mask",
     AllOf<Needs<Feature::kBlockMask>, NeedsMask>, FeatureAndMask<WithBlocks>, JudgeMask},
    {"blocks.hidden_tiles_do_not_matter", "changing keys and values in hidden tiles changes no bit",
     Exactness::kBitwise, Rung::kHiddenMeansHidden, "block_mask or a mask",
     NeedsOrMask<Feature::kBlockMask>, ChangeHidden<WithBlocks, kHiddenByBlock, Change::kFinite>,
     JudgeHiddenChange},
    {"blocks.poison_in_hidden_keys_does_not_matter",
     "NaN and infinities in keys of hidden tiles change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "block_mask or a mask, poison_safe k:block",
     NeedsSafeBlocks<PoisonTensor::kK>,
     ChangeHidden<WithBlocks, kHiddenByBlock, Change::kPoisonKeys>, JudgeHiddenChange},
    {"blocks.poison_in_hidden_values_does_not_matter",
     "NaN and infinities in values of hidden tiles change no bit", Exactness::kBitwise,
     Rung::kHiddenMeansHidden, "block_mask or a mask, poison_safe v:block",
     NeedsSafeBlocks<PoisonTensor::kV>,
     ChangeHidden<WithBlocks, kHiddenByBlock, Change::kPoisonValues>, JudgeHiddenChange},
}};

}  // namespace

std::span<const Property> VisibilityFeaturesProperties() {
  return kProperties;
}

}  // namespace attest
