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
  Wide slope = 1;     // of the softcap: what a change of scale * q.k becomes behind it
  bool caps_bias =
      false;         // whether the softcap comes behind the bias, and has the same slope for it
  Wide dweight = 0;  // dP, the gradient by P: kept * sum of dout v
  double reach = 0;  // the same of absolute values
  Wide dscore = 0;   // the gradient by scale * q.k
  Wide dbias = 0;    // and by the bias

  Wide BiasSlope() const { return caps_bias ? slope : 1; }
  // Both from P (dP - D), the gradient by what the softmax takes.
  void SetScores(Wide dlogit) {
    dscore = dlogit * slope;
    dbias = dlogit * BiasSlope();
  }
};

struct GradientRow {
  std::vector<GradientPair> pairs;  // of the visible keys in order; none in a row that has no part
  Wide delta = 0;                   // D = dout . out, which is the sum of P dP
  int64_t kv_head = 0;     // whose dk and dv it adds to; outside of those there are, to none
  double sink_weight = 0;  // P of the sink; 0 without
  Wide dsink = 0;          // - P D: the gradient by the sink

  // Whether the row has a part in any gradient: it is no padding and sees a key.
  static bool TakesPart(const Problem& p, const Row& row);
};

// The lanes of one position.
inline const double* LineOf(const Array& array, int64_t a, int64_t b, int64_t c) {
  return array.values.data() + array.Index(a, b, c, 0);
}

// 1 - tanh^2, the slope of the softcap.
inline Wide CapSlope(Wide tanh) {
  return (1 - tanh) * (1 + tanh);
}

// Shapes of the gradients by bias and sinks; {0, 0, 0, 0} where the problem has none.
Shape4 BiasGradientShape(const Problem& p);
Shape4 SinkGradientShape(const Problem& p);
// The element of the bias, which must be there, that a pair has.
Shape4 BiasIndex(const Problem& p, const Row& row, int64_t key);

// As ComputeGradient (gradient.h), with each row's part changed before it is added.
using RowChange = std::function<void(const Row&, GradientRow&)>;
Gradient ComputeChangedGradient(const Problem& p, const Inputs& inputs, const Reference& reference,
                                const Semantics& semantics, const RowChange& change);

// Measures a row; `out` is reused storage.
void MeasureGradientRow(const Problem& p, const Inputs& inputs, const Reference& reference,
                        const Semantics& semantics, const Row& row, GradientRow& out);

}  // namespace attest

#endif  // ATTEST_REFERENCE_GRADIENT_ROW_H_
