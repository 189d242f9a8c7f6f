#include "impl/reference/plugin/emulation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "impl/attention/contract_json.h"
#include "impl/attention/visibility.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLn2 = 0.69314718055994530942;

bool CarriesTensor(const Contract& c) {
  return c.causal_offset.size() > 1 || c.causal_offset.count(CausalOffset::kExplicit) != 0;
}

// The diagonal of batch item `b` by one rule. A packed item has lengths of its own.
int64_t OffsetBy(CausalOffset rule, const CallView& call, int64_t b) {
  const int64_t rows = call.is_packed() ? call.QueryLength(b) : call.q_len;
  switch (rule) {
    case CausalOffset::kKvLenMinusQLen:
      return (call.is_packed() ? call.KeyLength(b) : call.kv_len) - rows;
    case CausalOffset::kKeyLengthMinusQLen:
      return call.KeyLength(b) - rows;
    case CausalOffset::kByInputs:
      return call.key_lengths ? call.KeyLength(b) - rows : call.storage.past;
    default:
      return 0;
  }
}

bool IsBroadcast(const TensorView& view, size_t axis) {
  return view.shape[axis] > 1 && view.strides[axis] == 0;
}

// --- What a call uses ---

struct Use {
  bool used;
  Feature feature;
  const char* name;
};

std::optional<std::string> UnofferedFeature(const CallView& call, const Contract& c) {
  const std::optional<TensorView>& plane = call.mask ? call.mask : call.bias;
  const bool broadcast =
      plane && (IsBroadcast(*plane, 0) || IsBroadcast(*plane, 1) || IsBroadcast(*plane, 2));
  // Of packed sequences and pages only the longest length is known, which may well be 0.
  const bool stored_lengths = call.is_packed() || call.is_paged();
  const int64_t shortest = stored_lengths ? 1 : std::min(call.q_len, call.kv_len);
  const bool empty =
      std::min({call.batch, call.q_heads, call.head_dim, call.value_dim, shortest}) == 0;
  const Use uses[] = {
      {call.causal, Feature::kCausal, "causal"},
      {call.window_left || call.window_right, Feature::kWindow, "window"},
      {call.key_lengths && !stored_lengths, Feature::kKeyLengths, "key_lengths"},
      {call.query_lengths && !call.is_packed(), Feature::kQueryLengths, "query_lengths"},
      {call.prefix_lengths.has_value(), Feature::kPrefixLengths, "prefix_lengths"},
      {call.documents.has_value(), Feature::kDocuments, "documents"},
      {call.block_mask.has_value(), Feature::kBlockMask, "block_mask"},
      {call.mask.has_value(), Feature::kMask, "mask"},
      {call.bias.has_value(), Feature::kBias, "bias"},
      {call.mask && call.bias, Feature::kMaskWithBias, "mask_with_bias"},
      {broadcast, Feature::kMaskBroadcast, "mask_broadcast"},
      {plane && IsBroadcast(*plane, 3), Feature::kMaskKeyBroadcast, "mask_key_broadcast"},
      {call.bias && call.bias_dtype != call.dtype, Feature::kBiasF32, "bias_f32"},
      {call.q_heads != call.kv_heads, Feature::kGqa, "gqa"},
      {call.head_dim != call.value_dim, Feature::kValueDim, "value_dim"},
      {empty, Feature::kZeroSizes, "zero_sizes"},
      {call.softcap != 0, Feature::kSoftcap, "softcap"},
      {call.alibi_slopes.has_value(), Feature::kAlibi, "alibi"},
      {call.sinks.has_value(), Feature::kSinks, "sinks"},
      {call.dropout.has_value(), Feature::kDropout, "dropout"},
      {call.storage.has_past, Feature::kPast, "past"},
      {call.present_k || call.present_v, Feature::kPresent, "present"},
      {call.is_paged(), Feature::kPages, "pages"},
      {!call.storage.ring_start.empty(), Feature::kRing, "ring"},
      {call.is_packed(), Feature::kPacked, "packed"},
      {call.weights.has_value(), Feature::kWeights, "weights"},
  };
  for (const Use& use : uses) {
    if (use.used && !c.Has(use.feature)) return std::string(use.name) + " is not offered";
  }
  return std::nullopt;
}

