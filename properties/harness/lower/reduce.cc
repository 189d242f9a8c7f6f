#include "properties/harness/lower/reduce.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "impl/attention/visibility.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/planes.h"
#include "properties/harness/lower/offered.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// --- To a boolean mask ---

// What the contract cannot express of a problem's visibility.
struct Moves {
  bool diagonal = false;  // causality, window and prefix
  bool lengths = false;
  bool documents = false;
  bool blocks = false;

  bool any() const { return diagonal || lengths || documents || blocks; }
};

bool PassesKeyLengths(const Case& c, const Contract& contract) {
  return contract.Has(Feature::kKeyLengths) || c.storage.page_size > 0 || c.storage.packed;
}

// With nothing said of the diagonal it is that of row i at key i.
bool PassesAlibi(const Case& c, const Problem& asked, const Contract& contract) {
  if (!contract.Has(Feature::kAlibi)) return false;
  if (!contract.causal_offset.empty()) return ExpressesDiagonal(c, asked, contract);
  for (int64_t b = 0; b < asked.batch; ++b) {
    if (asked.DiagonalOffset(b) != 0) return false;
  }
  return true;
}

// Whether the contract keeps causality and the masks of the call apart.
bool ExcludesMasks(const Contract& contract, bool mask, bool bias) {
  if (mask && (!contract.Has(Feature::kMask) || (bias && !contract.Has(Feature::kMaskWithBias)))) {
    mask = false;  // it becomes a bias, see FitMaskForms
    bias = true;
  }
  return (mask && contract.Excludes(Exclusion::kCausalWithMask)) ||
         (bias && contract.Excludes(Exclusion::kCausalWithBias));
}

Moves MovesFor(const Case& c, const Problem& asked, const Contract& contract) {
  const Problem& p = asked;
  Moves moves;
  moves.lengths = c.problem.key_lengths && !PassesKeyLengths(c, contract);
  moves.documents = p.documents && !contract.Has(Feature::kDocuments);
  moves.blocks = p.block_mask && !contract.Has(Feature::kBlockMask);
  if (!p.causal && !p.window.active()) return moves;
  const bool mask = p.mask || moves.any();
  const bool bias = p.bias || (p.alibi_slopes && !PassesAlibi(c, asked, contract));
  moves.diagonal = (p.causal && !contract.Has(Feature::kCausal)) ||
                   (p.causal && ExcludesMasks(contract, mask, bias)) ||
                   !OffersWindow(contract, p) ||
                   (p.causal && p.prefix_lengths && !contract.Has(Feature::kPrefixLengths)) ||
                   !ExpressesDiagonal(c, asked, contract);
  return moves;
}

std::string WhatIsNotOffered(const Problem& p, const Moves& moves) {
  if (moves.lengths) return "key_lengths is not offered";
  if (moves.documents) return "documents are not offered";
  if (moves.blocks) return "a block mask is not offered";
  if (p.causal && p.prefix_lengths) return "this causal diagonal with prefixes is not offered";
  return p.causal ? "this causal diagonal is not offered" : "this window is not offered";
}

void ResetDiagonal(Problem& p) {
  p.causal = false;
  p.window = {};
  p.prefix_lengths.reset();
}

// Moves what `moves` names into a full boolean mask, together with the mask that is there already.
void MoveToMask(const Moves& moves, Reduced& r) {
  Problem hiding = r.problem;
  hiding.bias.reset();
  if (!moves.diagonal) ResetDiagonal(hiding);
  if (!moves.lengths) hiding.key_lengths.reset();
  if (!moves.documents) hiding.documents.reset();
  if (!moves.blocks) hiding.block_mask.reset();
  r.problem.mask = VisiblePlane(hiding);
  if (moves.diagonal) ResetDiagonal(r.problem);
  if (moves.lengths) r.problem.key_lengths.reset();
  if (moves.documents) r.problem.documents.reset();
  if (moves.blocks) r.problem.block_mask.reset();
  r.via_mask = true;
}

// --- To an additive mask ---

