// The second reference: scalar, long double, written from the prose of the definition and sharing
// no code with the first (it must not call Visible), so that a fault in either shows as a
// difference. Slow; for small problems only.
#ifndef ATTEST_REFERENCE_SCALAR_REFERENCE_H_
#define ATTEST_REFERENCE_SCALAR_REFERENCE_H_

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"

namespace attest {

struct ScalarReference {
  Array out;      // [batch, q_heads, q_len, value_dim]; empty rows 0
  Array lse;      // [batch, q_heads, q_len, 1]; empty rows -inf
  Array weights;  // [batch, q_heads, q_len, kv_len]
  Array
      asked_scores;  // likewise, of problem.want_scores, as Reference::asked_scores; empty without
};

ScalarReference ComputeScalarReference(const Problem& problem, const Inputs& inputs,
                                       SoftcapOrder order = SoftcapOrder::kBeforeBias);

}  // namespace attest

#endif  // ATTEST_REFERENCE_SCALAR_REFERENCE_H_
