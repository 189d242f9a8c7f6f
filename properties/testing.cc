#include "properties/testing.h"

#include <string>

#include "impl/attention/visibility.h"
#include "impl/reference/gradient.h"
#include "impl/reference/reference.h"
#include "impl/reference/scalar_reference.h"
#include "properties/harness/case/offers.h"

namespace attest {
namespace {

Array Rounded(Array array, DType dtype) {
  for (double& x : array.values) x = RoundTo(dtype, x);
  return array;
}

void ClearPaddedRows(const Problem& p, Array& out) {
  ForEachRow(p, [&](const Row& row) {
    if (!IsPaddedQuery(p, row)) return;
    for (int64_t d = 0; d < p.value_dim; ++d) out.At(row.batch, row.head, row.query, d) = 0;
  });
}

void StoreGradients(const Problem& p, const Inputs& inputs, const Semantics& semantics,
                    const Contract& contract, Outcome& outcome) {
  if (!p.want_gradients) return;
  const Gradient gradient =
      ComputeGradient(p, inputs, ComputeReference(p, inputs, semantics), semantics);
  outcome.dq = Rounded(gradient.dq, p.dtype);
  outcome.dk = Rounded(gradient.dk, p.dtype);
  outcome.dv = Rounded(gradient.dv, p.dtype);
  if (contract.HasBackward(Feature::kBiasGradient)) {
    outcome.dbias = Rounded(gradient.dbias, p.BiasDType());
  }
  if (contract.HasBackward(Feature::kSinkGradient)) {
    outcome.dsink = Rounded(gradient.dsink, p.LseDType());
  }
}

template <typename AnyReference>
Outcome Stored(const Case& c, const Contract& contract, const AnyReference& r) {
  const Problem& p = c.problem;
  Outcome outcome;
  outcome.status = OutcomeStatus::kComputed;
  outcome.out = Rounded(r.out, p.dtype);
  if (p.want_lse && contract.lse != LseKind::kNone) outcome.lse = Rounded(r.lse, p.LseDType());
  if (p.want_weights && contract.Has(Feature::kWeights)) {
    outcome.weights = Rounded(r.weights, p.dtype);
  }
  if (p.want_scores && contract.scores.count(*p.want_scores) != 0) {
    outcome.scores = Rounded(r.asked_scores, p.dtype);
  }
  if (contract.padded_query_rows == PaddedQueryRows::kZero) ClearPaddedRows(p, outcome.out);
  return outcome;
}

}  // namespace

Contract NamedContractOf(std::string_view name) {
  return *ParseContract("{\"contract\": \"" + std::string(name) + "\"}");
}

Contract WholeSurface() {
  Contract c = NamedContractOf("attest-1");
  c.name = "whole surface";
  const Contract& everything = EverythingContract();
  c.features = everything.features;
  c.fp8 = everything.fp8;
  c.scores = everything.scores;
  c.backward = everything.features;
  for (const Feature never : {Feature::kWeights, Feature::kPast, Feature::kPresent, Feature::kPages,
                              Feature::kRing, Feature::kPacked}) {
    c.backward->erase(never);
  }
  for (const Feature own : {Feature::kBiasGradient, Feature::kSinkGradient})
    c.backward->insert(own);
  c.padded_query_rows = PaddedQueryRows::kComputed;
  for (const PoisonTensor tensor : {PoisonTensor::kK, PoisonTensor::kV}) {
    for (const PoisonPlace place :
         {PoisonPlace::kDocument, PoisonPlace::kBlock, PoisonPlace::kPage}) {
      c.poison_safe.insert({tensor, place});
    }
  }
  return c;
}

Outcome ReferenceOf(const Case& c, const Problem& problem, const Inputs& inputs,
                    const Semantics& semantics, const Contract& contract) {
  Outcome outcome = Stored(c, contract, ComputeReference(problem, inputs, semantics));
  if (AsksForPresent(c, contract)) {
    outcome.present_k = inputs.k;
    outcome.present_v = inputs.v;
  }
  StoreGradients(problem, inputs, semantics, contract, outcome);
  return outcome;
}

Outcome FirstReference(const Case& c, const Contract& contract) {
  return ReferenceOf(c, c.problem, Materialise(c), contract.semantics, contract);
}

Outcome SecondReference(const Case& c, const Contract& contract) {
  const SoftcapOrder order = contract.semantics.softcap_order;
  Outcome outcome = Stored(c, contract, ComputeScalarReference(c.problem, Materialise(c), order));
  StoreGradients(c.problem, Materialise(c), contract.semantics, contract, outcome);
  return outcome;
}

}  // namespace attest