// The additive mask of full shape that `value` gives where `attends` says so, and -inf elsewhere.
template <typename Attends, typename Value>
void SetBias(Reduced& r, Attends&& attends, Value&& value) {
  BitPlane plane;
  plane.shape = r.problem.WeightsShape();
  Array bias(plane.shape, -kInf);
  size_t flat = 0;
  ForEachRow(r.problem, [&](const Row& row) {
    for (int64_t j = 0; j < r.problem.kv_len; ++j, ++flat) {
      plane.bits.push_back(attends(row, j) ? 1 : 0);
      if (plane.bits.back() != 0) bias.values[flat] = value(row, j);
    }
  });
  r.problem.bias = std::move(plane);
  r.bias = std::move(bias);
  r.via_mask = true;
}

bool BiasAttends(const Problem& p, const Row& row, int64_t j) {
  return !p.bias || p.bias->At(row.batch, row.head, row.query, j);
}

double BiasAt(const Reduced& r, const Row& row, int64_t j) {
  return r.problem.bias ? r.bias.Broadcast(row.batch, row.head, row.query, j) : 0;
}

// Moves the boolean mask into the additive one.
void MaskToBias(Reduced& r) {
  const Reduced before = r;
  r.problem.mask.reset();
  SetBias(
      r,
      [&](const Row& row, int64_t j) {
        return before.problem.mask->At(row.batch, row.head, row.query, j) &&
               BiasAttends(before.problem, row, j);
      },
      [&](const Row& row, int64_t j) { return BiasAt(before, row, j); });
}

// a + b where that is exact and a value of `dtype`; else nullopt.
std::optional<double> ExactSum(double a, double b, DType dtype) {
  const double sum = a + b, part = sum - a;
  const double lost = (a - (sum - part)) + (b - part);
  if (lost != 0 || RoundTo(dtype, sum) != sum) return std::nullopt;
  return sum;
}

// Moves ALiBi into an additive mask of `dtype`; false, and nothing moved, where a visible key's value
// is not exact in it. Hidden keys get 0.
bool AlibiToBias(Reduced& r, DType dtype) {
  const Reduced before = r;
  const Problem& p = before.problem;
  bool is_exact = true;
  const auto value = [&](const Row& row, int64_t j) {
    if (!Visible(p, row, j)) return 0.0;
    const double alibi = p.Alibi(row.batch, row.head, row.query, j);
    const double distance =
        std::abs(static_cast<double>(row.query + p.DiagonalOffset(row.batch) - j));
    const double slope = (*p.alibi_slopes)[static_cast<size_t>(row.head)];
    const bool is_product = std::fma(slope, distance, alibi) == 0;
    const auto sum = ExactSum(BiasAt(before, row, j), alibi, dtype);
    is_exact = is_exact && is_product && sum;
    return sum.value_or(0);
  };
  SetBias(
      r, [&](const Row& row, int64_t j) { return BiasAttends(p, row, j); }, value);
  r.problem.alibi_slopes.reset();
  if (!is_exact) r = before;
  return is_exact;
}

bool CanHoldF32Bias(const Problem& p, const Contract& contract) {
  return p.dtype == DType::kF32 || contract.Has(Feature::kBiasF32);
}

MaybeReason ReduceAlibi(const Contract& contract, Reduced& r) {
  if (!contract.Has(Feature::kBias)) return "alibi is not offered";
  if (AlibiToBias(r, r.problem.BiasDType())) return std::nullopt;
  if (CanHoldF32Bias(r.problem, contract) && AlibiToBias(r, DType::kF32)) {
    r.problem.bias_dtype = DType::kF32;
    return std::nullopt;
  }
  return "alibi is not offered, and as an additive mask it would be rounded";
}

// --- The planes as the contract wants them ---

MaybeReason FitMaskForms(const Contract& contract, Reduced& r) {
  const bool both = r.problem.mask && r.problem.bias;
  if (r.problem.mask &&
      (!contract.Has(Feature::kMask) || (both && !contract.Has(Feature::kMaskWithBias)))) {
    if (!contract.Has(Feature::kBias)) return "mask is not offered";
    MaskToBias(r);
  }
  if (r.problem.bias && !contract.Has(Feature::kBias)) return "an additive mask is not offered";
  return std::nullopt;
}

