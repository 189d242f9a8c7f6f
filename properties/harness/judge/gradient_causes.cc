#include "properties/harness/judge/gradient_causes.h"

#include <cmath>
#include <string_view>

#include "impl/attention/visibility.h"
#include "impl/reference/gradient_row.h"
#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/gradients.h"

namespace attest {
namespace {

// Pairs and lanes of a case whose gradients some fifteen rules may compute: some tenth of a second.
constexpr double kMostProducts = 1 << 18;
// The bounds of an element under two rules differ by the number of terms and by a scale that is off.
constexpr double kOtherOrder = 64;
// Roundings of the element's type that a rule's own value may be off by.
constexpr double kOwnRoundings = 8;

// A faulty backward pass.
struct Rule {
  std::string_view cause_class, phrase;
  void (*problem)(Problem&) = nullptr;  // what it takes for its problem
  // What it makes of one row.
  void (*row)(const Problem&, const Row&, GradientRow&) = nullptr;
  bool keeps_rows = false;  // dq, dbias and dsink are right all the same
  bool drops_scale = false, drops_key_scale = false;
};

bool IsLastRow(const Problem& p, const Row& row) {
  const int64_t rows =
      p.query_lengths ? (*p.query_lengths)[static_cast<size_t>(row.batch)] : p.q_len;
  return row.query == rows - 1;
}

void OmitDelta(const Problem&, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.SetScores(pair.weight * pair.dweight);
  row.dsink = 0;
}

void OmitDeltaOfLastRow(const Problem& p, const Row& at, GradientRow& row) {
  if (IsLastRow(p, at)) OmitDelta(p, at, row);
}

void OmitSlope(const Problem&, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) {
    pair.slope = 1;
    pair.SetScores(pair.weight * (pair.dweight - row.delta));
  }
}

void OmitDropoutScale(const Problem&, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) {
    if (pair.kept == 0) continue;
    pair.dweight /= pair.kept;
    pair.kept = 1;
    pair.SetScores(pair.weight * (pair.dweight - row.delta));
  }
}

void DropLastRow(const Problem& p, const Row& at, GradientRow& row) {
  if (IsLastRow(p, at)) row.pairs.clear();
}

void DropFirstHeads(const Problem& p, const Row& at, GradientRow& row) {
  const int64_t ratio = p.heads_per_kv_head();
  if (at.head % ratio != ratio - 1) row.pairs.clear();
}

void LeaveOut(GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.dbias = 0;
}

void BiasOfLastHead(const Problem& p, const Row& at, GradientRow& row) {
  if (p.bias && p.bias->shape[1] == 1 && at.head != p.q_heads - 1) LeaveOut(row);
}

void BiasOfLastItem(const Problem& p, const Row& at, GradientRow& row) {
  if (p.bias && p.bias->shape[0] == 1 && at.batch != p.batch - 1) LeaveOut(row);
}

void BiasOfLastRow(const Problem& p, const Row& at, GradientRow& row) {
  if (p.bias && p.bias->shape[2] == 1 && at.query != p.q_len - 1) LeaveOut(row);
}

void ScaleBias(const Problem& p, const Row&, GradientRow& row) {
  for (GradientPair& pair : row.pairs) pair.dbias *= Wide{p.EffectiveScale()};
}

void NegateSink(const Problem&, const Row&, GradientRow& row) {
  row.dsink = -row.dsink;
}

void DropByHead0(Problem& p) {
  if (!p.dropout) return;
  const BitPlane own = p.dropout->keep;
  size_t flat = 0;
  ForEachRow(p, [&](const Row& row) {
    for (int64_t j = 0; j < p.kv_len; ++j) {
      p.dropout->keep.bits[flat++] = own.At(row.batch, 0, row.query, j) ? 1 : 0;
    }
  });
}

constexpr Rule kRules[] = {
    // First the rules that leave more as it is: where q is 0, dk says nothing of the scale.
    {"gradient-scale", "as if the scale were left out of dq", nullptr, nullptr, false, true},
    {"gradient-scale", "as if the scale were left out of dk", nullptr, nullptr, false, false, true},
    {"gradient-scale", "as if the scale were left out of dq and dk", nullptr, nullptr, false, true,
     true},
    {"gradient-delta", "as if D = dout . out were left out", nullptr, OmitDelta},
    {"gradient-delta", "as if D = dout . out were left out in the last row", nullptr,
     OmitDeltaOfLastRow},
    {"gradient-softcap", "as if the softcap had no slope of its own", nullptr, OmitSlope},
    {"dropout-unscaled", "as if the backward pass did not scale what dropout keeps", nullptr,
     OmitDropoutScale},
    {"dropout-ignored", "as if the backward pass did not apply dropout",
     [](Problem& p) { p.dropout.reset(); }},
    {"head-0-for-all", "as if the backward pass read the dropout mask of head 0 for every head",
     DropByHead0},
    {"gradient-row-lost", "as if the last row added nothing to dk and dv", nullptr, DropLastRow,
     true},
    {"gradient-of-one-head", "as if a kv head got the gradient of its last query head alone",
     nullptr, DropFirstHeads, true},
    {"gradient-of-shared-bias",
     "as if dbias were that of the last of the heads that share the bias", nullptr, BiasOfLastHead},
    {"gradient-of-shared-bias",
     "as if dbias were that of the last of the batch items that share the bias", nullptr,
     BiasOfLastItem},
    {"gradient-of-shared-bias", "as if dbias were that of the last of the rows that share the bias",
     nullptr, BiasOfLastRow},
    {"gradient-bias-scaled", "as if dbias were multiplied by the scale", nullptr, ScaleBias},
    {"gradient-sink-sign", "as if dsink had the wrong sign", nullptr, NegateSink},
    {"mask-ignored", "as if the backward pass ignored the boolean mask",
     [](Problem& p) { p.mask.reset(); }},
    {"causal-ignored", "as if the backward pass ignored causality",
     [](Problem& p) { p.causal = false; }},
    {"window-ignored", "as if the backward pass ignored the window",
     [](Problem& p) { p.window = {}; }},
    {"lengths-ignored", "as if the backward pass ignored the key lengths",
     [](Problem& p) { p.key_lengths.reset(); }},
    {"documents-ignored", "as if the backward pass ignored the document numbers",
     [](Problem& p) { p.documents.reset(); }},
    {"blocks-ignored", "as if the backward pass ignored the block mask",
     [](Problem& p) { p.block_mask.reset(); }},
    {"bias-ignored", "as if the backward pass ignored the additive mask",
     [](Problem& p) { p.bias.reset(); }},
    {"alibi-ignored", "as if the backward pass ignored ALiBi",
     [](Problem& p) { p.alibi_slopes.reset(); }},
    {"softcap-ignored", "as if the backward pass ignored the softcap",
     [](Problem& p) { p.softcap = 0; }},
};

