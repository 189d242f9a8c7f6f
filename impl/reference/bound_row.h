// One row's errors before any value is looked at: how far each visible key's log-weight may be off,
// and what the sums lose. All tiers start from here. Private to the bound.
#ifndef ATTEST_REFERENCE_BOUND_ROW_H_
#define ATTEST_REFERENCE_BOUND_ROW_H_

#include <cmath>
#include <optional>
#include <vector>

#include <Eigen/Core>

#include "impl/attention/visibility.h"
#include "impl/reference/bound_roundings.h"
#include "impl/reference/reference.h"

namespace attest {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstPlane = Eigen::Map<const RowMajor>;

// The [len, dim] matrix of one batch item and head.
ConstPlane PlaneOf(const Array& array, int64_t b, int64_t h);

// What the query heads of one kv head share.
struct KvFacts {
  KvFacts(const Inputs& inputs, int64_t b, int64_t kv_head);

  const ConstPlane k, v;
  Eigen::VectorXd key_norm;                          // Euclidean, never below the exact ones
  Eigen::VectorXd key_sum;                           // sums of absolute values
  double largest_key_norm = 0, largest_key_sum = 0;  // infinite where some key is not finite

  double largest_value = 0;  // of the finite |v|
  double value_sum = 0;      // of the finite |v|: no column adds up to more
  bool values_finite = true;
  bool values_constant = false;       // each column holds one value
  std::vector<bool> value_is_finite;  // [kv_len]; empty where all are

  // By column, of the finite v; made when first asked for.
  struct Extremes {
    Eigen::RowVectorXd least, greatest;
  };
  const Extremes& ColumnExtremes() const;
  // v^2, 0 where not finite; made when first asked for.
  const RowMajor& SquaredValues() const;

 private:
  void MeasureOddValues();

  mutable std::optional<Extremes> extremes_;
  mutable std::optional<RowMajor> squared_values_;
};

// Whether a score or sum of any row of a head may overflow; by row: the rows must be looked at.
enum class RangeOfHead : uint8_t { kSafe, kMayOverflow, kByRow };

// What the rows of one query head share.
class HeadFacts {
 public:
  // `bias` as LargestBias gives it. The problem must outlive it.
  HeadFacts(const Problem& p, const Inputs& inputs, const Reference& reference, double bias,
            const KvFacts& kv, int64_t b, int64_t h);

  const KvFacts& kv;
  const double largest_alibi;
  const double largest_bias;   // of the whole problem, and largest_alibi
  const double sink;           // |sink|, 0 without
  Eigen::VectorXd query_norm;  // as key_norm
  Eigen::VectorXd query_sum;
  double largest_query = 0;          // of the query sums, so at least every |q_d|
  double largest_product = 0;        // of the norms; infinite where some input is not finite
  std::optional<RangeOfHead> range;  // RangeCheck's, made when first asked for

  // |q||K|^T of one query. Holds until another query is asked for.
  const Eigen::RowVectorXd& AbsProducts(int64_t query);
  // sum of w v^2 by row and column, v as dropout leaves it; made when first asked for.
  const RowMajor& SecondMoments();

 private:
  // The weights times the square of what dropout multiplies them by.
  RowMajor DroppedWeights() const;

  const Problem& p_;
  const int64_t b_, h_;
  const ConstPlane q_, weights_;
  Eigen::RowVectorXd abs_products_;
  int64_t abs_products_of_ = -1;
  std::optional<RowMajor> second_moments_;
};

// The largest |bias| that is not -inf; infinite where one is NaN or +inf.
double LargestBias(const Inputs& inputs);
// The largest |slope * distance| of a head; 0 without ALiBi.
double LargestAlibi(const Problem& p, int64_t b, int64_t h);

enum class Condition { kByNorms, kExact };  // |q||k_j| from above, or sum |q_d||k_jd|

// How far the scores of one row may be off. All must outlive it.
class ScoreErrors {
 public:
  ScoreErrors(const Problem& p, const Inputs& inputs, const Roundings& r, HeadFacts& head,
              const Row& row, Condition condition);

