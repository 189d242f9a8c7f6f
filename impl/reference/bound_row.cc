#include "impl/reference/bound_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kSmallEta = 0.01;  // up to here e^x - 1 <= x (1 + x) is close enough
constexpr double kSaturated = 50;   // beyond this e^eta says nothing that V's range does not

// Sums of squares of tiny numbers vanish; this keeps a norm above what they were.
constexpr double kNormFloor = 1e-150;

// R_j: how often key j can be rescaled in an online softmax that walks the keys in order, whatever
// the tiles and contiguous splits. A later key i can be a new maximum for j only if no key in [j,
// i) is certainly at least as large: with pg(i) the last such key, R_j = #{i > j : pg(i) < j}.
class RescaleCounter {
 public:
  // Raises counts[at(n)] to the count of the n-th key in this order.
  template <typename At>
  void Count(size_t n, const std::vector<double>& scores, const std::vector<double>& errors, At at,
             std::vector<double>& counts) {
    change_.assign(n + 1, 0.0);
    stack_.clear();  // keys whose certain lower ends fall from bottom to top
    for (size_t i = 0; i < n; ++i) {
      const double high = scores[at(i)] + errors[at(i)];
      const double low = scores[at(i)] - errors[at(i)];
      const auto below = std::partition_point(
          stack_.begin(), stack_.end(), [&](const Entry& entry) { return entry.low >= high; });
      const size_t first = below == stack_.begin() ? 0 : (below - 1)->index + 1;
      if (first < i) {  // keys first .. i-1 can be rescaled by i
        change_[first] += 1;
        change_[i] -= 1;
      }
      while (!stack_.empty() && stack_.back().low <= low) stack_.pop_back();
      stack_.push_back({low, i});
    }
    double sum = 0;
    for (size_t j = 0; j < n; ++j) {
      sum += change_[j];
      counts[at(j)] = std::max(counts[at(j)], sum);
    }
  }

 private:
  struct Entry {
    double low;
    size_t index;
  };
  std::vector<double> change_;
  std::vector<Entry> stack_;
};

void CountRescales(RowErrors& row) {
  thread_local RescaleCounter counter;
  const size_t n = row.key.size();
  row.rescales.assign(n, 0.0);
  if (n < 2) return;
  counter.Count(
      n, row.score, row.score_error, [](size_t i) { return i; }, row.rescales);
  counter.Count(
      n, row.score, row.score_error, [n](size_t i) { return n - 1 - i; }, row.rescales);
}

// Fills the scores, their conditions and their errors E.
void MeasureScores(const Problem& p, const Inputs& inputs, const Reference& reference,
                   const Roundings& r, HeadFacts& head, const Row& row, Condition condition,
                   RowErrors& e) {
  const auto dim = static_cast<double>(p.head_dim);
  const double gamma = Gamma(dim + kScoreRoundings + 2 * r.input_roundings, r.u);
  // No less than kTiny, which moves no weight.
  const double underflow = r.score_underflow;
  const Eigen::RowVectorXd* exact =
      condition == Condition::kExact ? &head.AbsProducts(row.query) : nullptr;
  const double* scores =
      &reference.scores.values[reference.scores.Index(row.batch, row.head, row.query, 0)];
  const double query_norm = r.abs_scale * head.query_norm(row.query);
  for (size_t n = 0; n < e.key.size(); ++n) {
    const int64_t j = e.key[n];
    double a = exact ? r.abs_scale * (*exact)(j) : query_norm * head.kv.key_norm(j);
    if (p.bias) a += std::abs(inputs.bias.Broadcast(row.batch, row.head, row.query, j));
    const double s = scores[j];
    const double reach = head.query_sum(row.query) + head.kv.key_sum(j);
    e.score[n] = s;
    e.condition[n] = a;
    e.biased_score_error[n] = r.u_score * std::abs(s) + r.score_lost + kSlack * r.u_query * a +
                              r.query_lost * head.kv.key_sum(j) + underflow * (dim + 2 + reach);
    e.score_error[n] = gamma * a + e.biased_score_error[n];
    e.max = std::max(e.max, s);
  }
}

// What underflow may take from a weight. Unnormalised weights lose less: they are larger. tau is not
// capped by the weight: it may round up, and in f64 the reference's own may have vanished.
double LostWeight(const Roundings& r, double high, double low) {
  const double by_storing = low < r.weight_normal ? std::min(high, r.weight_lost) : 0;
  return by_storing + r.weight_underflow;
}

