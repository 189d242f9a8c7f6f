#include "impl/reference/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Core>

#include "impl/attention/visibility.h"

namespace attest {
namespace {

// The constants of the derivation, counted by hand; each is a number of roundings.
constexpr double kScoreRoundings = 6;  // 1/sqrt(D), log2e, their product, scaling, bias, adding it
constexpr double kShiftRoundings = 8;  // s - m through fma, late maximum, split-KV rounding of lse
constexpr double kRescaleRoundings = 6;  // telescoped corrections and exp(x) = exp2(x log2e)
constexpr double kSplitExps = 3;         // exp itself, one split, one merge
constexpr double kSumRoundings = 6;      // products, first and last addition, merge
constexpr double kDivideRoundings = 3;   // normalising: reciprocal, product, store
constexpr double kMergeRoundings = 4;    // weights exp(lse_i - lse) that are not renormalised

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kLog2E = 1.4426950408889634;
constexpr double kSaturated = 50;  // beyond this log-weight error the interval bounds decide

double Gamma(double n, double u) {
  return n * u / (1 - n * u);
}

using AbsMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// |Q||K|^T of one head: the condition of each score before scaling.
AbsMatrix AbsProducts(const Problem& p, const Inputs& inputs, int64_t b, int64_t h) {
  const auto plane = [](const Array& a, int64_t item, int64_t head) {
    return Eigen::Map<const AbsMatrix>(
        a.values.data() + (item * a.shape[1] + head) * a.shape[2] * a.shape[3], a.shape[2],
        a.shape[3]);
  };
  if (p.head_dim == 0) return AbsMatrix::Zero(p.q_len, p.kv_len);
  return plane(inputs.q, b, h).cwiseAbs() *
         plane(inputs.k, b, h / p.heads_per_kv_head()).cwiseAbs().transpose();
}

// R_j: how often key j can be rescaled in an online softmax that walks the keys in order, whatever
// the tiles and contiguous splits. A later key i can be a new maximum for j only if no key in [j,
// i) is certainly at least as large: with pg(i) the last such key, R_j = #{i > j : pg(i) < j}.
std::vector<double> CountRescales(const std::vector<double>& scores,
                                  const std::vector<double>& errors) {
  const size_t n = scores.size();
  std::vector<double> change(n + 1, 0.0);
  std::vector<size_t> stack;  // keys whose certain lower ends fall from bottom to top
  for (size_t i = 0; i < n; ++i) {
    const double high = scores[i] + errors[i];
    const auto below = std::partition_point(
        stack.begin(), stack.end(), [&](size_t k) { return scores[k] - errors[k] >= high; });
    const size_t first = below == stack.begin() ? 0 : *(below - 1) + 1;
    if (first < i) {  // keys first .. i-1 can be rescaled by i
      change[first] += 1;
      change[i] -= 1;
    }
    const double low = scores[i] - errors[i];
    while (!stack.empty() && scores[stack.back()] - errors[stack.back()] <= low) stack.pop_back();
    stack.push_back(i);
  }
  for (size_t j = 1; j < n; ++j) change[j] += change[j - 1];
  change.resize(n);
  return change;
}

std::vector<double> CountRescalesBothWays(std::vector<double> scores, std::vector<double> errors) {
  std::vector<double> forward = CountRescales(scores, errors);
  std::reverse(scores.begin(), scores.end());
  std::reverse(errors.begin(), errors.end());
  const std::vector<double> backward = CountRescales(scores, errors);
  for (size_t j = 0; j < forward.size(); ++j) {
    forward[j] = std::max(forward[j], backward[forward.size() - 1 - j]);
  }
  return forward;
}

// The mechanisms (bits of HiddenBy) that keep non-finite data of a tensor from mattering.
unsigned SafeMechanisms(const Contract& contract, PoisonTensor tensor) {
  const std::pair<unsigned, PoisonPlace> kPlaces[] = {{kHiddenByLength, PoisonPlace::kLength},
                                                      {kHiddenByCausal, PoisonPlace::kCausal},
                                                      {kHiddenByWindow, PoisonPlace::kWindow},
                                                      {kHiddenByMask, PoisonPlace::kMask},
                                                      {kHiddenByBias, PoisonPlace::kBias}};
  unsigned safe = 0;
  for (const auto& [bit, place] : kPlaces) {
    if (contract.IsPoisonSafe(tensor, place)) safe |= bit;
  }
  return safe;
}

constexpr unsigned kEveryMechanism =
    kHiddenByLength | kHiddenByCausal | kHiddenByWindow | kHiddenByMask | kHiddenByBias;

// What the rows of one head share.
struct HeadData {
  AbsMatrix abs_products;  // |Q||K|^T
  unsigned safe_keys = 0, safe_values = 0;
};

// The bound of one row, on its visible keys in order.
class RowBound {
 public:
  RowBound(const Problem& p, const Inputs& inputs, const Reference& reference,
           const Contract& contract, const Row& row, const HeadData& head)
      : p_(p),
        inputs_(inputs),
        reference_(reference),
        row_(row),
        kv_head_(row.head / p.heads_per_kv_head()),
        head_(head),
        tau_(contract.numerics.flush_to_zero ? 0x1p-126 : 0x1p-149),
        exp_error_(contract.numerics.exp_ulp * 0x1p-23) {}

