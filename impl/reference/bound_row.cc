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
    if (stack_.size() < n) stack_.resize(n);
    Entry* const stack = stack_.data();  // keys whose certain lower ends fall from bottom to top
    Entry* top = stack;
    for (size_t i = 0; i < n; ++i) {
      const double high = scores[at(i)] + errors[at(i)];
      const double low = scores[at(i)] - errors[at(i)];
      const Entry* const below =
          std::partition_point(stack, top, [&](const Entry& entry) { return entry.low >= high; });
      const size_t first = below == stack ? 0 : (below - 1)->index + 1;
      if (first < i) {  // keys first .. i-1 can be rescaled by i
        change_[first] += 1;
        change_[i] -= 1;
      }
      while (top != stack && (top - 1)->low <= low) --top;
      *top++ = {low, i};
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
  std::vector<Entry> stack_;  // storage for as many as there ever were keys
};

void CountRescales(RowErrors& row) {
  thread_local RescaleCounter counter;
  const size_t n = row.key.size();
  row.rescales.assign(n, 0.0);
  if (n < 2) return;
  if (row.visible < n) {
    // The sink may come first or last, whichever way the keys are walked: so it does both.
    const auto inside = [n](size_t i) { return i == 0 || i == n ? n - 1 : i - 1; };
    counter.Count(n + 1, row.score, row.score_error, inside, row.rescales);
    const auto reversed = [n, inside](size_t i) { return inside(n - i); };
    counter.Count(n + 1, row.score, row.score_error, reversed, row.rescales);
    return;
  }
  counter.Count(
      n, row.score, row.score_error, [](size_t i) { return i; }, row.rescales);
  counter.Count(
      n, row.score, row.score_error, [n](size_t i) { return n - 1 - i; }, row.rescales);
}

// The sink, as the last key: a score that is given, whose condition is its size.
void AppendSink(const Problem& p, const Roundings& r, const Row& row, RowErrors& e) {
  const size_t n = e.visible;
  const double sink = (*p.sinks)[static_cast<size_t>(row.head)];
  e.score[n] = sink;
  e.weight[n] = std::exp(sink - e.lse);
  e.condition[n] = std::abs(sink);
  e.biased_score_error[n] = r.u_score * std::abs(sink) + r.score_lost + r.score_underflow;
  e.score_error[n] = Gamma(kScoreRoundings + 2 * r.input_roundings, r.u) * std::abs(sink) +
                     e.biased_score_error[n];
  e.max = std::max(e.max, sink);
}

// Fills the weights, the scores, their conditions and their errors E.
void MeasureScores(const Problem& p, const Inputs& inputs, const Reference& reference,
                   const Roundings& r, HeadFacts& head, const Row& row, Condition condition,
                   RowErrors& e) {
  const ScoreErrors errors(p, inputs, r, head, row, condition);
  const size_t first = reference.scores.Index(row.batch, row.head, row.query, 0);
  const double* scores = reference.scores.values.data() + first;
  const double* weights = reference.weights.values.data() + first;
  double max = -kInf;
  for (size_t n = 0; n < e.visible; ++n) {
    const int64_t j = e.key[n];
    const double s = scores[j];
    double a = errors.Product(j);
    if (p.bias) a += errors.Bias(j);
    const double alibi = p.alibi_slopes ? errors.Alibi(j) : 0;
    a += alibi;
    e.score[n] = s;
    e.weight[n] = weights[j];
    e.condition[n] = a;
    const double biased = errors.Biased(j, s, a) + r.CapError(a) + r.alibi_tilt * alibi;
    e.biased_score_error[n] = biased;
    e.score_error[n] = errors.Summed(a) + biased;
    max = std::max(max, s);
  }
  e.max = max;
  if (p.sinks) AppendSink(p, r, row, e);
}

// What underflow may take from a weight. Unnormalised weights lose less: they are larger. tau is not
// capped by the weight: it may round up, and in f64 the reference's own may have vanished.
double LostWeight(const Roundings& r, double high, double low) {
  const double by_storing = low < r.weight_normal ? std::min(high, r.weight_lost) : 0;
  return by_storing + r.weight_underflow;
}

// e^eta - 1 and 1 - e^-eta or a little more, both rising with eta throughout.
double Grow(double eta) {
  if (eta <= kSmallEta) return eta * (1 + eta);
  return std::max(kSmallEta * (1 + kSmallEta), std::expm1(std::min(eta, kSaturated)));
}
double Shrink(double eta) {
  return eta <= kSmallEta ? eta : std::max(kSmallEta, -std::expm1(-eta));
}

