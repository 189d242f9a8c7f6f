#include "properties/harness/lower/lower.h"

#include <utility>

#include "attest/kernel.h"
#include "impl/attention/visibility.h"
#include "properties/harness/case/gradients.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/lower/offered.h"
#include "properties/harness/lower/reduce.h"
#include "properties/harness/lower/storage.h"
#include "properties/harness/lower/tensor_image.h"

namespace attest {
namespace {

CallTensor BiasTensor(const Problem& p, const Array& bias, uint8_t fill) {
  CallTensor t = MakeDense(ATTEST_ROLE_BIAS, p.BiasDType(),
                           {p.bias->shape.end() - p.bias->rank, p.bias->shape.end()}, fill);
  const size_t size = ByteSize(p.BiasDType());
  for (size_t i = 0; i < bias.values.size(); ++i) {
    StoreElement(p.BiasDType(), t.image.data() + i * size, bias.values[i]);
  }
  return t;
}

CallTensor BatchTensor(int32_t role, const std::vector<int64_t>& values, uint8_t fill) {
  return IntegerTensor(role, {static_cast<int64_t>(values.size())}, values, fill);
}

void AddVisibility(Call& call, const Problem& p, const Contract& contract) {
  auto& tensors = call.tensors;
  const uint8_t flip = contract.mask_true_means == MaskPolarity::kHide ? 1 : 0;
  if (p.mask) tensors.push_back(BitTensor(ATTEST_ROLE_MASK, *p.mask, flip, call.poison));
  for (const auto& [role, lengths] : {std::pair{ATTEST_ROLE_KEY_LENGTHS, &p.key_lengths},
                                      {ATTEST_ROLE_QUERY_LENGTHS, &p.query_lengths},
                                      {ATTEST_ROLE_PREFIX_LENGTHS, &p.prefix_lengths}}) {
    if (*lengths) tensors.push_back(BatchTensor(role, **lengths, call.poison));
  }
  if (p.documents) {
    tensors.push_back(IntegerTensor(ATTEST_ROLE_DOCUMENT_IDS, {p.batch, p.q_len},
                                    p.documents->query, call.poison));
    tensors.push_back(IntegerTensor(ATTEST_ROLE_KEY_DOCUMENT_IDS, {p.batch, p.kv_len},
                                    p.documents->key, call.poison));
  }
  if (p.block_mask) {
    tensors.push_back(BitTensor(ATTEST_ROLE_BLOCK_MASK, p.block_mask->plane, 0, call.poison));
  }
  if (LooksAtDiagonal(p) && PassesDiagonalTensor(contract)) {
    std::vector<int64_t> offsets;
    for (int64_t b = 0; b < p.batch; ++b) offsets.push_back(p.DiagonalOffset(b));
    tensors.push_back(BatchTensor(ATTEST_ROLE_DIAGONAL_OFFSET, offsets, call.poison));
  }
}

void AddScoreInputs(Call& call, const Problem& p, const Array& bias) {
  auto& tensors = call.tensors;
  if (p.bias) tensors.push_back(BiasTensor(p, bias, call.poison));
  for (const auto& [role, values] :
       {std::pair{ATTEST_ROLE_ALIBI_SLOPES, &p.alibi_slopes}, {ATTEST_ROLE_SINKS, &p.sinks}}) {
    if (*values) tensors.push_back(FloatList(role, p.LseDType(), **values, call.poison));
  }
  if (p.dropout) {
    tensors.push_back(BitTensor(ATTEST_ROLE_DROPOUT_MASK, p.dropout->keep, 0, call.poison));
  }
  if (!p.fp8) return;
  for (const auto& [role, scale] : {std::pair{ATTEST_ROLE_Q_SCALE, p.fp8->q_scale},
                                    {ATTEST_ROLE_K_SCALE, p.fp8->k_scale},
                                    {ATTEST_ROLE_V_SCALE, p.fp8->v_scale}}) {
    tensors.push_back(FloatList(role, DType::kF32, {scale}, call.poison));
  }
}

void AddOutputs(Call& call, const Case& c, const Contract& contract) {
  const Problem& p = c.problem;
  const auto dense = [&](int32_t role, const Shape4& shape) {
    call.tensors.push_back(MakeDense(role, p.dtype, {shape.begin(), shape.end()}, 0));
  };
  call.tensors.push_back(OutTensor(c));
  const bool wants_lse = p.want_lse || p.want_gradients;
  if (wants_lse && contract.lse != LseKind::kNone) call.tensors.push_back(LseTensor(c));
  if (p.want_weights && contract.Has(Feature::kWeights)) {
    dense(ATTEST_ROLE_WEIGHTS, p.WeightsShape());
  }
  if (p.want_scores) dense(ATTEST_ROLE_SCORES, p.WeightsShape());
  if (AsksForPresent(c, contract)) {
    dense(ATTEST_ROLE_PRESENT_K, p.KShape());
    dense(ATTEST_ROLE_PRESENT_V, p.VShape());
  }
}

// The gradients of bias and sinks, dense as those.
void AddOtherGradients(Call& call, const Problem& asked, const Contract& contract) {
  if (asked.bias && contract.Has(Feature::kBiasGradient)) {
    const BitPlane& bias = *asked.bias;
    call.tensors.push_back(MakeDense(ATTEST_ROLE_DBIAS, asked.BiasDType(),
                                     {bias.shape.end() - bias.rank, bias.shape.end()}, 0));
  }
  if (asked.sinks && contract.Has(Feature::kSinkGradient)) {
    call.tensors.push_back(MakeDense(ATTEST_ROLE_DSINK, asked.LseDType(), {asked.q_heads}, 0));
  }
}

bool HasQueryAxis(int32_t role) {
  return role == ATTEST_ROLE_OUT || role == ATTEST_ROLE_DQ || role == ATTEST_ROLE_LSE ||
         role == ATTEST_ROLE_WEIGHTS || role == ATTEST_ROLE_SCORES;
}

// Rows beyond their query length, where the contract leaves them alone.
void ExcusePaddedRows(Call& call, const Problem& p) {
  for (CallTensor& t : call.tensors) {
    if (!HasQueryAxis(t.role)) continue;
    const int64_t lanes = t.shape.size() == 4 ? t.shape[3] : 1;
    ForEachRow(p, [&](const Row& row) {
      t.may_stay_unwritten.insert(t.may_stay_unwritten.end(), static_cast<size_t>(lanes),
                                  IsPaddedQuery(p, row) ? 1 : 0);
    });
  }
}

void AddOptions(Call& call, const Problem& p, const Contract& contract) {
  const auto add_int = [&](int32_t id, int64_t value) {
    call.options.push_back({id, false, value, 0});
  };
  call.options.push_back({ATTEST_OPTION_SCALE, true, 0, p.EffectiveScale()});
  if (p.causal) add_int(ATTEST_OPTION_CAUSAL, 1);
  if (p.window.left) {
    const int64_t with_diagonal = contract.window_counts == WindowCounts::kKeysWithDiagonal;
    add_int(ATTEST_OPTION_WINDOW_LEFT, *p.window.left + with_diagonal);
  }
  if (p.window.right) add_int(ATTEST_OPTION_WINDOW_RIGHT, *p.window.right);
  if (p.softcap > 0) call.options.push_back({ATTEST_OPTION_SOFTCAP, true, 0, p.softcap});
  if (p.dropout) call.options.push_back({ATTEST_OPTION_DROPOUT, true, 0, p.dropout->probability});
  if (p.block_mask) {
    add_int(ATTEST_OPTION_BLOCK_Q, p.block_mask->block_q);
    add_int(ATTEST_OPTION_BLOCK_K, p.block_mask->block_k);
  }
  if (p.want_scores) add_int(ATTEST_OPTION_SCORES, static_cast<int64_t>(*p.want_scores));
  if (p.fp8) add_int(ATTEST_OPTION_FP8, p.fp8->format == DType::kE4M3 ? 1 : 2);
}

tl::expected<Lowered, Unsupported> LowerTo(const Contract& contract, const Case& c,
                                           const Inputs& inputs) {
  if (auto reason = WhyNotOffered(c, contract)) return tl::unexpected(Unsupported{*reason});
  auto reduced = Reduce(c, inputs, contract);
  if (!reduced) return tl::unexpected(reduced.error());
  Problem& asked = reduced->problem;
  // Packed calls carry both lengths in their cumulative form.
  if (c.storage.packed) asked.key_lengths.reset();
  Lowered lowered;
  lowered.via_mask = reduced->via_mask;
  Call& call = lowered.call;
  call.placement = c.placement;
  call.min_alignment = contract.min_alignment;
  call.tensors.reserve(16);  // nearly all calls have fewer
  call.options.reserve(8);
  AddOptions(call, asked, contract);
  AddQueries(c, inputs, &call);
  AddKeysAndValues(c, inputs, contract, &call);
  AddVisibility(call, asked, contract);
  AddScoreInputs(call, asked, reduced->bias);
  AddOutputs(call, c, contract);
  if (c.problem.want_gradients) {
    AddGradients(c, inputs, &call);
    AddOtherGradients(call, asked, contract);
  }
  if (asked.query_lengths && contract.padded_query_rows == PaddedQueryRows::kUnwritten) {
    ExcusePaddedRows(call, asked);
  }
  return lowered;
}

}  // namespace

tl::expected<Lowered, Unsupported> Lower(const Case& c, const Inputs& inputs,
                                         const Contract& contract) {
  if (!c.problem.want_gradients) return LowerTo(contract, c, inputs);
  if (!contract.backward) return tl::unexpected(Unsupported{"no backward pass is offered"});
  return LowerTo(BackwardContract(contract), c, inputs);
}

}  // namespace attest