  void Run(Bound& bound) {
    RowState& state = bound.rows[static_cast<size_t>(
        (row_.batch * p_.q_heads + row_.head) * p_.q_len + row_.query)];
    keys_ = VisibleKeys(p_, row_);
    if (HiddenMayOverflow()) return Unconstrain(bound, state);
    if (keys_.empty()) return;  // bounds stay 0: the contract's value decides
    if (VisibleMayOverflow()) return Unconstrain(bound, state);
    if (std::isnan(reference_.lse.At(row_.batch, row_.head, row_.query, 0))) {
      return FreeHiddenWeights(bound);
    }
    MeasureWeights();
    BoundLse(bound);
    BoundWeights(bound);
    BoundOut(bound, state);
  }

 private:
  double AbsScore(int64_t key) const {
    const double scale = std::abs(p_.EffectiveScale());
    return scale * head_.abs_products(row_.query, key) + AbsBias(key);
  }

  double AbsBias(int64_t key) const {
    if (!p_.bias || !p_.bias->At(row_.batch, row_.head, row_.query, key)) return 0;
    return std::abs(inputs_.bias.Broadcast(row_.batch, row_.head, row_.query, key));
  }

  // Scores that some order of scaling and adding may take out of range. A NaN is no overflow.
  bool ScoreMayOverflow(int64_t key) const {
    const double scale = std::abs(p_.EffectiveScale());
    const double reach =
        head_.abs_products(row_.query, key) * std::max({1.0, scale, scale * kLog2E}) +
        AbsBias(key) * kLog2E;
    // The scale alone may be out of range too, and infinity times a zero product is NaN.
    return std::max(reach, scale * kLog2E) > range_ / 2;
  }

  // Any one safe mechanism is enough: what it hides is never looked at.
  bool HiddenMayOverflow() const {
    if ((head_.safe_keys & head_.safe_values) == kEveryMechanism) return false;
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      const unsigned why = WhyHidden(p_, row_, j);
      if (why == kHiddenByNothing) continue;
      if ((why & head_.safe_keys) == 0 &&
          (ScoreMayOverflow(j) || std::isnan(head_.abs_products(row_.query, j)))) {
        return true;
      }
      if ((why & head_.safe_values) == 0 && !ValueIsFinite(j)) return true;
    }
    return false;
  }

  bool ValueIsFinite(int64_t key) const {
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (!std::isfinite(inputs_.v.At(row_.batch, kv_head_, key, d))) return false;
    }
    return true;
  }