// Fills eta and all that follows from it.
void MeasureWeights(const Reference& reference, const Roundings& r, const Row& row, RowErrors& e) {
  const double depth = r.Depth(e.keys) + kSumRoundings + r.input_roundings;
  const double* weights =
      &reference.weights.values[reference.weights.Index(row.batch, row.head, row.query, 0)];
  double sum_phi = 0;
  for (size_t n = 0; n < e.key.size(); ++n) {
    const double s = e.score[n], w = weights[e.key[n]];
    const double eta = e.score_error[n] +
                       r.u * (kShiftRoundings * std::max(std::abs(s), std::abs(e.max)) +
                              kLogRoundings * e.log_keys + kRescaleRoundings * (e.max - s)) +
                       (kPlainExps + e.rescales[n]) * r.exp_error;
    const double grow = eta <= kSmallEta ? eta * (1 + eta) : std::expm1(std::min(eta, kSaturated));
    e.weight[n] = w;
    e.eta[n] = eta;
    e.grow[n] = grow;
    e.phi[n] = Gamma(depth + e.rescales[n], r.u);
    e.max_eta = std::max(e.max_eta, eta);
    e.max_phi = std::max(e.max_phi, e.phi[n]);
    e.max_rescales = std::max(e.max_rescales, e.rescales[n]);
    e.sum_grow += w * grow;
    e.shrink += w * (eta <= kSmallEta ? eta : -std::expm1(-eta));
    const double lost = LostWeight(r, w * (1 + grow), w * (1 - grow));
    e.lost[n] = lost < kTiny ? 0 : lost;
    e.tiny_lost += lost - e.lost[n];
    e.sum_lost += lost;
    sum_phi += w * (1 + grow) * e.phi[n];
  }
  e.saturated = !(e.max_eta <= kSaturated);
  e.theta = e.saturated ? e.max_phi : std::min(sum_phi / e.least_sum(), e.max_phi);
}

}  // namespace

ConstPlane PlaneOf(const Array& array, int64_t b, int64_t h) {
  return {array.values.data() + (b * array.shape[1] + h) * array.shape[2] * array.shape[3],
          array.shape[2], array.shape[3]};
}

KvFacts::KvFacts(const Inputs& inputs, int64_t b, int64_t kv_head)
    : k(PlaneOf(inputs.k, b, kv_head)), v(PlaneOf(inputs.v, b, kv_head)) {
  key_norm.resize(k.rows());
  key_sum.resize(k.rows());
  for (int64_t j = 0; j < k.rows(); ++j) {
    key_norm(j) = k.row(j).norm() + kNormFloor;
    key_sum(j) = k.row(j).lpNorm<1>();
  }
  if (k.rows() > 0) {
    // A sum rather than the maximum: a NaN must show.
    const bool finite = std::isfinite(key_norm.sum());
    largest_key_norm = finite ? key_norm.maxCoeff() : kInf;
    largest_key_sum = finite ? key_sum.maxCoeff() : kInf;
  }
  if (v.size() == 0) return;
  value_sum = v.lpNorm<1>();
  if (!std::isfinite(value_sum)) {
    MeasureOddValues();
    return;
  }
  largest_value = v.lpNorm<Eigen::Infinity>();
  values_constant = true;
  for (int64_t j = 1; j < v.rows() && values_constant; ++j) values_constant = v.row(j) == v.row(0);
}

// The same where some value is not finite or their sum overflows, element by element.
void KvFacts::MeasureOddValues() {
  value_sum = 0;
  value_is_finite.assign(static_cast<size_t>(v.rows()), true);
  for (int64_t j = 0; j < v.rows(); ++j) {
    for (int64_t d = 0; d < v.cols(); ++d) {
      const double x = v(j, d);
      if (std::isfinite(x)) {
        value_sum += std::abs(x);
        largest_value = std::max(largest_value, std::abs(x));
      } else {
        value_is_finite[static_cast<size_t>(j)] = values_finite = false;
      }
    }
  }
}

