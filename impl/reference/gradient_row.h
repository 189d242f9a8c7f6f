// One row's part in the gradients, pair by pair: what the gradients and their bound both start from, and
// what explanations change.
#ifndef ATTEST_REFERENCE_GRADIENT_ROW_H_
#define ATTEST_REFERENCE_GRADIENT_ROW_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "impl/attention/contract.h"
#include "impl/attention/problem.h"
#include "impl/attention/visibility.h"
#include "impl/reference/gradient.h"
#include "impl/reference/reference.h"

namespace attest {

// Wide enough that its roundings are nothing beside those of a double.
using Wide = long double;

struct GradientPair {
  int64_t key = 0;
  double weight = 0;  // P
  double kept = 0;    // what dropout multiplies it by: 0 or 1 / (1 - p); 1 without
  Wide tanh = 0;      // of the softcap; 0 without
  Wide dweight = 0;   // dP, the gradient by P: kept * sum of dout v
  double reach = 0;   // the same of absolute values
  Wide dscore = 0;    // P (dP - D) times what the softcap's slope is: the gradient by scale * q.k
};

struct GradientRow {
  std::vector<GradientPair> pairs;  // of the visible keys in order; none in a row that has no part
  Wide delta = 0;                   // D = dout . out, which is the sum of P dP

  // Whether the row has a part in any gradient: it is no padding and sees a key.
  static bool TakesPart(const Problem& p, const Row& row);
};

// 1 - tanh^2: what a change of scale * q.k becomes behind the softcap.
inline Wide CapSlope(Wide tanh) {
  return (1 - tanh) * (1 + tanh);
}

// As ComputeGradient (gradient.h), with each row's part changed before it is added.
using RowChange = std::function<void(const Row&, GradientRow&)>;
Gradient ComputeChangedGradient(const Problem& p, const Inputs& inputs, const Reference& reference,
                                const Semantics& semantics, const RowChange& change);

// Measures a row; `out` is reused storage.
void MeasureGradientRow(const Problem& p, const Inputs& inputs, const Reference& reference,
                        const Semantics& semantics, const Row& row, GradientRow& out);

}  // namespace attest

#endif  // ATTEST_REFERENCE_GRADIENT_ROW_H_
