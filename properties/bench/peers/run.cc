#include "properties/bench/peers/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "impl/reference/plain_precision.h"

namespace attest {
namespace {

// The keys [first, last) of a problem without masks.
std::pair<Problem, Inputs> PartOf(const Problem& whole, const Inputs& inputs, int64_t first,
                                  int64_t last) {
  Problem problem = whole;
  problem.kv_len = last - first;
  problem.want_lse = true;
  Inputs part;
  part.q = inputs.q;
  part.k = Array(problem.KShape());
  part.v = Array(problem.VShape());
  for (const auto& [from, to] : {std::pair{&inputs.k, &part.k}, std::pair{&inputs.v, &part.v}}) {
    size_t n = 0;
    for (int64_t b = 0; b < problem.batch; ++b) {
      for (int64_t h = 0; h < problem.kv_heads; ++h) {
        for (int64_t j = first; j < last; ++j) {
          for (int64_t d = 0; d < to->shape[3]; ++d) to->values[n++] = from->At(b, h, j, d);
        }
      }
    }
  }
  return {std::move(problem), std::move(part)};
}

// Both parts weighted by e^lse.
Array Merge(const DirectResult& first, const DirectResult& second) {
  Array merged = first.out;
  const auto dim = static_cast<size_t>(merged.shape[3]);
  for (size_t row = 0; row < first.lse.values.size(); ++row) {
    const double a = first.lse.values[row], b = second.lse.values[row], max = std::max(a, b);
    const double first_weight = std::exp(a - max), second_weight = std::exp(b - max);
    for (size_t n = row * dim; n < (row + 1) * dim; ++n) {
      merged.values[n] =
          (first_weight * first.out.values[n] + second_weight * second.out.values[n]) /
          (first_weight + second_weight);
    }
  }
  return merged;
}

// Rows at or beyond the query length are padding; the suites leave them out or zero them.
void ZeroPaddedRows(const Problem& p, Array& out) {
  if (!p.query_lengths || out.empty()) return;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.q_heads; ++h) {
      for (int64_t i = (*p.query_lengths)[static_cast<size_t>(b)]; i < p.q_len; ++i) {
        for (int64_t d = 0; d < out.shape[3]; ++d) out.At(b, h, i, d) = 0;
      }
    }
  }
}

// The suites' baselines. FlashAttention's keeps scaled queries, scores and weights in the element
// type; PyTorch's computes 16-bit calls in f32 and rounds its result.
NumericsProfile BaselineNumerics(const Rule& rule, DType dtype) {
  NumericsProfile profile;
  if (dtype == DType::kF64) profile.accumulate = profile.scores = profile.probability = dtype;
  if (rule.kind == RuleKind::kMultiple) {
    profile.scores = profile.probability = dtype;
    profile.scale_placement = ScalePlacement::kStorage;
  }
  return profile;
}

}  // namespace

PreparedCase::PreparedCase(const PeerCase& peer_case)
    : case_(peer_case),
      inputs_(DrawInputs(peer_case)),
      reference_(ComputeReference(peer_case.problem, inputs_, Semantics{})) {
  if (NeedsBaseline(case_.rule)) {
    const Problem& p = case_.problem;
    baseline_ = ComputePlainPrecision(p, inputs_, BaselineNumerics(case_.rule, p.dtype));
  }
  ZeroPaddedRows(case_.problem, reference_.out);
  ZeroPaddedRows(case_.problem, reference_.lse);
  ZeroPaddedRows(case_.problem, baseline_);
}

bool PreparedCase::Passes(const DirectKernel& kernel) const {
  if (case_.merge_at) return MergedPasses(kernel);
  const DirectResult result = kernel.Run(case_.problem, inputs_, case_.form);
  if (result.status != ATTEST_OK || !OutPasses(result.out)) return false;
  return !case_.others || OthersPass(result);
}

bool PreparedCase::MergedPasses(const DirectKernel& kernel) const {
  const Problem& p = case_.problem;
  const auto [first, first_inputs] = PartOf(p, inputs_, 0, *case_.merge_at);
  const auto [second, second_inputs] = PartOf(p, inputs_, *case_.merge_at, p.kv_len);
  const DirectResult a = kernel.Run(first, first_inputs, case_.form);
  const DirectResult b = kernel.Run(second, second_inputs, case_.form);
  return a.status == ATTEST_OK && b.status == ATTEST_OK && OutPasses(Merge(a, b));
}

bool PreparedCase::OutPasses(Array out) const {
  ZeroPaddedRows(case_.problem, out);
  return Accepts(case_.rule, {out, reference_.out, baseline_, case_.problem.dtype});
}

bool PreparedCase::OthersPass(const DirectResult& result) const {
  const Problem& p = case_.problem;
  const auto passes = [&](Array got, const Array& expected, DType dtype) {
    ZeroPaddedRows(p, got);
    return got.empty() || Accepts(*case_.others, {got, expected, Array(), dtype});
  };
  return passes(result.lse, reference_.lse, p.LseDType()) &&
         passes(result.weights, reference_.weights, p.dtype) &&
         passes(result.scores, reference_.asked_scores, p.dtype) &&
         passes(result.present_k, inputs_.k, p.dtype) &&
         passes(result.present_v, inputs_.v, p.dtype);
}

}  // namespace attest
