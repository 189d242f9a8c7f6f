#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "impl/reference/bound_tiers.h"

namespace attest {
namespace {

// Beyond this log-weight error first-order propagation no longer holds, and P is W.
constexpr double kFirstOrder = 0.02;
// Keys whose scores lie this close together, relatively, round alike in exp.
constexpr double kAlike = 0x1p-16;

// A sum of w |v| in units of the largest |v| below which its squares are no longer held in double.
constexpr double kLeastSize = 1e-140;

double Square(double x) {
  return x * x;
}

// The largest difference of two prefix sums: what a factor on everything so far can weigh.
class PrefixRange {
 public:
  void Add(double x) {
    sum_ += x;
    low_ = std::min(low_, sum_);
    high_ = std::max(high_, sum_);
  }
  double range() const { return high_ - low_; }

 private:
  double sum_ = 0, low_ = 0, high_ = 0;
};

// One row's P. An error has a part that is the same for many keys (`shared`, added as it stands) and
// independent parts (added in squares).
class RowStatistics {
 public:
  RowStatistics(const RowContext& context, const RowErrors& errors)
      : context_(context), r_(context.roundings), e_(errors) {
    GroupKeys();
    const auto dim =
        static_cast<double>(context.problem.head_dim) + kScoreRoundings + 2 * r_.input_roundings;
    // Truncations all lean the same way: they add up like their number, not like its root.
    score_steps_ = r_.biased ? Square(dim) : dim;
    const double steps = r_.Depth(e_.keys) + e_.max_rescales + kSumRoundings + r_.input_roundings;
    sum_steps_ = std::max(r_.biased ? Square(steps) : steps, alike_pairs_);
    rescales_ = (e_.max_rescales + kPlainExps + 1) *
                (r_.exp_error + 2 * r_.u + 2 * r_.u * (std::abs(e_.max) + e_.log_keys));
    independent_.resize(e_.key.size());
    group_variance_.assign(sum_value_.size(), 0.0);
    for (size_t n = 0; n < e_.key.size(); ++n) {
      const double by_score = Square(r_.u * e_.condition[n]) * score_steps_;
      independent_[n] = by_score + Square(6 * r_.u * (e_.max - e_.score[n])) + Square(r_.exp_error);
      double& worst = group_variance_[group_[n]];
      worst = std::max(worst, by_score + Square(r_.exp_error));
    }
  }

  // shared^2 + variance in `spread`, shared + lambda deviation in `probable`.
  void Out(int64_t column, double& probable, double& spread) const;
  void Lse(double& probable, double& spread) const;
  double Weight(size_t n, double probable_lse) const;

 private:
  void GroupKeys();
  // Whether storing the weight below its least normal rounds to nearest, and not always to zero.
  bool RoundsEitherWay(size_t n) const {
    return r_.weight_lost < r_.weight_normal && e_.weight[n] > 2 * r_.weight_lost;
  }
  double MergeError(double roundings) const {
    return r_.u *
           (kMergeRoundings * std::abs(e_.max) + kMergeLogRoundings * e_.log_keys + roundings);
  }