// The reference of the problem that the backward pass takes for its own, with the weights that follow from
// the true lse: 0 in rows that have none.
Reference SeenReference(const Problem& seen, const Inputs& inputs, const Reference& truth,
                        const Semantics& semantics) {
  Reference reference = ComputeReference(seen, inputs, semantics);
  ForEachRow(seen, [&](const Row& row) {
    const double lse = truth.lse.At(row.batch, row.head, row.query, 0);
    for (int64_t j = 0; j < seen.kv_len; ++j) {
      double& weight = reference.weights.At(row.batch, row.head, row.query, j);
      const double s = reference.scores.At(row.batch, row.head, row.query, j);
      weight = std::isfinite(lse) ? std::exp(s - lse) : 0;
    }
  });
  reference.out = truth.out;
  reference.lse = truth.lse;
  return reference;
}

// What the kernel would give by the rule.
Gradient GradientOf(const Rule& rule, const Evidence& evidence, size_t index) {
  const Problem& p = evidence.cases[index].problem;
  const Inputs& inputs = evidence.oracle.InputsOf(index);
  const Reference& truth = evidence.oracle.ReferenceOf(index);
  const Semantics& semantics = evidence.contract.semantics;
  Problem seen = p;
  if (rule.problem != nullptr) rule.problem(seen);
  const bool is_same = seen == p;
  const Reference changed = is_same ? Reference{} : SeenReference(seen, inputs, truth, semantics);
  Gradient gradient = ComputeChangedGradient(seen, inputs, is_same ? truth : changed, semantics,
                                             [&](const Row& at, GradientRow& row) {
                                               if (rule.row != nullptr) rule.row(seen, at, row);
                                             });
  if (rule.keeps_rows) {
    const Gradient& due = evidence.oracle.GradientOf(index);
    gradient.dq = due.dq;
    gradient.dbias = due.dbias;
    gradient.dsink = due.dsink;
  }
  const double scale = p.EffectiveScale();
  if (scale == 0) return gradient;
  for (double& x : gradient.dq.values) x /= rule.drops_scale ? scale : 1;
  for (double& x : gradient.dk.values) x /= rule.drops_key_scale ? scale : 1;
  return gradient;
}

bool Fits(const Gradient& gradient, const Evidence& evidence, size_t index) {
  const Problem& p = evidence.cases[index].problem;
  const Gradient& bounds = evidence.oracle.GradientBoundOf(index);
  const double own = kOwnRoundings * TraitsOf(p.dtype).unit_roundoff;
  bool fits = true;
  ForEachGradient(evidence, index, [&](const GradientOutput& output, const GradientIndex& i) {
    if ((gradient.*output.due).empty()) return true;  // a rule without a bias says nothing of dbias
    const auto at = [&](const Array& array) { return array.At(i[0], i[1], i[2], i[3]); };
    const double due = at(gradient.*output.due), bound = at(bounds.*output.due);
    fits = WithinBound(at(evidence.outcomes[index].*output.observed), due,
                       kOtherOrder * bound + own * std::abs(due));
    return fits;
  });
  return fits;
}

}  // namespace

bool CanExplainGradient(const Problem& p) {
  const double products = static_cast<double>(p.batch * p.q_heads * p.q_len * p.kv_len) *
                          static_cast<double>(p.head_dim + p.value_dim + 8);
  return products <= kMostProducts;
}

Explanation ExplainGradient(const Evidence& evidence, size_t index) {
  const Problem& p = evidence.cases[index].problem;
  // An error that the wider tolerance takes for none says nothing of rules.
  if (!CanExplainGradient(p) || Fits(evidence.oracle.GradientOf(index), evidence, index)) {
    return {};
  }
  for (const Rule& rule : kRules) {
    if (!Fits(GradientOf(rule, evidence, index), evidence, index)) continue;
    return {std::string(rule.cause_class), std::string(rule.phrase), {}};
  }
  return {};
}

}  // namespace attest
