// What each data family means, element by element: the value at given coordinates before it is
// rounded to the case's dtype. Only integer arithmetic and single correctly rounded operations, so
// that compilers (which may fuse a product with a sum) and machines cannot disagree.
#ifndef ATTEST_HARNESS_CASE_RECIPE_H_
#define ATTEST_HARNESS_CASE_RECIPE_H_

#include <cstdint>

#include "properties/harness/case/case.h"
#include "properties/harness/case/random.h"

namespace attest {

// Where an element stands, and what its randomness comes from.
struct Element {
  uint64_t row_hash = 0;     // of (seed, tensor, batch, head, position)
  uint64_t column_hash = 0;  // the same for position -1, which stands for all of them
  int64_t batch = 0;
  int64_t head = 0;
  int64_t position = 0;
  int64_t lane = 0;

  uint64_t hash() const { return MixIn(row_hash, static_cast<uint64_t>(lane)); }
};

// The recipe of one case with what its families need to know of the problem.
class RecipeData {
 public:
  explicit RecipeData(const Case& c);

  // Sets the `positions` x `lanes` elements from `plane` on to what the tensor holds in one batch item and
  // head.
  void FillPlane(DataTensor tensor, int64_t batch, int64_t head, int64_t positions, int64_t lanes,
                 double* plane) const;

 private:
  double Q(const Element& e) const;
  double K(const Element& e) const;
  double Bias(const Element& e) const;

  double KeyScore(const Element& e) const;   // the score a chosen family wants of a key
  double RowFactor(const Element& e) const;  // what a row multiplies those scores by
  double Plain(const Element& e) const;      // families that draw q and k alike
  double FiniteMask(const Element& e) const;
  // Of v, and of dout, whose positions are queries.
  double OfValueFamily(ValueFamily family, const Element& e) const;

  Recipe recipe_;
  DType dtype_;
  FormatTraits traits_;  // of the type that q, k and v are stored in
  double largest_key_;
  double largest_bias_;
  int64_t value_dim_;
  bool chosen_;        // the family puts its scores straight into q.k
  double query_unit_;  // lane 0 of q in a chosen family: a power of two
  double divisor_;     // lane 0 of k is score / divisor_
};

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_RECIPE_H_