  const RowContext& context_;
  const Roundings& r_;
  const RowErrors& e_;
  std::vector<size_t> group_;           // of each key
  std::vector<double> group_variance_;  // of ln w, by group
  double alike_pairs_ = 0;              // sum of squared group sizes
  double score_steps_ = 0, sum_steps_ = 0, rescales_ = 0;
  std::vector<double> independent_;                              // variances of ln w, by key
  mutable std::vector<double> sum_away_, sum_value_, sum_lost_;  // by group, scratch
};

// Keys with nearly equal scores make the same errors: they are taken together.
void RowStatistics::GroupKeys() {
  std::vector<size_t> order(e_.key.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return e_.score[a] < e_.score[b]; });
  const double width = std::max(2 * r_.u_weight, kAlike);
  group_.resize(order.size());
  size_t groups = 0, members = 0;
  double first = 0;
  for (const size_t n : order) {
    if (groups == 0 || e_.score[n] - first > width) {
      alike_pairs_ += Square(static_cast<double>(members));
      members = 0;
      first = e_.score[n];
      ++groups;
    }
    group_[n] = groups - 1;
    ++members;
  }
  alike_pairs_ += Square(static_cast<double>(members));
  sum_away_.resize(groups);
  sum_value_.resize(groups);
  sum_lost_.resize(groups);
}

void RowStatistics::Out(int64_t column, double& probable, double& spread) const {
  // In units of the largest |v|, so that no square underflows or overflows.
  double unit = 0;
  for (const int64_t j : e_.key) unit = std::max(unit, std::abs(context_.Value(j, column)));
  const double o = unit > 0 ? context_.Out(column) / unit : 0;
  std::fill(sum_away_.begin(), sum_away_.end(), 0.0);
  std::fill(sum_value_.begin(), sum_value_.end(), 0.0);
  std::fill(sum_lost_.begin(), sum_lost_.end(), 0.0);
  PrefixRange away_range, value_range;
  double away_sum = 0, by_storing = 0, tilt = 0, lost = 0, variance = 0, rounded = 0, size = 0;
  double squares = 0;
  for (size_t n = 0; n < e_.key.size() && unit > 0; ++n) {
    const double v = context_.Value(e_.key[n], column) / unit, w = e_.weight[n];
    const double away = w * (v - o), value = w * v;
    away_range.Add(away);
    value_range.Add(value);
    away_sum += std::abs(away);
    by_storing += std::abs(away) * e_.biased_score_error[n];
    tilt += away * e_.score[n];
    variance += Square(away) * independent_[n];
    rounded += Square(w) * (Square(v) + Square(o));
    size += std::abs(value);
    squares += Square(w);
    sum_away_[group_[n]] += away;
    sum_value_[group_[n]] += value;
    const double either = std::max(std::abs(v), std::abs(v - o));
    if (RoundsEitherWay(n)) {
      variance += Square(e_.lost[n] * either);
      sum_lost_[group_[n]] += e_.lost[n] * v;
    } else {
      lost += e_.lost[n] * either;
    }
  }
  for (size_t g = 0; g < sum_away_.size(); ++g) {
    variance += Square(sum_away_[g]) * group_variance_[g] + Square(sum_lost_[g]);
    rounded += Square(sum_value_[g]);
  }
  // Tiny weights on huge values: the squares have vanished, and P says no more than W.
  if (unit > 0 && size < kLeastSize) {
    probable = spread = std::numeric_limits<double>::infinity();
    return;
  }
  const double part = std::min(size, value_range.range() + 3 * std::sqrt(squares));
  variance +=
      Square(r_.u_weight) * rounded + Square(r_.u) * sum_steps_ * (Square(part) + Square(o));
  const double relative = std::min(away_range.range(), away_sum) * rescales_ + by_storing +
                          3 * r_.u * std::abs(tilt) + lost + MergeError(7) * std::abs(o);
  const double shared = relative * unit + r_.StoreError(std::abs(o) * unit) +
                        (4 * e_.keys + 32) * r_.tau + r_.ReferenceError(o * unit, size * unit);
  const double deviation = std::sqrt(variance) * unit;
  probable = shared + kHoeffding * deviation;
  spread = std::hypot(shared, deviation);
}

// The error of the lse is the mean of those of the ln w, and that of their sum.
void RowStatistics::Lse(double& probable, double& spread) const {
  std::fill(sum_value_.begin(), sum_value_.end(), 0.0);
  double by_storing = 0, tilt = 0, variance = Square(r_.u) * sum_steps_, rounded = 0;
  for (size_t n = 0; n < e_.key.size(); ++n) {
    const double w = e_.weight[n];
    by_storing += w * e_.biased_score_error[n];
    tilt += w * e_.score[n];
    variance += Square(w) * independent_[n];
    rounded += Square(w);
    sum_value_[group_[n]] += w;
  }
  for (size_t g = 0; g < sum_value_.size(); ++g) {
    variance += Square(sum_value_[g]) * group_variance_[g];
    rounded += Square(sum_value_[g]);
  }
  double shared = rescales_ + by_storing + 3 * r_.u * std::abs(tilt) +
                  MergeError(8 + std::abs(e_.lse)) + r_.u_lse * std::abs(e_.lse) +
                  e_.keys * r_.tau + r_.ReferenceError(e_.lse, 1 + std::abs(e_.lse));
  if (r_.rounded_lse) {
    variance += Square(r_.u_weight) * rounded;
    shared += e_.sum_lost;
  }
  probable = shared + kHoeffding * std::sqrt(variance);
  spread = std::sqrt(Square(shared) + variance);
}

double RowStatistics::Weight(size_t n, double probable_lse) const {
  const double w = e_.weight[n];
  const double relative = kHoeffding * std::sqrt(independent_[n]) + rescales_ +
                          e_.biased_score_error[n] + 3 * r_.u * std::abs(e_.score[n]) +
                          r_.u_weight + MergeError(kDivideRoundings) + probable_lse;
  const double error = w * relative * kSlack + e_.lost[n] + (e_.keys + 4) * r_.tau;
  return error + r_.StoreError(w + error) + r_.ReferenceError(w, w);
}

}  // namespace

ProbableBound ComputeProbableBound(const RowContext& context, const RowErrors& errors,
                                   const RowNumbers& worst) {
  ProbableBound result{worst, worst};
  result.spread.weights.clear();
  if (!(errors.max_eta <= kFirstOrder)) return result;
  const RowStatistics statistics(context, errors);
  const auto lower = [](double& target, double value) { target = std::min(target, value); };
  double probable = 0, spread = 0;
  for (size_t d = 0; d < worst.out.size(); ++d) {
    if (std::isnan(context.Out(static_cast<int64_t>(d)))) continue;
    statistics.Out(static_cast<int64_t>(d), probable, spread);
    lower(result.probable.out[d], probable);
    lower(result.spread.out[d], spread);
  }
  statistics.Lse(probable, spread);
  lower(result.probable.lse, probable);
  lower(result.spread.lse, spread);
  for (size_t n = 0; n < errors.key.size() && !worst.weights.empty(); ++n) {
    lower(result.probable.weights[static_cast<size_t>(errors.key[n])],
          statistics.Weight(n, result.probable.lse));
  }
  return result;
}

}  // namespace attest