const KvFacts::Extremes& KvFacts::ColumnExtremes() const {
  if (extremes_) return *extremes_;
  extremes_ = {Eigen::RowVectorXd::Constant(v.cols(), kInf),
               Eigen::RowVectorXd::Constant(v.cols(), -kInf)};
  for (int64_t j = 0; j < v.rows(); ++j) {
    for (int64_t d = 0; d < v.cols(); ++d) {
      if (!std::isfinite(v(j, d))) continue;
      extremes_->least(d) = std::min(extremes_->least(d), v(j, d));
      extremes_->greatest(d) = std::max(extremes_->greatest(d), v(j, d));
    }
  }
  return *extremes_;
}

const RowMajor& KvFacts::SquaredValues() const {
  if (!squared_values_) {
    // Hidden keys weigh nothing, but 0 times infinity is NaN.
    squared_values_ = v.unaryExpr([](double x) { return std::isfinite(x) ? x * x : 0.0; });
  }
  return *squared_values_;
}

HeadFacts::HeadFacts(const Problem& p, const Inputs& inputs, const Reference& reference,
                     double bias, const KvFacts& of_kv_head, int64_t b, int64_t h)
    : kv(of_kv_head),
      largest_bias(bias),
      q_(PlaneOf(inputs.q, b, h)),
      weights_(PlaneOf(reference.weights, b, h)) {
  query_norm = q_.rowwise().norm().array() + kNormFloor;
  query_sum = q_.cwiseAbs().rowwise().sum();
  if (p.q_len == 0) return;
  largest_query = query_sum.maxCoeff();
  const bool finite = std::isfinite(query_norm.sum());
  if (p.kv_len > 0) largest_product = finite ? query_norm.maxCoeff() * kv.largest_key_norm : kInf;
}

const Eigen::RowVectorXd& HeadFacts::AbsProducts(int64_t query) {
  if (abs_products_of_ == query) return abs_products_;
  abs_products_of_ = query;
  abs_products_.setZero(kv.k.rows());
  if (q_.cols() > 0)
    abs_products_.noalias() = q_.row(query).cwiseAbs() * kv.k.cwiseAbs().transpose();
  return abs_products_;
}

const RowMajor& HeadFacts::SecondMoments() {
  if (!second_moments_) {
    if (weights_.cols() == 0) {
      second_moments_ = RowMajor::Zero(weights_.rows(), kv.v.cols());
    } else {
      second_moments_ = weights_ * kv.SquaredValues();
    }
  }
  return *second_moments_;
}

double LargestBias(const Inputs& inputs) {
  double largest = 0;
  for (const double bias : inputs.bias.values) {
    if (bias == -kInf) continue;  // hidden
    largest = std::isfinite(bias) ? std::max(largest, std::abs(bias)) : kInf;
  }
  return largest;
}

double RowErrors::least_sum() const {
  return std::max(1 - shrink, std::exp(-max_eta));
}

double RowErrors::LogSumError() const {
  if (saturated) return max_eta;  // grow stops short of it
  // -ln(1 - x) by log1p: small deviations must not cancel.
  const double down = shrink < 1 ? -std::log1p(-shrink) : max_eta;
  return std::min(max_eta, std::max(std::log1p(sum_grow), down));
}

void MeasureRow(const Problem& p, const Inputs& inputs, const Reference& reference,
                const Roundings& r, HeadFacts& head, const Row& row, Condition condition,
                RowErrors& e) {
  ListVisibleKeys(p, row, e.key);
  const size_t n = e.key.size();
  for (std::vector<double>* column :
       {&e.weight, &e.score, &e.condition, &e.biased_score_error, &e.score_error, &e.rescales,
        &e.eta, &e.grow, &e.phi, &e.lost}) {
    column->resize(n);
  }
  e.keys = static_cast<double>(n);
  e.log_keys = std::log(e.keys);
  e.underflow_out = (4 * e.keys + 32) * r.tau;
  e.underflow_weight = (e.keys + 4) * r.tau;
  e.max = -kInf;
  e.lse = reference.lse.At(row.batch, row.head, row.query, 0);
  e.max_rescales = e.max_eta = e.max_phi = e.sum_grow = e.shrink = 0;
  e.sum_lost = e.tiny_lost = 0;
  MeasureScores(p, inputs, reference, r, head, row, condition, e);
  CountRescales(e);
  MeasureWeights(reference, r, row, e);
}

}  // namespace attest
