// What holds of dbias and dsink beside the reference: relations that need no value of it. A shared bias
// gathers what its copies would; what is added to all scores of a row drops out of the softmax.
#include <utility>

#include <fmt/format.h>

#include "properties/derive.h"
#include "properties/gradient_cases.h"
#include "properties/harness/case/planes.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/gradients.h"

namespace attest {
namespace {

// The case with a bias, without what the lowering would have to put into it.
Case WithOwnBias(Case c, const Contract& backward) {
  c = EnsureBias(std::move(c));
  if (!backward.Has(Feature::kAlibi)) c.problem.alibi_slopes.reset();
  const bool goes_with_masks =
      backward.Has(Feature::kMaskWithBias) && !backward.Excludes(Exclusion::kCausalWithBias);
  return goes_with_masks ? c : WithBiasAlone(std::move(c));
}

Case WithFullBias(Case c) {
  const Shape4 full = c.problem.WeightsShape();
  Array values = ExpandTo(Materialise(c).bias, full);
  c.problem.bias = ExpandTo(*c.problem.bias, full);
  c.problem.bias->rank = 4;
  return WithData(std::move(c), DataTensor::kBias, std::move(values));
}

// The bias of index 0 along the axes where `shape`, else that of the bias, has 1.
Case WithSharedBias(Case c, const Shape4& shape) {
  const Array full = Materialise(c).bias;
  const BitPlane plane = *c.problem.bias;
  Array values(shape);
  c.problem.bias = BitPlane{shape, 4, {}};
  size_t flat = 0;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i)
        for (int64_t j = 0; j < shape[3]; ++j) {
          values.values[flat++] = full.At(b, h, i, j);
          c.problem.bias->bits.push_back(plane.At(b, h, i, j) ? 1 : 0);
        }
  return WithData(std::move(c), DataTensor::kBias, std::move(values));
}

GradientIndex SharedIndex(const Shape4& shape, GradientIndex index) {
  for (size_t axis = 0; axis < index.size(); ++axis) {
    if (shape[axis] == 1) index[axis] = 0;
  }
  return index;
}

// Numbers with what they may be off by.
struct Sums {
  explicit Sums(const Shape4& shape) : value(shape), bound(shape) {}
  void Add(const GradientIndex& at, double x, double off) {
    value.At(at[0], at[1], at[2], at[3]) += x;
    bound.At(at[0], at[1], at[2], at[3]) += off;
  }
  Array value, bound;
};

// Calls visit(output, index, observed, bound) for the elements of dbias and dsink of a case.
template <typename Visitor>
void ForEachOfBias(const Evidence& evidence, size_t call, Visitor&& visit) {
  const Gradient& bounds = evidence.oracle.GradientBoundOf(call);
  ForEachGradient(evidence, call, [&](const GradientOutput& output, const GradientIndex& i) {
    if (output.by != GradientBy::kBias && output.by != GradientBy::kSink) return true;
    const auto at = [&](const Array& array) { return array.At(i[0], i[1], i[2], i[3]); };
    return visit(output, i, at(evidence.outcomes[call].*output.observed), at(bounds.*output.due));
  });
}

}  // namespace

std::string NeedsSharedBiasGradient(const Contract& backward) {
  const std::string why = Lacks(backward, Feature::kBiasGradient);
  return why.empty() ? Lacks(backward, Feature::kMaskBroadcast) : why;
}

Derived SharedAndSpeltOut(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& c) {
    const Case own = WithOwnBias(AsLiteral(c), BackwardContract(contract));
    Draw draw = DrawFor(c, 0x5B1);
    Shape4 shape = own.problem.WeightsShape();
    for (size_t axis = 0; axis < 3; ++axis) {
      if (own.problem.bias->shape[axis] == 1 || draw.Percent(40)) shape[axis] = 1;
    }
    if (shape == own.problem.WeightsShape()) return NotApplicable("no two pairs share a bias");
    const Case shared = WithSharedBias(WithFullBias(own), shape);
    return Of(shared, WithFullBias(shared));
  });
}

Verdict JudgeSharedBias(const Evidence& evidence) {
  const Shape4& shape = evidence.cases[0].problem.bias->shape;
  Sums sums(shape);
  ForEachOfBias(evidence, 1,
                [&](const GradientOutput& output, const GradientIndex& at, double x, double bound) {
                  if (output.by == GradientBy::kBias) sums.Add(SharedIndex(shape, at), x, bound);
                  return true;
                });
  Verdict verdict;
  ForEachOfBias(evidence, 0,
                [&](const GradientOutput& output, const GradientIndex& at, double got, double own) {
                  if (output.by != GradientBy::kBias) return true;
                  const int64_t rows = verdict.rows += at[3] == 0 ? 1 : 0;
                  const double sum = sums.value.At(at[0], at[1], at[2], at[3]);
                  const double bound = own + sums.bound.At(at[0], at[1], at[2], at[3]);
                  if (WithinBound(got, sum, bound)) return true;
                  verdict =
                      FailGradientAt(evidence, 0, output, at, sum, got, bound,
                                     "a bias that several rows share gathers the gradients of all",
                                     "is the sum over those that share it");
                  verdict.rows = rows;
                  AddGradientCause(evidence, 0, verdict);
                  return false;
                });
  return verdict;
}

Derived WithABiasOfEachPair(const Case& original, const Contract& contract) {
  return FromGradients(original, contract, [&](const Case& wanted) {
    Case c = wanted;
    c.problem.query_lengths.reset();
    if (contract.semantics.softcap_order == SoftcapOrder::kAfterBias) c.problem.softcap = 0;
    if (!contract.HasBackward(Feature::kSinkGradient)) c.problem.sinks.reset();
    return Of(WithFullBias(WithOwnBias(AsLiteral(c), BackwardContract(contract))));
  });
}

Verdict JudgeShift(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  // A sink is shared by the rows of its head.
  const Shape4 shape =
      p.sinks ? Shape4{1, p.q_heads, 1, 1} : Shape4{p.batch, p.q_heads, p.q_len, 1};
  Sums sums(shape);
  const GradientOutput* output = nullptr;
  ForEachOfBias(evidence, 0,
                [&](const GradientOutput& of, const GradientIndex& at, double x, double bound) {
                  if (of.by == GradientBy::kBias) output = &of;
                  sums.Add(SharedIndex(shape, at), x, bound);
                  return true;
                });
  Verdict verdict;
  for (int64_t b = 0; output != nullptr && b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i) {
        ++verdict.rows;
        const double sum = sums.value.At(b, h, i, 0), bound = sums.bound.At(b, h, i, 0);
        if (WithinBound(sum, 0, bound)) continue;
        Verdict failed = FailGradientAt(evidence, 0, *output, {b, h, i, 0}, 0, sum, bound, "");
        failed.rows = verdict.rows;
        failed.sentence = fmt::format(
            "the gradients of the scores of {} sum to {} where 0 was due, give or take {:.3g}: "
            "what is "
            "added to all scores of a row changes no output",
            p.sinks ? fmt::format("head {} and its sink", h)
                    : fmt::format("batch {}, head {}, query {}", b, h, i),
            sum, bound);
        AddGradientCause(evidence, 0, failed);
        return failed;
      }
  return verdict;
}

}  // namespace attest