// What each half of is offered, but not the whole.
std::optional<std::string> UnofferedTogether(const CallView& call, const Contract& c) {
  if (c.IsAlwaysCausal() && !call.causal) return "a call that is not causal is not offered";
  if ((call.causal && call.mask && c.Excludes(Exclusion::kCausalWithMask)) ||
      (call.causal && call.bias && c.Excludes(Exclusion::kCausalWithBias))) {
    return "causality does not go with a mask";
  }
  if (call.storage.has_past && call.storage.past == 0 && c.Excludes(Exclusion::kEmptyPast)) {
    return "past keys of extent 0 are not offered";
  }
  const bool has_present = call.present_k || call.present_v;
  if (has_present && !call.storage.has_past && c.Excludes(Exclusion::kPresentWithoutPast)) {
    return "the present without a past is not offered";
  }
  for (int64_t b = 0; c.Excludes(Exclusion::kFewerKeysThanQueries) && b < call.batch; ++b) {
    if (call.KeyLength(b) < call.QueryLength(b)) return "fewer keys than queries are not offered";
  }
  if (!c.OffersScale(call.scale))
    return "a scale of " + std::to_string(call.scale) + " is not offered";
  if (c.window_sides == WindowSides::kBoth) return std::nullopt;
  if (call.window_right) return "windows have no right end";
  if (call.window_left && !call.causal && c.window_sides == WindowSides::kLeftIfCausal) {
    return "a window without causality is not offered";
  }
  return std::nullopt;
}

std::optional<std::string> UnofferedForm(const CallView& call, const Contract& c) {
  if (c.dtypes.count(call.dtype) == 0) return std::string(Name(call.dtype)) + " is not offered";
  if (call.fp8 && c.fp8.count(*call.fp8) == 0) {
    return std::string(Name(*call.fp8)) + " is not offered";
  }
  if (call.lse && c.lse == LseKind::kNone) return "lse is not offered";
  if (call.scores && c.scores.count(static_cast<ScoreMode>(call.score_mode)) == 0) {
    return "this scores output is not offered";
  }
  if (c.limits.max_head_dim > 0 && call.head_dim > c.limits.max_head_dim) {
    return "head_dim is too large";
  }
  if (call.head_dim % c.limits.head_dim_multiple != 0) return "head_dim is not such a multiple";
  return std::nullopt;
}

// Row-major in the order of axes given, without gaps.
bool IsDense(const TensorView& view, const std::array<size_t, 4>& order) {
  int64_t expected = 1;
  for (size_t n = 4; n-- > 0;) {
    const size_t axis = order[n];
    if (view.shape[axis] != 1 && view.strides[axis] != expected) return false;
    expected *= view.shape[axis];
  }
  return true;
}

// The lanes lie together, and heads and positions in the order given: no stride is smaller than what lies
// within it.
bool IsOrdered(const TensorView& view, const std::array<size_t, 4>& order) {
  if (view.shape[3] > 1 && view.strides[3] != 1) return false;
  int64_t extent = view.shape[3];
  for (size_t n = 3; n-- > 0;) {
    const size_t axis = order[n];
    if (view.shape[axis] == 1) continue;
    if (view.strides[axis] < extent) return false;
    extent = view.strides[axis] * view.shape[axis];
  }
  return true;
}

bool TakesStrides(const TensorView& view, const Contract& c) {
  constexpr std::array<size_t, 4> kBhsd = {0, 1, 2, 3}, kBshd = {0, 2, 1, 3};
  if (c.strides == Strides::kAny || ElementCount(view.shape) == 0) return true;
  const auto fits = c.strides == Strides::kDense ? IsDense : IsOrdered;
  return (c.layouts.count(TensorLayout::kBhsd) != 0 && fits(view, kBhsd)) ||
         (c.layouts.count(TensorLayout::kBshd) != 0 && fits(view, kBshd));
}

// A diagonal given by a tensor must be one that the contract names.
bool TakesDiagonal(const CallView& call, const Contract& c) {
  if (!call.diagonal_offset || c.causal_offset.count(CausalOffset::kExplicit) != 0) return true;
  if (!CarriesTensor(c)) return false;
  return std::any_of(c.causal_offset.begin(), c.causal_offset.end(), [&](CausalOffset rule) {
    for (int64_t b = 0; b < call.batch; ++b) {
      if (call.DiagonalOffset(b) != OffsetBy(rule, call, b)) return false;
    }
    return true;
  });
}

// --- A finite masking value ---

// The same problem with nothing hidden but what the bias sets to -inf.
Problem Opened(Problem problem) {
  problem.causal = false;
  problem.window = {};
  problem.key_lengths.reset();
  problem.prefix_lengths.reset();
  problem.documents.reset();
  problem.block_mask.reset();
  problem.mask.reset();
  return problem;
}

