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
  HeadFacts& head;
  Row row;

  double Value(int64_t key, int64_t column) const {
    return inputs.v.At(row.batch, row.head / problem.heads_per_kv_head(), key, column);
  }
  double Out(int64_t column) const {
    return reference.out.At(row.batch, row.head, row.query, column);
  }
  // All columns of a key's value, and of the row's output.
  Eigen::Map<const Eigen::ArrayXd> ValueRow(int64_t key) const {
    return {head.kv.v.data() + key * problem.value_dim, problem.value_dim};
  }
  Eigen::Map<const Eigen::ArrayXd> OutRow() const {
    return {reference.out.values.data() + reference.out.Index(row.batch, row.head, row.query, 0),
            problem.value_dim};
  }
};

// W from errors measured with Condition::kExact, and the same in closed form from any errors.
RowNumbers WorstBound(const RowContext& context, const RowErrors& errors);
RowNumbers CheapBound(const RowContext& context, const RowErrors& errors);

// Every part of W from below, for a row of `keys` visible keys: eta of each key is at least
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

// P and the deviation behind it. `worst` is the row's W.
struct ProbableBound {
  RowNumbers probable;
  RowNumbers spread;  // no weights
};
ProbableBound ComputeProbableBound(const RowContext& context, const RowErrors& errors,
                                   const RowNumbers& worst);

}  // namespace attest

#endif  // ATTEST_REFERENCE_BOUND_TIERS_H_
