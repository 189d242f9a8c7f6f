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

// Adds a term to a sum, and raises what its prefixes are at least and at most.
void Extend(double term, double& sum, double& low, double& high) {
  sum += term;
  low = std::min(low, sum);
  high = std::max(high, sum);
}

// One row's P. An error has a part that is the same for many keys (`shared`, added as it stands) and
// independent parts (added in squares).
class RowStatistics {
 public:
  // Storage that one row after another uses.
  struct Scratch {
    std::vector<size_t> order;
    std::vector<size_t> group;           // of each key
    std::vector<double> group_variance;  // of ln w, by group
    std::vector<double> independent;     // variances of ln w, by key
    std::vector<double> sum_value;       // by group
  };

  RowStatistics(const RowContext& context, const RowErrors& errors, Scratch& scratch)
      : context_(context),
        r_(context.roundings),
        e_(errors),
        order_(scratch.order),
        group_(scratch.group),
        group_variance_(scratch.group_variance),
        independent_(scratch.independent),
        sum_value_(scratch.sum_value) {
    GroupKeys();
    // Truncations all lean the same way: they add up like their number, not like its root.
    score_steps_ = r_.biased ? Square(r_.score_roundings) : r_.score_roundings;
    tilts_ = (context.problem.fp8 ? 3 + kFp8Roundings : 3) * r_.u;
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

  using Lanes = Eigen::ArrayXd;  // [value_dim]
  using Groups = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  // Sums over the keys for all columns at once, in units of the column's largest |v| so that no
  // square underflows or overflows.
  struct Columns {
    Lanes largest, unit, out;
    Lanes away_sum, away_low, away_high;     // w (v - o): its prefix sums' last, least, greatest
    Lanes value_sum, value_low, value_high;  // w v: likewise
    Lanes moved, by_storing, tilt, lost, variance, rounded, size;
    Groups group_away, group_value, group_lost;
    Lanes scratch;
  };
  void MeasureColumns(Columns& columns) const;

  // Of column d: shared^2 + variance in `spread`, shared + lambda deviation in `probable`. `squares`
  // is the root of the sum of squared weights.
  void Out(const Columns& columns, double squares, int64_t d, double& probable,
           double& spread) const;
  void Lse(double& probable, double& spread) const;
  double Weight(size_t n, double probable_lse) const;

 private:
  void GroupKeys();
  void AddKey(size_t n, Columns& columns) const;
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
  std::vector<size_t>&order_, &group_;
  std::vector<double>&group_variance_, &independent_, &sum_value_;
  double alike_pairs_ = 0;  // sum of squared group sizes
  double score_steps_ = 0, sum_steps_ = 0, rescales_ = 0;
  double tilts_ = 0;  // roundings of constants that multiply every score
};

// Keys with nearly equal scores make the same errors: they are taken together.
void RowStatistics::GroupKeys() {
  order_.resize(e_.key.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::sort(order_.begin(), order_.end(),
            [&](size_t a, size_t b) { return e_.score[a] < e_.score[b]; });
  const double width = std::max(2 * r_.u_weight, kAlike);
  group_.resize(order_.size());
  size_t groups = 0, members = 0;
  double first = 0;
  for (const size_t n : order_) {
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
  sum_value_.resize(groups);
}

void RowStatistics::MeasureColumns(Columns& c) const {
  const int64_t dim = context_.problem.value_dim;
  const auto groups = static_cast<int64_t>(sum_value_.size());
  c.largest.setZero(dim);
  for (const int64_t j : e_.key) {
    const double* values = context_.ValuesOf(j, c.scratch);
    for (int64_t d = 0; d < dim; ++d) {
      c.largest.data()[d] = std::max(c.largest.data()[d], std::abs(values[d]));
    }
  }
  c.unit = (c.largest > 0).select(c.largest, 1.0);
  c.out = context_.OutRow() / c.unit;
  for (Lanes* lanes :
       {&c.away_sum, &c.away_low, &c.away_high, &c.value_sum, &c.value_low, &c.value_high, &c.moved,
        &c.by_storing, &c.lost, &c.variance, &c.rounded, &c.size}) {
    lanes->setZero(dim);
  }
  c.group_away.setZero(groups, dim);
  c.group_value.setZero(groups, dim);
  c.group_lost.setZero(groups, dim);
  c.tilt.setZero(dim);
  for (size_t n = 0; n < e_.key.size(); ++n) AddKey(n, c);
  for (int64_t g = 0; g < groups; ++g) {
    const double variance = group_variance_[static_cast<size_t>(g)];
    for (int64_t d = 0; d < dim; ++d) {
      c.variance.data()[d] += Square(c.group_away(g, d)) * variance + Square(c.group_lost(g, d));
      c.rounded.data()[d] += Square(c.group_value(g, d));
    }
  }
}

// One loop, not one an array: the lanes are few, and twenty loops would cost more than what is in them.
void RowStatistics::AddKey(size_t n, Columns& c) const {
  const double w = e_.weight[n], lost = e_.lost[n];
  const double by_storing = e_.biased_score_error[n], score = e_.score[n];
  const double independent = independent_[n];
  const bool rounds_either_way = lost != 0 && RoundsEitherWay(n);
  const auto group = static_cast<int64_t>(group_[n]);
  const double* values = context_.ValuesOf(e_.key[n], c.scratch);
  const int64_t dim = c.out.size();
  double* group_away = c.group_away.data() + group * dim;
  double* group_value = c.group_value.data() + group * dim;
  double* group_lost = c.group_lost.data() + group * dim;
  for (int64_t d = 0; d < dim; ++d) {
    const double out = c.out.data()[d], v = values[d] / c.unit.data()[d];
    const double away = w * (v - out), value = w * v, size = std::abs(away);
    Extend(away, c.away_sum.data()[d], c.away_low.data()[d], c.away_high.data()[d]);
    Extend(value, c.value_sum.data()[d], c.value_low.data()[d], c.value_high.data()[d]);
    c.moved.data()[d] += size;
    c.by_storing.data()[d] += size * by_storing;
    c.tilt.data()[d] += away * score;
    c.variance.data()[d] += Square(away) * independent;
    c.rounded.data()[d] += Square(w) * (Square(v) + Square(out));
    c.size.data()[d] += std::abs(value);
    group_away[d] += away;
    group_value[d] += value;
    if (lost == 0) continue;
    const double either = lost * std::max(std::abs(v), std::abs(v - out));
    if (rounds_either_way) {
      c.variance.data()[d] += Square(either);
      group_lost[d] += lost * v;
    } else {
      c.lost.data()[d] += either;
    }
  }
}

void RowStatistics::Out(const Columns& c, double squares, int64_t d, double& probable,
                        double& spread) const {
  const double unit = c.unit(d), o = c.out(d), size = c.size(d);
  // Tiny weights on huge values: the squares have vanished, and P says no more than W.
  if (c.largest(d) > 0 && size < kLeastSize) {
    probable = spread = std::numeric_limits<double>::infinity();
    return;
  }
  const double part = std::min(size, c.value_high(d) - c.value_low(d) + 3 * squares);
  // What multiplies weights or values besides is the same for all, but for its last product.
  const double by_factor = r_.factor_error > 0 ? r_.u : 0;
  const double variance = c.variance(d) + (Square(r_.u_weight) + Square(by_factor)) * c.rounded(d) +
                          Square(r_.u) * sum_steps_ * (Square(part) + Square(o));
  const double prefix = std::min(c.away_high(d) - c.away_low(d), c.moved(d));
  const double relative = prefix * rescales_ + c.by_storing(d) + tilts_ * std::abs(c.tilt(d)) +
                          c.lost(d) + 2 * e_.tiny_lost +
                          (MergeError(7) + r_.factor_error) * std::abs(o);
  // Of the output as it is: o unit may round to below a power of two.
  const double shared = relative * unit + r_.StoreError(std::abs(context_.Out(d))) +
                        e_.underflow_out + r_.ReferenceError(o * unit, size * unit);
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
  double shared = rescales_ + by_storing + tilts_ * std::abs(tilt) +
                  MergeError(8 + std::abs(e_.lse)) + r_.u_lse * std::abs(e_.lse) +
                  e_.underflow_weight + r_.ReferenceError(e_.lse, 1 + std::abs(e_.lse));
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
                          e_.biased_score_error[n] + tilts_ * std::abs(e_.score[n]) + r_.u_weight +
                          MergeError(kDivideRoundings) + probable_lse;
  const double error = w * relative * kSlack + e_.lost[n] + e_.tiny_lost + e_.underflow_weight;
  return error + r_.StoreError(w + error) + r_.ReferenceError(w, w);
}

}  // namespace

void ProbableBound(const RowContext& context, const RowErrors& errors, const RowNumbers& worst,
                   RowNumbers& probable, RowNumbers& spread) {
  probable = worst;
  spread.out = worst.out;
  spread.lse = worst.lse;
  spread.weights.clear();
  spread.scores.clear();
  if (!(errors.max_eta <= kFirstOrder)) return;
  thread_local RowStatistics::Scratch scratch;
  const RowStatistics statistics(context, errors, scratch);
  const auto lower = [](double& target, double value) { target = std::min(target, value); };
  double p = 0, deviation = 0, squares = 0;
  for (size_t n = 0; n < errors.key.size(); ++n) squares += Square(errors.weight[n]);
  thread_local RowStatistics::Columns columns;
  statistics.MeasureColumns(columns);
  for (size_t d = 0; d < worst.out.size(); ++d) {
    const auto column = static_cast<int64_t>(d);
    if (std::isnan(context.Out(column))) continue;
    statistics.Out(columns, std::sqrt(squares), column, p, deviation);
    lower(probable.out[d], p);
    lower(spread.out[d], deviation);
  }
  statistics.Lse(p, deviation);
  lower(probable.lse, p);
  lower(spread.lse, deviation);
  for (size_t n = 0; n < errors.visible && !worst.weights.empty(); ++n) {
    lower(probable.weights[static_cast<size_t>(errors.key[n])], statistics.Weight(n, probable.lse));
  }
}

}  // namespace attest
