// The worst-case forward error bound W of a correct kernel: per element of out, lse and weights,
// the largest distance from the reference that arithmetic within the declared numerics profile can
// produce. f32 for now; HasBound says for which types there is one.
#ifndef ATTEST_REFERENCE_BOUND_H_
#define ATTEST_REFERENCE_BOUND_H_

#include <cstdint>
#include <vector>

#include "impl/attention/array.h"
#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/reference/reference.h"

namespace attest {

// What a row can be used for.
enum class RowState : uint8_t {
  kInformative,
  kUninformative,  // some bound exceeds a tenth of V's range in the row
  kUnconstrained,  // a score or sum may overflow: infinities and NaN are allowed
};

struct Bound {
  Array out;  // same shapes as in Reference; infinite where the row is unconstrained
  Array lse;
  Array weights;
  std::vector<RowState> rows;  // [batch * q_heads * q_len]

  RowState RowAt(const Problem& p, int64_t b, int64_t h, int64_t i) const {
    return rows[static_cast<size_t>((b * p.q_heads + h) * p.q_len + i)];
  }
};

// True when ComputeBound's numbers hold for the dtype. Its row states hold for every dtype.
bool HasBound(DType dtype);

// `reference` must come from the same problem and inputs. Where the reference is NaN because a
// visible input is NaN, and in empty rows, the bound is 0: there the semantics decide, not
// rounding. A row with a visible infinity is unconstrained, and so is one whose hidden scores or
// values are not finite or may overflow, unless the contract is poison-safe at that place.
Bound ComputeBound(const Problem& problem, const Inputs& inputs, const Reference& reference,
                   const Contract& contract);

}  // namespace attest

#endif  // ATTEST_REFERENCE_BOUND_H_
