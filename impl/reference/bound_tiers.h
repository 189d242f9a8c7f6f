// The tiers as formulas over a measured row (BOUND.md, sections 4 to 7). Private to the bound.
#ifndef ATTEST_REFERENCE_BOUND_TIERS_H_
#define ATTEST_REFERENCE_BOUND_TIERS_H_

#include "impl/reference/bound.h"
#include "impl/reference/bound_row.h"

namespace attest {

// One row in its surroundings, for all tiers.
struct RowContext {
  const Problem& problem;
  const Inputs& inputs;
  const Reference& reference;
  const Roundings& roundings;
  const Semantics& semantics;
  HeadFacts& head;
  Row row;

  // What dropout multiplies the weight of a key by.
  double Kept(int64_t key) const {
    if (!problem.dropout) return 1;
    return problem.dropout->keep.At(row.batch, row.head, row.query, key) ? roundings.kept : 0;
  }
  // What the weight of a key, or of the sink, multiplies.
  double Value(int64_t key, int64_t column) const {
    if (key == kSinkKey) return 0;
    return inputs.v.At(row.batch, row.head / problem.heads_per_kv_head(), key, column) * Kept(key);
  }
  double Out(int64_t column) const {
    return reference.out.At(row.batch, row.head, row.query, column);
  }
  // All columns of Value, and of the row's output.
  void LoadValues(int64_t key, Eigen::ArrayXd& values) const {
    if (key == kSinkKey) {
      values.setZero(problem.value_dim);
      return;
    }
    values = Eigen::Map<const Eigen::ArrayXd>(head.kv.v.data() + key * problem.value_dim,
                                              problem.value_dim);
    if (problem.dropout) values *= Kept(key);
  }
  // The same, in place where they stand as they are, else in `scratch`.
  const double* ValuesOf(int64_t key, Eigen::ArrayXd& scratch) const {
    if (key != kSinkKey && !problem.dropout) return head.kv.v.data() + key * problem.value_dim;
    LoadValues(key, scratch);
    return scratch.data();
  }
  Eigen::Map<const Eigen::ArrayXd> OutRow() const {
    return {reference.out.values.data() + reference.out.Index(row.batch, row.head, row.query, 0),
            problem.value_dim};
  }
};

// W from errors measured with Condition::kExact, and the same in closed form from any errors.
// Like all that follow, they reuse the storage of what they fill. The scores are left as they are.
void WorstBound(const RowContext& context, const RowErrors& errors, RowNumbers& bound);
void CheapBound(const RowContext& context, const RowErrors& errors, RowNumbers& bound);

// Sets the scores to W of those that are asked for, of hidden keys too; of the weights it is that of the
// weights. Where what stands for minus infinity is finite (`has_filler`), nothing is claimed of what the
// scores output holds for a hidden key.
void SetScoreBounds(const RowContext& context, Condition condition, bool has_filler,
                    RowNumbers& bound);

// Every part of W from below, for a row of `keys` visible keys, the sink among them: eta of each key is at least
// u (8 |m| + 8 ln n) + 3 eps, each sum meets at least phi with no rescale, sum w |v| is at least |o|.
RowFloor MakeFloor(const Roundings& roundings, double keys, double lse);

// The largest over the columns of a row.
struct ColumnMaxima {
  double out = 0;        // |o|
  double root = 0;       // sqrt(sum w v^2)
  double deviation = 0;  // sqrt(sum w (v - o)^2); 0 only where every visible value is o
};

// Never below any element of W of the row's out, without a look at any key; infinite where that says
// nothing. `log_max` is at least |m|.
double CrudeBound(const RowContext& context, double keys, double log_max, const ColumnMaxima& v);

// P and the deviation behind it, which has no weights. `worst` is the row's W.
void ProbableBound(const RowContext& context, const RowErrors& errors, const RowNumbers& worst,
                   RowNumbers& probable, RowNumbers& spread);

}  // namespace attest

#endif  // ATTEST_REFERENCE_BOUND_TIERS_H_