// Fills eta and all that follows from it. What is added up key by key is so in locals: in `e` each step would wait
// for the store of the one before.
void MeasureWeights(const Roundings& r, RowErrors& e) {
  const double depth = r.Depth(e.keys) + kSumRoundings + r.input_roundings;
  const double max = e.max, size_of_max = std::abs(max), by_keys = kLogRoundings * e.log_keys;
  double max_eta = 0, max_phi = 0, max_rescales = 0;
  double sum_grow = 0, shrink = 0, tiny_lost = 0, sum_lost = 0, sum_phi = 0;
  for (size_t n = 0; n < e.key.size(); ++n) {
    const double s = e.score[n], w = e.weight[n], rescales = e.rescales[n];
    const double eta = e.score_error[n] +
                       r.u * (kShiftRoundings * std::max(std::abs(s), size_of_max) + by_keys +
                              kRescaleRoundings * (max - s)) +
                       (kPlainExps + rescales) * r.exp_error;
    const double grow = Grow(eta), phi = Gamma(depth + rescales, r.u);
    const double lost = LostWeight(r, w * (1 + grow), w * (1 - grow));
    const double kept_lost = lost < kTiny ? 0 : lost;
    e.eta[n] = eta;
    e.grow[n] = grow;
    e.phi[n] = phi;
    e.lost[n] = kept_lost;
    max_eta = std::max(max_eta, eta);
    max_phi = std::max(max_phi, phi);
    max_rescales = std::max(max_rescales, rescales);
    sum_grow += w * grow;
    shrink += w * Shrink(eta);
    tiny_lost += lost - kept_lost;
    sum_lost += lost;
    sum_phi += w * (1 + grow) * phi;
  }
  e.max_eta = max_eta;
  e.max_phi = max_phi;
  e.max_rescales = max_rescales;
  e.sum_grow = sum_grow;
  e.shrink = shrink;
  e.tiny_lost = tiny_lost;
  e.sum_lost = sum_lost;
  e.saturated = !(max_eta <= kSaturated);
  e.theta = e.saturated ? max_phi : std::min(sum_phi / e.least_sum(), max_phi);
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
      largest_alibi(LargestAlibi(p, b, h)),
      largest_bias(bias + largest_alibi),
      sink(p.sinks ? std::abs((*p.sinks)[static_cast<size_t>(h)]) : 0),
      p_(p),
      b_(b),
      h_(h),
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
  if (q_.cols() == 0) return abs_products_;
  thread_local Eigen::RowVectorXd abs_query;
  abs_query = q_.row(query).cwiseAbs();
  // Key by key: as one product it would take the same steps, and memory for its parts.
  for (int64_t j = 0; j < kv.k.rows(); ++j) {
    abs_products_(j) = kv.k.row(j).cwiseAbs().cwiseProduct(abs_query).sum();
  }
  return abs_products_;
}

const RowMajor& HeadFacts::SecondMoments() {
  if (!second_moments_) {
    if (weights_.cols() == 0) {
      second_moments_ = RowMajor::Zero(weights_.rows(), kv.v.cols());
    } else if (p_.dropout) {
      second_moments_ = DroppedWeights() * kv.SquaredValues();
    } else {
      second_moments_ = weights_ * kv.SquaredValues();
    }
  }
  return *second_moments_;
}

RowMajor HeadFacts::DroppedWeights() const {
  const double kept = 1 / (1 - p_.dropout->probability);
  RowMajor weights = weights_;
  for (int64_t i = 0; i < weights.rows(); ++i) {
    for (int64_t j = 0; j < weights.cols(); ++j) {
      weights(i, j) *= p_.dropout->keep.At(b_, h_, i, j) ? kept * kept : 0;
    }
  }
  return weights;
}

double LargestBias(const Inputs& inputs) {
  double largest = 0;
  for (const double bias : inputs.bias.values) {
    if (bias == -kInf) continue;  // hidden
    largest = std::isfinite(bias) ? std::max(largest, std::abs(bias)) : kInf;
  }
  return largest;
}

// A distance is largest in a corner.
double LargestAlibi(const Problem& p, int64_t b, int64_t h) {
  double largest = 0;
  if (!p.alibi_slopes) return largest;
  for (const int64_t i : {int64_t{0}, p.q_len - 1}) {
    for (const int64_t j : {int64_t{0}, p.kv_len - 1}) {
      largest = std::max(largest, std::abs(p.Alibi(b, h, i, j)));
    }
  }
  return largest;
}

ScoreErrors::ScoreErrors(const Problem& p, const Inputs& inputs, const Roundings& r,
                         HeadFacts& head, const Row& row, Condition condition)
    : p_(p),
      inputs_(inputs),
      r_(r),
      head_(head),
      row_(row),
      exact_(condition == Condition::kExact ? &head.AbsProducts(row.query) : nullptr),
      query_norm_(r.abs_scale * head.query_norm(row.query)),
      query_sum_(head.query_sum(row.query)),
      gamma_(Gamma(r.score_roundings, r.u)) {}

double ScoreErrors::Bias(int64_t key) const {
  if (!p_.bias) return 0;
  const double bias = inputs_.bias.Broadcast(row_.batch, row_.head, row_.query, key);
  return bias == -kInf ? 0 : std::abs(bias);
}

double ScoreErrors::Alibi(int64_t key) const {
  return std::abs(p_.Alibi(row_.batch, row_.head, row_.query, key));
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
  e.visible = e.key.size();
  if (p.sinks) e.key.push_back(kSinkKey);
  const size_t n = e.key.size();
  for (std::vector<double>* column :
       {&e.weight, &e.score, &e.condition, &e.biased_score_error, &e.score_error, &e.rescales,
        &e.eta, &e.grow, &e.phi, &e.lost}) {
    if (column->size() < n) column->resize(n);
  }
  e.keys = static_cast<double>(n);
  e.log_keys = std::log(e.keys);
  e.underflow_out = (4 * e.keys + 32) * r.value_underflow;
  e.underflow_weight = (e.keys + 4) * r.tau;
  e.lse = reference.lse.At(row.batch, row.head, row.query, 0);
  MeasureScores(p, inputs, reference, r, head, row, condition, e);
  CountRescales(e);
  MeasureWeights(r, e);
}

}  // namespace attest