  // |scale| |q||k|, the magnitude of the terms of scale * q.k.
  double Product(int64_t key) const {
    return exact_ ? r_.abs_scale * (*exact_)(key) : query_norm_ * head_.kv.key_norm(key);
  }
  // That of what is added to it: bias and ALiBi. A bias of -inf hides and adds nothing.
  double Bias(int64_t key) const;
  double Alibi(int64_t key) const;

  // The part that is no sum of roundings, of a score `s` whose terms have the magnitude `condition`.
  double Biased(int64_t key, double s, double condition) const {
    const double reach = query_sum_ + head_.kv.key_sum(key);
    return r_.u_score * std::abs(s) + r_.score_lost + kSlack * r_.u_query * condition +
           r_.query_lost * head_.kv.key_sum(key) + r_.score_underflow * (r_.score_products + reach);
  }
  double Summed(double condition) const { return gamma_ * condition; }
  // Which steps a score has behind it besides its products: bias and ALiBi, the softcap.
  struct Steps {
    bool added = true;
    bool capped = true;  // means nothing without a softcap
  };
  // The magnitude of the terms of a score, and how far it may be off; `s` is the score itself.
  double ConditionOf(int64_t key, Steps steps) const {
    return Product(key) + (steps.added ? Bias(key) + Alibi(key) : 0);
  }
  double Of(int64_t key, double s, Steps steps) const {
    const double a = ConditionOf(key, steps);
    return Summed(a) + Biased(key, s, a) + (steps.capped ? r_.CapError(a) : 0) +
           (steps.added ? r_.alibi_tilt * Alibi(key) : 0);
  }

 private:
  const Problem& p_;
  const Inputs& inputs_;
  const Roundings& r_;
  const HeadFacts& head_;
  const Row row_;
  const Eigen::RowVectorXd* const exact_;
  const double query_norm_, query_sum_, gamma_;
};

// Stands among the keys of a row for its sink: a key with that score and the value 0.
constexpr int64_t kSinkKey = -1;

struct RowErrors {
  double keys = 0;           // n
  size_t visible = 0;        // how many of them are keys: all but the sink
  std::vector<int64_t> key;  // visible keys in order, then the sink
  // Indexed alike; no shorter, and longer where an earlier row was.
  std::vector<double> weight;              // w, of the reference
  std::vector<double> score;               // s
  std::vector<double> condition;           // a: scale |q||k| + |bias| + |ALiBi|
  std::vector<double> biased_score_error;  // part of a score's error that is no sum of roundings
  std::vector<double> score_error;         // E
  std::vector<double> rescales;            // R
  std::vector<double> eta;                 // error of ln w
  std::vector<double> grow;                // e^eta - 1 or a little more
  std::vector<double> phi;                 // relative error of the key's term in a sum
  std::vector<double> lost;                // of w, absolute, by underflow
  double max = 0, lse = 0, log_keys = 0;
  double max_rescales = 0, max_eta = 0, max_phi = 0;
  double sum_grow = 0;  // of w grow
  double shrink = 0;    // 1 - sum of w e^-eta or a little more
  double sum_lost = 0;
  double underflow_out = 0, underflow_weight = 0;  // of a row's sums, absolute
  double tiny_lost = 0;    // of `lost`, the sum of what is below kTiny: the keys' own are 0 then
  double theta = 0;        // relative error of the sum of weights
  bool saturated = false;  // eta so large that only the range of V bounds anything

  double least_sum() const;  // Z: the least that the weights may add up to
  // ln of how far the sum of weights may be off either way.
  double LogSumError() const;
};

// Measures a row of finite visible scores; `out` is reused storage.
void MeasureRow(const Problem& p, const Inputs& inputs, const Reference& reference,
                const Roundings& r, HeadFacts& head, const Row& row, Condition condition,
                RowErrors& out);

}  // namespace attest

#endif  // ATTEST_REFERENCE_BOUND_ROW_H_