// Scores as the softmax sees them where a hidden one is replaced by the value, or has it added.
Array FilledScores(const Problem& problem, const Inputs& inputs, const Semantics& semantics,
                   const MaskingValue& masking) {
  Problem open = Opened(problem);
  open.want_scores = ScoreMode::kBiased;
  open.sinks.reset();
  Array scores = ComputeReference(open, inputs, semantics).asked_scores;
  ForEachRow(problem, [&](const Row& row) {
    for (int64_t j = 0; j < problem.kv_len; ++j) {
      const unsigned why = WhyHidden(problem, row, j);
      double& score = scores.At(row.batch, row.head, row.query, j);
      if (why == kHiddenByNothing || (why & kHiddenByBias) != 0) continue;
      score = masking.is_added ? score + masking.value : masking.value;
    }
  });
  return scores;
}

// The softmax of given scores: they are the bias of a problem whose products are all 0.
Reference SoftmaxOf(const Problem& problem, const Inputs& inputs, Array scores,
                    const Semantics& semantics) {
  Problem given = Opened(problem);
  given.softcap = 0;
  given.alibi_slopes.reset();
  given.want_scores.reset();
  given.bias_dtype.reset();
  BitPlane plane{scores.shape, 4, {}};
  for (const double score : scores.values) plane.bits.push_back(score == -kInf ? 0 : 1);
  given.bias = std::move(plane);
  return ComputeReference(
      given, {Array(problem.QShape()), Array(problem.KShape()), inputs.v, std::move(scores)},
      semantics);
}

// Takes rows that see no key from `from`.
void TakeEmptyRows(const Problem& problem, const Reference& from, Reference& to) {
  ForEachRow(problem, [&](const Row& row) {
    if (!SeesNoKey(problem, row)) return;
    const auto [b, h, i] = row;
    for (int64_t d = 0; d < problem.value_dim; ++d) to.out.At(b, h, i, d) = from.out.At(b, h, i, d);
    to.lse.At(b, h, i, 0) = from.lse.At(b, h, i, 0);
    for (int64_t j = 0; j < problem.kv_len; ++j) {
      to.weights.At(b, h, i, j) = from.weights.At(b, h, i, j);
    }
  });
}

}  // namespace

tl::expected<Emulation, std::string> Emulation::Of(const std::string& name) {
  auto contract = PublishedContract(name);
  if (contract) return Emulation(std::move(*contract));
  return tl::unexpected("contract " + name + " is not a published one: attest list contracts");
}

std::optional<CallError> Emulation::WhyRefused(const CallView& call) const {
  const auto unsupported = [](std::string why) {
    return CallError{ATTEST_UNSUPPORTED, std::move(why)};
  };
  if (auto why = UnofferedForm(call, contract_)) return unsupported(*why);
  if (auto why = UnofferedFeature(call, contract_)) return unsupported(*why);
  if (auto why = UnofferedTogether(call, contract_)) return unsupported(*why);
  for (const TensorView* view : {&call.q, &call.k, &call.v, &call.out}) {
    if (call.is_packed() || (call.is_paged() && (view == &call.k || view == &call.v))) continue;
    if (!TakesStrides(*view, contract_)) return unsupported("these strides are not offered");
  }
  if (!TakesDiagonal(call, contract_)) return unsupported("this diagonal_offset is not offered");
  const bool with_diagonal = contract_.window_counts == WindowCounts::kKeysWithDiagonal;
  if (with_diagonal && call.window_left == 0) return unsupported("a window of no key");
  return std::nullopt;
}

void Emulation::Canonicalise(const CallView& call, Problem& problem) const {
  if (problem.mask && contract_.mask_true_means == MaskPolarity::kHide) {
    for (uint8_t& bit : problem.mask->bits) bit ^= 1;
  }
  const bool measured = call.causal || problem.window.active() || call.alibi_slopes;
  if (measured && contract_.causal_offset.size() == 1 && !CarriesTensor(contract_)) {
    problem.diagonal_offset.clear();
    for (int64_t b = 0; b < call.batch; ++b) {
      problem.diagonal_offset.push_back(OffsetBy(*contract_.causal_offset.begin(), call, b));
    }
  }
  if (problem.window.left && contract_.window_counts == WindowCounts::kKeysWithDiagonal) {
    --*problem.window.left;
  }
}

Reference Emulation::Compute(const Problem& problem, const Inputs& inputs) const {
  const Semantics& semantics = contract_.semantics;
  Reference result = ComputeReference(problem, inputs, semantics);
  if (contract_.masking_value) {
    Reference filled =
        SoftmaxOf(problem, inputs,
                  FilledScores(problem, inputs, semantics, *contract_.masking_value), semantics);
    if (semantics.empty_row != EmptyRow::kUnspecified) TakeEmptyRows(problem, result, filled);
    filled.asked_scores = std::move(result.asked_scores);
    result = std::move(filled);
  }
  if (contract_.lse == LseKind::kBase2) {
    for (double& lse : result.lse.values) lse /= kLn2;
  }
  return result;
}

}  // namespace attest