MaybeReason CheckBiasType(const Contract& contract, const Problem& p) {
  if (!p.bias || !p.bias_dtype || CanHoldF32Bias(p, contract)) return std::nullopt;
  return fmt::format("an f32 additive mask beside {} is not offered", Name(p.dtype));
}

// The extents that a plane must have for this contract.
Shape4 FittedShape(const Problem& p, const Shape4& shape, const Contract& c) {
  if (!c.Has(Feature::kMaskBroadcast)) return p.WeightsShape();
  Shape4 fitted = shape;
  if (!c.Has(Feature::kMaskKeyBroadcast)) fitted[3] = p.kv_len;
  return fitted;
}

void FitPlanes(const Contract& c, Reduced& r) {
  for (std::optional<BitPlane>* plane : {&r.problem.mask, &r.problem.bias}) {
    if (!*plane) continue;
    *plane = ExpandTo(**plane, FittedShape(r.problem, (*plane)->shape, c));
    if (!c.Has(Feature::kMaskRanks)) (*plane)->rank = 4;
  }
  if (r.problem.bias) r.bias = ExpandTo(r.bias, r.problem.bias->shape);
}

// Where windows have no right end, one that says what causality says, or less, is left to it.
void LeaveRightEndToCausality(const Contract& contract, Problem& p) {
  if (contract.window_sides == WindowSides::kBoth || !p.window.right) return;
  if (!contract.Has(Feature::kCausal)) return;
  p.causal |= *p.window.right == 0;
  if (p.causal && !p.prefix_lengths) p.window.right.reset();
}

// The case's problem, but for what the kernel is not told or always told.
Problem AskedOf(const Case& c, const Contract& contract) {
  Problem asked = c.problem;
  if (!asked.causal) asked.prefix_lengths.reset();  // it only ever undoes causality
  LeaveRightEndToCausality(contract, asked);
  if (!PassesKeyLengths(c, contract)) asked.key_lengths.reset();
  if (c.storage.page_size > 0 && !asked.key_lengths) {
    asked.key_lengths.emplace(static_cast<size_t>(asked.batch), asked.kv_len);
  }
  return asked;
}

tl::unexpected<Unsupported> Lacks(std::string reason) {
  return tl::unexpected(Unsupported{std::move(reason)});
}

}  // namespace

tl::expected<Reduced, Unsupported> Reduce(const Case& c, const Inputs& inputs,
                                          const Contract& contract) {
  const Problem asked = AskedOf(c, contract);
  Reduced r{c.problem, inputs.bias, false};
  if (asked.key_lengths) r.problem.key_lengths = asked.key_lengths;
  if (!PassesQueryLengths(c, contract)) r.problem.query_lengths.reset();
  r.problem.causal = asked.causal;
  r.problem.window = asked.window;
  r.problem.prefix_lengths = asked.prefix_lengths;
  // f64 holds every f32.
  if (!r.problem.bias || r.problem.dtype == DType::kF64) r.problem.bias_dtype.reset();
  const Moves moves = MovesFor(c, asked, contract);
  if (contract.IsAlwaysCausal() && (!asked.causal || moves.diagonal)) {
    return Lacks("a call that is not causal is not offered");
  }
  if (moves.any()) {
    const bool is_maskable = contract.Has(Feature::kMask) || contract.Has(Feature::kBias);
    const std::string what = WhatIsNotOffered(asked, moves);
    if (!is_maskable) return Lacks(what);
    if (c.storage.packed) return Lacks(what + ", and packed sequences carry no mask in its place");
    MoveToMask(moves, r);
  }
  if (r.problem.alibi_slopes && !PassesAlibi(c, asked, contract)) {
    if (c.storage.packed) return Lacks("this alibi diagonal is not offered");
    if (auto reason = ReduceAlibi(contract, r)) return Lacks(std::move(*reason));
  }
  if (auto reason = FitMaskForms(contract, r)) return Lacks(std::move(*reason));
  if (auto reason = CheckBiasType(contract, r.problem)) return Lacks(std::move(*reason));
  FitPlanes(contract, r);
  return r;
}

}  // namespace attest
