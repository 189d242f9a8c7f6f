#include "impl/reference/gradient.h"

#include <cmath>
#include <utility>
#include <vector>

#include "impl/reference/gradient_row.h"

namespace attest {
namespace {

// tanh of the softcap: from what the score was capped to, bias and ALiBi taken off where they came
// after it.
Wide TanhOf(const Problem& p, const Inputs& inputs, const Semantics& semantics, const Row& row,
            int64_t key) {
  if (p.softcap == 0) return 0;
  const int64_t kv_head = row.head / p.heads_per_kv_head();
  Wide x = 0;
  for (int64_t d = 0; d < p.head_dim; ++d) {
    x += Wide{inputs.q.At(row.batch, row.head, row.query, d)} *
         inputs.k.At(row.batch, kv_head, key, d);
  }
  x *= p.EffectiveScale();
  if (semantics.softcap_order == SoftcapOrder::kAfterBias) {
    if (p.bias) x += inputs.bias.Broadcast(row.batch, row.head, row.query, key);
    x += p.Alibi(row.batch, row.head, row.query, key);
  }
  return std::tanh(x / p.softcap);
}

double KeptOf(const Problem& p, const Row& row, int64_t key) {
  if (!p.dropout) return 1;
  return p.dropout->keep.At(row.batch, row.head, row.query, key) ? 1 / (1 - p.dropout->probability)
                                                                 : 0;
}

GradientPair MeasurePair(const Problem& p, const Inputs& inputs, const Reference& reference,
                         const Semantics& semantics, const Row& row, int64_t key) {
  const int64_t kv_head = row.head / p.heads_per_kv_head();
  GradientPair pair;
  pair.key = key;
  pair.weight = reference.weights.At(row.batch, row.head, row.query, key);
  pair.kept = KeptOf(p, row, key);
  pair.tanh = TanhOf(p, inputs, semantics, row, key);
  pair.slope = CapSlope(pair.tanh);
  pair.caps_bias = semantics.softcap_order == SoftcapOrder::kAfterBias;
  const double *dout = LineOf(inputs.dout, row.batch, row.head, row.query),
               *v = LineOf(inputs.v, row.batch, kv_head, key);
  for (int64_t d = 0; d < p.value_dim; ++d) {
    const Wide product = Wide{dout[d]} * v[d];
    pair.dweight += product;
    pair.reach += static_cast<double>(std::fabs(product));
  }
  pair.dweight *= pair.kept;
  pair.reach *= pair.kept;
  return pair;
}

// Sums of many rows, kept wide until the end.
struct WideArray {
  explicit WideArray(const Shape4& shape)
      : like(shape), sums(static_cast<size_t>(ElementCount(shape)), 0) {}
  Wide& At(int64_t a, int64_t b, int64_t c, int64_t d) { return sums[like.Index(a, b, c, d)]; }
  Wide* Line(int64_t a, int64_t b, int64_t c) { return sums.data() + like.Index(a, b, c, 0); }
  Array Rounded() {
    for (size_t n = 0; n < sums.size(); ++n) like.values[n] = static_cast<double>(sums[n]);
    return std::move(like);
  }
  Array like;
  std::vector<Wide> sums;
};

struct WideGradient {
  explicit WideGradient(const Problem& p)
      : dq(p.QShape()),
        dk(p.KShape()),
        dv(p.VShape()),
        dbias(BiasGradientShape(p)),
        dsink(SinkGradientShape(p)) {}
  WideArray dq, dk, dv, dbias, dsink;
};

// To dk and dv of `kv_head`.
void AddToKey(const Problem& p, const Inputs& inputs, const Row& row, const GradientPair& pair,
              int64_t kv_head, WideGradient& sums) {
  const Wide dproduct = pair.dscore * Wide{p.EffectiveScale()};
  const double *q = LineOf(inputs.q, row.batch, row.head, row.query),
               *dout = LineOf(inputs.dout, row.batch, row.head, row.query);
  Wide *dk = sums.dk.Line(row.batch, kv_head, pair.key),
       *dv = sums.dv.Line(row.batch, kv_head, pair.key);
  for (int64_t d = 0; d < p.head_dim; ++d) dk[d] += dproduct * q[d];
  for (int64_t d = 0; d < p.value_dim; ++d) dv[d] += Wide{pair.weight} * pair.kept * dout[d];
}

void AddPair(const Problem& p, const Inputs& inputs, const Row& row, const GradientPair& pair,
             int64_t kv_head, WideGradient& sums) {
  const auto [b, h, i] = row;
  const Wide dproduct = pair.dscore * Wide{p.EffectiveScale()};
  const double* k = LineOf(inputs.k, b, h / p.heads_per_kv_head(), pair.key);
  Wide* dq = sums.dq.Line(b, h, i);
  for (int64_t d = 0; d < p.head_dim; ++d) dq[d] += dproduct * k[d];
  if (kv_head >= 0 && kv_head < p.kv_heads) AddToKey(p, inputs, row, pair, kv_head, sums);
  if (!p.bias) return;
  const Shape4 at = BiasIndex(p, row, pair.key);
  sums.dbias.At(at[0], at[1], at[2], at[3]) += pair.dbias;
}

}  // namespace

bool GradientRow::TakesPart(const Problem& p, const Row& row) {
  return !IsPaddedQuery(p, row) && !SeesNoKey(p, row);
}

Shape4 BiasGradientShape(const Problem& p) {
  return p.bias ? p.bias->shape : Shape4{0, 0, 0, 0};
}

Shape4 SinkGradientShape(const Problem& p) {
  return p.sinks ? Shape4{1, p.q_heads, 1, 1} : Shape4{0, 0, 0, 0};
}

Shape4 BiasIndex(const Problem& p, const Row& row, int64_t key) {
  Shape4 at{row.batch, row.head, row.query, key};
  for (size_t axis = 0; axis < at.size(); ++axis) {
    if (p.bias->shape[axis] == 1) at[axis] = 0;
  }
  return at;
}

void MeasureGradientRow(const Problem& p, const Inputs& inputs, const Reference& reference,
                        const Semantics& semantics, const Row& row, GradientRow& out) {
  out = {std::move(out.pairs)};
  out.pairs.clear();
  out.kv_head = row.head / p.heads_per_kv_head();
  if (!GradientRow::TakesPart(p, row)) return;
  thread_local std::vector<int64_t> keys;
  ListVisibleKeys(p, row, keys);
  for (const int64_t key : keys) {
    out.pairs.push_back(MeasurePair(p, inputs, reference, semantics, row, key));
  }
  for (int64_t d = 0; d < p.value_dim; ++d) {
    out.delta += Wide{inputs.dout.At(row.batch, row.head, row.query, d)} *
                 reference.out.At(row.batch, row.head, row.query, d);
  }
  for (GradientPair& pair : out.pairs) pair.SetScores(pair.weight * (pair.dweight - out.delta));
  if (!p.sinks) return;
  const double lse = reference.lse.At(row.batch, row.head, row.query, 0);
  out.sink_weight = std::exp((*p.sinks)[static_cast<size_t>(row.head)] - lse);
  out.dsink = -out.sink_weight * out.delta;
}

Gradient ComputeGradient(const Problem& p, const Inputs& inputs, const Reference& reference,
                         const Semantics& semantics) {
  return ComputeChangedGradient(p, inputs, reference, semantics, {});
}

Gradient ComputeChangedGradient(const Problem& p, const Inputs& inputs, const Reference& reference,
                                const Semantics& semantics, const RowChange& change) {
  WideGradient sums(p);
  GradientRow measured;
  ForEachRow(p, [&](const Row& row) {
    MeasureGradientRow(p, inputs, reference, semantics, row, measured);
    if (change) change(row, measured);
    for (const GradientPair& pair : measured.pairs)
      AddPair(p, inputs, row, pair, measured.kv_head, sums);
    if (p.sinks) sums.dsink.At(0, row.head, 0, 0) += measured.dsink;
  });
  return {sums.dq.Rounded(), sums.dk.Rounded(), sums.dv.Rounded(), sums.dbias.Rounded(),
          sums.dsink.Rounded()};
}

}  // namespace attest
