#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/reference/bound_tiers.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kRoundOff = 1 + 1e-6;  // of these formulas themselves, in double

using Steps = ScoreErrors::Steps;

// What a scores output has behind it (BOUND.md, section 5).
Steps StepsOf(const RowContext& context) {
  const bool caps = context.problem.softcap > 0;
  const bool caps_last = caps && context.semantics.softcap_order == SoftcapOrder::kAfterBias;
  switch (*context.problem.want_scores) {
    case ScoreMode::kCapped:
      return {caps_last, caps};
    case ScoreMode::kBiased:
      return {true, caps};
    default:
      return {false, false};
  }
}

// The bound of the stored score `s`, which is finite.
double StoredScoreBound(const RowContext& context, const ScoreErrors& errors, Steps steps,
                        int64_t key, double s) {
  const Roundings& r = context.roundings;
  // Any key's score may overflow on its way, hidden ones too: nothing keeps those from being stored.
  const double reach =
      context.head.AbsProducts(context.row.query)(key) * std::max(1.0, r.abs_scale);
  if (reach > std::min(r.range, r.score_range) / 2) return kInf;
  const double error = errors.Of(key, s, steps);
  const double stored = error + r.StoreError(std::abs(s) + error) + r.tau;
  if (!(std::abs(s) + stored < r.out_range)) return kInf;
  return stored * kRoundOff + r.ReferenceError(s, errors.ConditionOf(key, steps));
}

}  // namespace

void SetScoreBounds(const RowContext& context, Condition condition, bool has_filler,
                    RowNumbers& bound) {
  const Problem& p = context.problem;
  std::vector<double>& bounds = bound.scores;
  bounds.clear();
  if (!p.want_scores) return;
  if (p.want_scores == ScoreMode::kWeights) {
    bounds = bound.weights;
    return;
  }
  const ScoreErrors errors(p, context.inputs, context.roundings, context.head, context.row,
                           condition);
  const Steps steps = StepsOf(context);
  const Row& row = context.row;
  if (context.roundings.ParameterMayOverflow(p, row.head)) {
    bounds.assign(static_cast<size_t>(p.kv_len), kInf);
    return;
  }
  for (int64_t j = 0; j < p.kv_len; ++j) {
    const double s = context.reference.asked_scores.At(row.batch, row.head, row.query, j);
    const bool is_hidden = !Visible(p, row, j);
    if (is_hidden && p.want_scores == ScoreMode::kBiased) {
      bounds.push_back(has_filler ? kInf : 0);
    } else if (!std::isfinite(s)) {
      // Of a visible one the reference says all: NaN is due, or an infinity.
      bounds.push_back(is_hidden ? kInf : 0);
    } else {
      bounds.push_back(StoredScoreBound(context, errors, steps, j, s));
    }
  }
}

}  // namespace attest
