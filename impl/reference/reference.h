// The reference: dense attention in double precision, the plainest way there is. Everything the
// harness believes about a result comes from here (and is cross-checked by scalar_reference.h).
#ifndef ATTEST_REFERENCE_REFERENCE_H_
#define ATTEST_REFERENCE_REFERENCE_H_

#include "impl/attention/array.h"
#include "impl/attention/contract.h"
#include "impl/attention/problem.h"

namespace attest {

struct Reference {
  Array out;      // [batch, q_heads, q_len, value_dim]
  Array lse;      // [batch, q_heads, q_len, 1], natural log
  Array weights;  // [batch, q_heads, q_len, kv_len]; hidden keys 0
  Array scores;   // [batch, q_heads, q_len, kv_len]; what is exponentiated; -inf where hidden
  // [batch, q_heads, q_len, kv_len], of problem.want_scores; empty without. kRaw and kCapped are of all
  // keys, hidden ones too; kBiased is `scores`, kWeights `weights`. Where the softcap comes after the
  // bias, kCapped is softcap * tanh((raw + bias + ALiBi) / softcap); without a softcap it is kRaw.
  Array asked_scores{};
};

// Computes all of them. Empty rows follow `semantics`: out by empty_row (kUnspecified: 0), lse by
// lse_empty_row (kUnspecified: -inf), weights 0. A row that sees no key but has a sink: out 0, lse the
// sink, weights 0. NaN and infinities in visible inputs come through as IEEE arithmetic has it, times 0
// where dropout drops a weight; hidden keys and values take no part at all. Rows beyond a query length
// are computed like any other.
Reference ComputeReference(const Problem& problem, const Inputs& inputs,
                           const Semantics& semantics);

}  // namespace attest

#endif  // ATTEST_REFERENCE_REFERENCE_H_
