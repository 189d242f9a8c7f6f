// How keys, values and packed rows lie in a call (Case::storage): the tensors of each kind, and the
// way back for packed outputs. Private to the lowering.
#ifndef ATTEST_HARNESS_LOWER_STORAGE_H_
#define ATTEST_HARNESS_LOWER_STORAGE_H_

#include <cstdint>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/case/case.h"
#include "properties/harness/sandbox/call.h"

namespace attest {

// Adds k and v as the case stores them, in the type of the problem's inputs:
//   plain   K, V [batch, kv_heads, kv_len, dim]
//   past    the first keys as PAST_K, PAST_V, the others as K, V; of a first call perhaps no key
//   pages   K, V [pages, kv_heads, page_size, dim] and PAGE_TABLE [batch, pages of an item]. Which
//           page is whose is shuffled by the recipe's seed. One page or two are free; they and the
//           slots behind an item's length hold poison: NaN where the contract says poison_safe page,
//           else a number larger than any other in the tensor.
//   ring    K, V with key j in slot (start + j) % kv_len, and RING_START [batch], drawn by the seed
//   packed  K, V [sum of key lengths, kv_heads, dim] and both tensors of cumulative lengths
void AddKeysAndValues(const Case& c, const Inputs& inputs, const Contract& contract, Call* call);

// Adds q: [batch, q_heads, q_len, head_dim], or [sum of query lengths, q_heads, head_dim].
void AddQueries(const Case& c, const Inputs& inputs, Call* call);

// The outputs out and lse of the case, packed or not.
CallTensor OutTensor(const Case& c);
CallTensor LseTensor(const Case& c);

// Adds dout, as out lies, and asks for the gradients by q, k and v, which lie as those do, each in memory of
// its own; packed or not.
void AddGradients(const Case& c, const Inputs& inputs, Call* call);

// The rows of a packed output, as ReadOutput gives it, put back to `shape`; rows beyond the query
// lengths are 0. Packed out is [rows, q_heads, value_dim, 1], packed lse [q_heads, rows, 1, 1].
Array UnpackOut(const Problem& problem, const Array& packed);
Array UnpackLse(const Problem& problem, const Array& packed);
// The same of a packed gradient [rows, heads, dim, 1], whose items have these lengths.
Array UnpackRows(const Array& packed, const Shape4& shape, const std::vector<int64_t>& lengths);

}  // namespace attest

#endif  // ATTEST_HARNESS_LOWER_STORAGE_H_
