#include "properties/harness/case/offers.h"

#include <algorithm>

namespace attest {

std::string_view Name(Alignment alignment) {
  switch (alignment) {
    case Alignment::kNone:
      return "none";
    case Alignment::kTopLeft:
      return "top_left";
    case Alignment::kBottomRight:
      return "bottom_right";
    case Alignment::kKeyLength:
      return "key_length";
    case Alignment::kExplicit:
      return "explicit";
  }
  return "unknown";
}

std::vector<int64_t> OffsetsFor(Alignment alignment, const Problem& p) {
  std::vector<int64_t> offsets;
  if (alignment != Alignment::kBottomRight && alignment != Alignment::kKeyLength) return offsets;
  for (int64_t b = 0; b < p.batch; ++b) {
    const bool by_length = alignment == Alignment::kKeyLength && p.key_lengths;
    const int64_t keys = by_length ? (*p.key_lengths)[static_cast<size_t>(b)] : p.kv_len;
    offsets.push_back(keys - p.q_len);
  }
  return offsets;
}

bool LooksAtDiagonal(const Problem& p) {
  return p.causal || p.window.active() || p.alibi_slopes;
}

Alignment ClassifyAlignment(const Problem& p) {
  if (!LooksAtDiagonal(p)) return Alignment::kNone;
  const bool zero = std::ranges::all_of(p.diagonal_offset, [](int64_t o) { return o == 0; });
  if (zero) return Alignment::kTopLeft;
  for (const Alignment alignment : {Alignment::kBottomRight, Alignment::kKeyLength}) {
    if (p.diagonal_offset == OffsetsFor(alignment, p)) return alignment;
  }
  return Alignment::kExplicit;
}

std::vector<Alignment> OfferedAlignments(const Contract& contract, bool has_key_lengths) {
  if (contract.causal_offset.count(CausalOffset::kExplicit) != 0) {
    std::vector<Alignment> all = {Alignment::kTopLeft, Alignment::kBottomRight,
                                  Alignment::kExplicit};
    if (has_key_lengths) all.push_back(Alignment::kKeyLength);
    return all;
  }
  std::vector<Alignment> offered;
  const auto offers = [&](CausalOffset offset) {
    return contract.causal_offset.count(offset) != 0;
  };
  const bool by_inputs = offers(CausalOffset::kByInputs);
  if (offers(CausalOffset::kZero) || (by_inputs && !has_key_lengths)) {
    offered.push_back(Alignment::kTopLeft);
  }
  // Without key lengths every key counts, so the key length is kv_len.
  const bool to_length = offers(CausalOffset::kKeyLengthMinusQLen);
  if (offers(CausalOffset::kKvLenMinusQLen) || (to_length && !has_key_lengths)) {
    offered.push_back(Alignment::kBottomRight);
  }
  if (has_key_lengths && (to_length || by_inputs)) offered.push_back(Alignment::kKeyLength);
  return offered;
}

bool OffersDiagonal(const Contract& contract) {
  return !OfferedAlignments(contract, false).empty() || !OfferedAlignments(contract, true).empty();
}

bool CanExpressDiagonal(const Contract& contract, const Problem& p) {
  if (contract.causal_offset.count(CausalOffset::kExplicit) != 0) return true;
  const std::vector<Alignment> offered = OfferedAlignments(contract, p.key_lengths.has_value());
  return std::ranges::any_of(offered, [&](Alignment alignment) {
    std::vector<int64_t> offsets = OffsetsFor(alignment, p);
    offsets.resize(static_cast<size_t>(p.batch));  // top-left is empty: all zero
    for (int64_t b = 0; b < p.batch; ++b) {
      if (p.DiagonalOffset(b) != offsets[static_cast<size_t>(b)]) return false;
    }
    return true;
  });
}

void FitWindow(const Contract& contract, Problem& p) {
  if (contract.window_sides == WindowSides::kBoth || !p.window.active()) return;
  if (!p.window.left) p.window.left = p.window.right;
  p.window.right.reset();
  p.causal |= contract.window_sides == WindowSides::kLeftIfCausal;
}

bool OffersWindow(const Contract& contract, const Problem& p) {
  if (!p.window.active()) return true;
  if (!contract.Has(Feature::kWindow)) return false;
  return contract.window_sides == WindowSides::kBoth ||
         (!p.window.right && (p.causal || contract.window_sides == WindowSides::kLeft));
}

std::vector<FirstCall> OfferedFirstCalls(const Contract& contract) {
  std::vector<FirstCall> offered;
  if (contract.Has(Feature::kPresent) && !contract.Excludes(Exclusion::kPresentWithoutPast)) {
    offered.push_back(FirstCall::kPastAbsent);
  }
  if (contract.Has(Feature::kPast) && !contract.Excludes(Exclusion::kEmptyPast)) {
    offered.push_back(FirstCall::kPastEmpty);
  }
  return offered;
}

bool AsksForPresent(const Case& c, const Contract& contract) {
  const Storage& s = c.storage;
  const bool may_do_without = !contract.Excludes(Exclusion::kPastWithoutPresent);
  const bool is_asked =
      s.first_call != FirstCall::kNo || (s.past > 0 && !(s.without_present && may_do_without));
  // What the present of 8-bit keys would be stored in, nobody has said.
  return is_asked && contract.Has(Feature::kPresent) && !c.problem.fp8;
}

std::vector<DType> OfferedDTypes(const Contract& contract) {
  std::vector<DType> dtypes;
  std::ranges::copy_if(contract.dtypes, std::back_inserter(dtypes), IsFloat);
  if (dtypes.empty()) dtypes.push_back(DType::kF32);
  return dtypes;
}

std::vector<Layout> OfferedLayouts(const Contract& contract) {
  const bool bhsd = contract.layouts.count(TensorLayout::kBhsd) != 0;
  const bool bshd = contract.layouts.count(TensorLayout::kBshd) != 0;
  const bool any = contract.strides == Strides::kAny;
  std::vector<Layout> layouts;
  layouts.reserve(kLayoutCount);
  if (bhsd || any) layouts.push_back(Layout::kBhsd);
  if (bshd || any) layouts.push_back(Layout::kBshd);
  if (any || (bhsd && contract.strides != Strides::kDense)) layouts.push_back(Layout::kGapped);
  if (any) layouts.push_back(Layout::kTransposed);
  if (any) layouts.push_back(Layout::kPackedQkv);
  const bool far = contract.far_strides && contract.strides != Strides::kDense;
  if (far && (any || bhsd)) layouts.push_back(Layout::kFarHeads);
  if (far && (any || bshd)) layouts.push_back(Layout::kFarRows);
  if (layouts.empty()) layouts.push_back(Layout::kBhsd);
  return layouts;
}

std::vector<Layout> OfferedKeyLayouts(const Contract& contract) {
  std::vector<Layout> layouts = OfferedLayouts(contract);
  if (contract.strides == Strides::kAny) layouts.push_back(Layout::kSharedHead);
  return layouts;
}

bool OffersLayouts(const Contract& contract, const Layouts& layouts) {
  const std::vector<Layout> keys = OfferedKeyLayouts(contract);
  const auto is_offered = [&](Layout layout, bool of_keys) {
    return (of_keys || layout != Layout::kSharedHead) &&
           std::ranges::find(keys, layout) != keys.end();
  };
  return is_offered(layouts.q, false) && is_offered(layouts.out, false) &&
         is_offered(layouts.k, true) && is_offered(layouts.v, true);
}

const Contract& EverythingContract() {
  static const Contract kEverything = [] {
    Contract c;
    c.name = "everything";
    c.causal_offset = {CausalOffset::kExplicit};
    c.lse = LseKind::kNatural;
    for (int n = 0; n <= static_cast<int>(Feature::kPacked); ++n) {
      c.features.insert(static_cast<Feature>(n));
    }
    c.fp8 = {DType::kE4M3, DType::kE5M2};
    c.scores = {ScoreMode::kRaw, ScoreMode::kCapped, ScoreMode::kBiased, ScoreMode::kWeights};
    c.dtypes = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
    c.layouts = {TensorLayout::kBhsd, TensorLayout::kBshd};
    c.strides = Strides::kAny;
    return c;
  }();
  return kEverything;
}

}  // namespace attest