  bool VisibleMayOverflow() const {
    for (const int64_t j : keys_) {
      if (ScoreMayOverflow(j)) return true;
    }
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      double sum = 0;
      for (const int64_t j : keys_) sum += std::abs(inputs_.v.At(row_.batch, kv_head_, j, d));
      // The running accumulator may hold the plain sum of |v| before it is normalised.
      if (sum > range_ / 2) return true;
    }
    return false;
  }

  void Unconstrain(Bound& bound, RowState& state) const {
    state = RowState::kUnconstrained;
    bound.lse.At(row_.batch, row_.head, row_.query, 0) = kInf;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      bound.out.At(row_.batch, row_.head, row_.query, d) = kInf;
    }
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      bound.weights.At(row_.batch, row_.head, row_.query, j) = kInf;
    }
  }

  // In a row that a visible NaN has made NaN, dividing by its sum may make hidden weights NaN too.
  void FreeHiddenWeights(Bound& bound) const {
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      if (!Visible(p_, row_, j)) bound.weights.At(row_.batch, row_.head, row_.query, j) = kInf;
    }
  }

  // Log-weight errors eta_j and everything of the row that does not depend on the column.
  void MeasureWeights() {
    const size_t n = keys_.size();
    std::vector<double> scores(n), errors(n);
    for (size_t j = 0; j < n; ++j) {
      scores[j] = reference_.scores.At(row_.batch, row_.head, row_.query, keys_[j]);
      max_ = std::max(max_, scores[j]);
      const double dim = static_cast<double>(p_.head_dim);
      errors[j] = Gamma(dim + kScoreRoundings, u_) * AbsScore(keys_[j]) + (dim + 2) * tau_;
    }
    const std::vector<double> rescales = CountRescalesBothWays(scores, errors);
    lse_ = reference_.lse.At(row_.batch, row_.head, row_.query, 0);
    log_n_ = std::log(static_cast<double>(n));
    const double total = std::exp(lse_ - max_);  // L, at least 1
    double z = 0;
    for (size_t j = 0; j < n; ++j) {
      Key key;
      key.weight = reference_.weights.At(row_.batch, row_.head, row_.query, keys_[j]);
      key.eta = errors[j] +
                u_ * (kShiftRoundings * (std::max(std::abs(scores[j]), std::abs(max_)) + log_n_) +
                      kRescaleRoundings * (max_ - scores[j])) +
                (kSplitExps + rescales[j]) * exp_error_;
      key.phi = Gamma(static_cast<double>(n) + rescales[j] + kSumRoundings, u_);
      max_eta_ = std::max(max_eta_, key.eta);
      max_phi_ = std::max(max_phi_, key.phi);
      const double spread = std::exp(std::min(key.eta, kSaturated));
      key.high = key.weight * spread;
      key.low = key.weight / spread;
      z += key.low;
      sum_high_ += key.high;
      row_keys_.push_back(key);
    }
    sum_low_ = z;
    const double lam = std::max(1.0, total * z);
    for (Key& key : row_keys_) {
      key.lost = std::min(total * key.high, tau_) / lam;  // underflow of the weight, absolute
      sum_lost_ += key.lost;
      sum_phi_ += key.high * key.phi / sum_low_;
    }
    theta_ = std::min(sum_phi_, max_phi_);
  }

  bool Saturated() const { return max_eta_ > kSaturated; }

  void BoundLse(Bound& bound) const {
    const double from_weights =
        Saturated() ? max_eta_ : std::max(std::log(sum_high_), -std::log(sum_low_));
    const double n = static_cast<double>(keys_.size());
    bound.lse.At(row_.batch, row_.head, row_.query, 0) =
        (from_weights + theta_ / (1 - theta_) +
         u_ * (kMergeRoundings * std::abs(max_) + 6 * log_n_ + std::abs(lse_) + 8) + n * tau_) *
            (1 + 1e-6) +
        1e-13 * (1 + std::abs(lse_));
  }

  // A weight is e^s / sum e^s, or e^(s - lse): the first loses in the sum, the second in |lse|.
  void BoundWeights(Bound& bound) const {
    const double relative =
        theta_ / (1 - theta_) +
        u_ * (kDivideRoundings + kMergeRoundings * (std::abs(max_) + 1) + 6 * log_n_);
    const double absolute = (static_cast<double>(keys_.size()) + 4) * tau_;
    for (size_t j = 0; j < keys_.size(); ++j) {
      const Key& key = row_keys_[j];
      double error = 1;
      if (!Saturated()) {
        const double above = std::min(1.0, key.high / sum_low_) * (1 + relative) - key.weight;
        const double below = key.weight - key.low / sum_high_ * (1 - std::min(1.0, relative));
        error = std::min(1.0 + relative, std::max(above, below));
      }
      bound.weights.At(row_.batch, row_.head, row_.query, keys_[j]) =
          (error + absolute) * (1 + 1e-6) + 1e-13 * key.weight;
    }
  }

  void BoundOut(Bound& bound, RowState& state) const {
    double widest = 0, range = 0, largest = 0;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const Column column = MeasureColumn(d);
      if (std::isnan(column.out)) continue;  // a visible NaN: the bound stays 0
      const double b = ColumnBound(column);
      bound.out.At(row_.batch, row_.head, row_.query, d) = b;
      widest = std::max(widest, b);
      range = std::max(range, column.range);
      largest = std::max(largest, column.max_value);
    }
    const double yardstick = range > 0 ? range : largest;
    if (yardstick > 0 && widest > 0.1 * yardstick) state = RowState::kUninformative;
  }

  // The sums over the visible keys that one output element needs; v is the element's column of V.
  struct Column {
    double out = 0;
    double common = 0;        // sum of w (e^eta - 1) |v - o| / Z
    double max_distance = 0;  // max |v - o|
    double max_value = 0;     // max |v|
    double weighed = 0;       // sum of w |v|
    double rounded = 0;       // sum of e^U phi |v| / Z
    double lost = 0;          // sum of lost weight * max(|v|, |v - o|)
    double range = 0;         // max v - min v
  };

  Column MeasureColumn(int64_t d) const {
    Column c;
    c.out = reference_.out.At(row_.batch, row_.head, row_.query, d);
    double low = kInf, high = -kInf;
    for (size_t j = 0; j < keys_.size(); ++j) {
      const Key& key = row_keys_[j];
      const double v = inputs_.v.At(row_.batch, kv_head_, keys_[j], d);
      const double distance = std::abs(v - c.out), size = std::abs(v);
      c.common += (key.high - key.weight) * distance;
      c.rounded += key.high * key.phi * size;
      c.weighed += key.weight * size;
      c.lost += key.lost * std::max(size, distance);
      c.max_distance = std::max(c.max_distance, distance);
      c.max_value = std::max(c.max_value, size);
      low = std::min(low, v);
      high = std::max(high, v);
    }
    c.common /= sum_low_;
    c.rounded /= sum_low_;
    c.range = high - low;
    return c;
  }

  double ColumnBound(const Column& c) const {
    const double o = std::abs(c.out);
    const double common = Saturated() ? c.max_distance : std::min(c.common, c.max_distance);
    const double numerator =
        (Saturated() ? max_phi_ * c.max_value : std::min(c.rounded, max_phi_ * c.max_value)) +
        1.01 * c.lost + common * sum_lost_;
    const double theta = Saturated() ? max_phi_ : theta_;
    const double summed = common + (numerator + (o + common) * theta) / (1 - theta);
    const double n = static_cast<double>(keys_.size());
    const double stored = summed + kDivideRoundings * u_ * (o + summed) +
                          u_ * (kMergeRoundings * (std::abs(max_) + 1) + 6 * log_n_) * o +
                          (3 * n + 9) * tau_;
    return stored * (1 + 1e-6) + 1e-13 * c.weighed;
  }

  struct Key {
    double weight = 0;  // w
    double eta = 0;     // error of ln w
    double phi = 0;     // relative error of its term in a sum
    double high = 0;    // w e^eta
    double low = 0;     // w e^-eta
    double lost = 0;    // absolute loss by underflow
  };

  const Problem& p_;
  const Inputs& inputs_;
  const Reference& reference_;
  const Row row_;
  const int64_t kv_head_;
  const HeadData& head_;
  const double u_ = 0x1p-24;
  const double tau_;
  const double exp_error_;
  // Intermediates are taken to be f32, or f16 in f16 calls, where nothing says otherwise yet.
  const double range_ = TraitsOf(p_.dtype == DType::kF16 ? DType::kF16 : DType::kF32).max_finite;

  std::vector<int64_t> keys_;
  std::vector<Key> row_keys_;
  double max_ = -kInf, lse_ = 0, log_n_ = 0;
  double max_eta_ = 0, max_phi_ = 0, sum_high_ = 0, sum_low_ = 0, sum_lost_ = 0, sum_phi_ = 0;
  double theta_ = 0;
};

}  // namespace

bool HasBound(DType dtype) {
  return dtype == DType::kF32;
}

Bound ComputeBound(const Problem& problem, const Inputs& inputs, const Reference& reference,
                   const Contract& contract) {
  Bound bound{
      Array(problem.OutShape()), Array(problem.LseShape()), Array(problem.WeightsShape()), {}};
  bound.rows.assign(static_cast<size_t>(problem.batch * problem.q_heads * problem.q_len),
                    RowState::kInformative);
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t h = 0; h < problem.q_heads; ++h) {
      const HeadData head{AbsProducts(problem, inputs, b, h),
                          SafeMechanisms(contract, PoisonTensor::kK),
                          SafeMechanisms(contract, PoisonTensor::kV)};
      for (int64_t i = 0; i < problem.q_len; ++i) {
        RowBound(problem, inputs, reference, contract, Row{b, h, i}, head).Run(bound);
      }
    }
  }
  return bound;
}

}  // namespace attest
