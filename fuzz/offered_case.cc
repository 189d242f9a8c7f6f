#include "fuzz/offered_case.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "fuzz/resize.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/slice.h"
#include "properties/harness/case/storage.h"

namespace attest {
namespace {

void Cut(Case& c, Axis axis, int64_t most) {
  if (SizeOf(c.problem, axis) > most) c = Select(c, axis, IndexRange(0, most));
}

// A limit of 0 is none.
void CutToLimit(Case& c, Axis axis, int64_t most) {
  if (most > 0) Cut(c, axis, most);
}

// Sizes that only growth can mend.
void GrowSizes(const Contract& contract, Case& c) {
  Problem sizes = c.problem;
  const auto fit = [&](int64_t& size, int64_t multiple) {
    if (size == 0 && !contract.Has(Feature::kZeroSizes)) size = 1;
    size = (size + multiple - 1) / multiple * multiple;
  };
  fit(sizes.batch, 1);
  fit(sizes.kv_heads, 1);
  fit(sizes.q_len, 1);
  fit(sizes.kv_len, 1);
  fit(sizes.head_dim, std::max<int64_t>(contract.limits.head_dim_multiple, 1));
  fit(sizes.value_dim, 1);
  if (!contract.Has(Feature::kValueDim)) sizes.value_dim = sizes.head_dim;
  sizes.q_heads = sizes.kv_heads * std::max<int64_t>(c.problem.heads_per_kv_head(), 1);
  if (sizes.kv_heads == c.problem.kv_heads) sizes.q_heads = c.problem.q_heads;
  if (sizes == c.problem) return;
  if (auto grown = Resized(c, sizes)) c = std::move(*grown);
}

// No batch item with fewer keys than queries.
void KeepKeysForQueries(const Contract& contract, Case& c) {
  if (!contract.Excludes(Exclusion::kFewerKeysThanQueries)) return;
  Cut(c, Axis::kQLen, c.problem.kv_len);
  if (!c.problem.key_lengths) return;
  for (int64_t& length : *c.problem.key_lengths) length = std::max(length, c.problem.q_len);
}

void FitSizes(const Contract& contract, Case& c) {
  const Limits& limits = contract.limits;
  CutToLimit(c, Axis::kBatch, limits.max_batch);
  CutToLimit(c, Axis::kQLen, limits.max_q_len);
  CutToLimit(c, Axis::kKvLen, limits.max_kv_len);
  CutToLimit(c, Axis::kHeadDim, limits.max_head_dim);
  const int64_t multiple = std::max<int64_t>(limits.head_dim_multiple, 1);
  if (c.problem.head_dim >= multiple) {
    Cut(c, Axis::kHeadDim, c.problem.head_dim / multiple * multiple);
  }
  const int64_t most_heads = limits.max_heads > 0 ? limits.max_heads : c.problem.q_heads;
  int64_t ratio = contract.Has(Feature::kGqa) ? c.problem.heads_per_kv_head() : 1;
  ratio = std::min(ratio, std::max<int64_t>(most_heads, 1));
  const int64_t kv_heads = std::min(c.problem.kv_heads, most_heads / std::max<int64_t>(ratio, 1));
  c = SelectHeads(c, IndexRange(0, kv_heads), ratio);
  if (contract.Has(Feature::kValueDim)) return;
  Cut(c, Axis::kValueDim, c.problem.head_dim);
}

void FitTypes(const Contract& contract, Case& c) {
  Problem& p = c.problem;
  const std::vector<DType> dtypes = OfferedDTypes(contract);
  if (std::ranges::find(dtypes, p.dtype) == dtypes.end()) {
    p.dtype = dtypes[c.recipe.seed % dtypes.size()];
  }
  if (p.fp8 && !contract.fp8.contains(p.fp8->format)) p.fp8.reset();
  if (!contract.Has(Feature::kBiasF32)) p.bias_dtype.reset();
}

void DropBias(Case& c) {
  c.problem.bias.reset();
  c.problem.bias_dtype.reset();
  std::erase_if(c.overrides, [](const Override& o) { return o.tensor == DataTensor::kBias; });
}

// What only the feature itself can express.
void DropOptions(const Contract& contract, Case& c) {
  Problem& p = c.problem;
  const auto lacks = [&](Feature feature) { return !contract.Has(feature); };
  if (lacks(Feature::kMask)) p.mask.reset();
  if (lacks(Feature::kBias) || (p.mask && lacks(Feature::kMaskWithBias))) DropBias(c);
  if (lacks(Feature::kWeights)) p.want_weights = false;
  if (contract.lse == LseKind::kNone) p.want_lse = false;
  if (p.want_scores && !contract.scores.contains(*p.want_scores)) p.want_scores.reset();
  if (p.scale && !contract.OffersScale(*p.scale)) p.scale.reset();
  if (lacks(Feature::kSoftcap)) p.softcap = 0;
  if (lacks(Feature::kAlibi)) p.alibi_slopes.reset();
  if (lacks(Feature::kSinks)) p.sinks.reset();
  if (lacks(Feature::kDropout)) p.dropout.reset();
  if (lacks(Feature::kQueryLengths)) p.query_lengths.reset();
}

void DropHiding(const Contract& contract, Problem& p) {
  const auto lacks = [&](Feature feature) {
    return !contract.Has(feature) && !contract.Has(Feature::kMask);
  };
  if (lacks(Feature::kCausal)) p.causal = false;
  if (lacks(Feature::kWindow)) p.window = {};
  if (lacks(Feature::kKeyLengths)) p.key_lengths.reset();
  if (lacks(Feature::kPrefixLengths)) p.prefix_lengths.reset();
  if (lacks(Feature::kDocuments)) p.documents.reset();
  if (lacks(Feature::kBlockMask)) p.block_mask.reset();
  if (contract.IsAlwaysCausal()) p.causal = true;
  if (contract.Has(Feature::kWindow)) FitWindow(contract, p);
  if (!LooksAtDiagonal(p) || CanExpressDiagonal(contract, p)) return;
  const auto alignments = OfferedAlignments(contract, p.key_lengths.has_value());
  if (!alignments.empty()) p.diagonal_offset = OffsetsFor(alignments.front(), p);
}

void DropStorage(const Contract& contract, Case& c) {
  Storage& s = c.storage;
  if (!contract.Has(Feature::kPast)) s.past = 0;
  if (!contract.Has(Feature::kPages)) s.page_size = 0;
  if (!contract.Has(Feature::kRing)) s.ring = false;
  if (!contract.Has(Feature::kPacked)) s.packed = false;
  if (s.past == 0) s.without_present = false;
  if (std::ranges::count(OfferedFirstCalls(contract), s.first_call) == 0) {
    s.first_call = FirstCall::kNo;
  }
  if (!OffersLayouts(contract, c.layouts)) c.layouts = {};
  MendStorage(c);
}

}  // namespace

Case OfferedCase(const Case& original, const Contract& contract) {
  Case c = original;
  GrowSizes(contract, c);
  FitSizes(contract, c);
  KeepKeysForQueries(contract, c);
  FitTypes(contract, c);
  DropOptions(contract, c);
  DropHiding(contract, c.problem);
  DropStorage(contract, c);
  return Validate(c) ? original : c;
}

}  // namespace attest
