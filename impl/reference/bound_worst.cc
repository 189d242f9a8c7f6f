#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/reference/bound_tiers.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kRoundOff = 1 + 1e-6;  // of these formulas themselves, in double

// Beyond this much log-weight error the reachable interval is worth its sweeps.
constexpr double kWideEta = 0.02;
// Keys further below the row's largest weight than this cannot move a mean that is held in double.
constexpr double kNegligible = -70;

constexpr double kRootFloor = 1e-150;
constexpr double kLargestMoment = 1e300;  // NaN is not below it either

// What one output element's error is made of; v is its column of V, o its value.
struct Column {
  double out = 0;
  double common = 0;   // C: errors of scores and exps, which the division by their sum shares
  double summed = 0;   // of adding up weights times v
  double rounded = 0;  // of rounding the weights, per u_weight
  double lost = 0;     // of weights lost to underflow
  double size = 0;     // sum of w |v|
};

// What the row's sums are, and are wrong by, as far as outputs see it.
struct RowSums {
  double max = 0, log_keys = 0;
  double theta = 0;          // relative, of the sum of weights
  double by_logs = 0;        // of ln of that sum, by the errors of its terms
  double lost = 0;           // of the weights, by underflow
  double underflow_out = 0;  // of the output, absolute
};

RowSums SumsOf(const RowErrors& e) {
  return {e.max, e.log_keys, e.theta, e.LogSumError(), e.sum_lost, e.underflow_out};
}

// A bound whose formula left the range of double says nothing; it never demands exactness.
double Known(double bound) {
  return std::isnan(bound) ? kInf : bound;
}

// B of BOUND.md, section 5, from a column's parts.
double OutBound(const Roundings& r, const RowSums& sums, const Column& c) {
  if (!(sums.theta < 1)) return kInf;
  const double o = std::abs(c.out);
  const double numerator =
      c.summed + r.u_numerator * (c.rounded + c.common) + kSlack * c.lost + c.common * sums.lost;
  const double mean = c.common + (numerator + (o + c.common) * sums.theta) / (1 - sums.theta);
  const double merged =
      mean + kDivideRoundings * r.u * (o + mean) +
      r.u * (kMergeRoundings * (std::abs(sums.max) + 1) + kMergeLogRoundings * sums.log_keys) * o +
      sums.underflow_out;
  const double stored = merged + r.StoreError(o + merged) + r.tau;
  return Known(stored * kRoundOff + r.ReferenceError(c.out, c.size));
}

double LseBound(const Roundings& r, const RowErrors& e, const RowSums& sums) {
  if (!(sums.theta < 1)) return kInf;
  const double rounded = r.rounded_lse ? r.u_weight + sums.lost : 0;
  const double size = std::abs(e.lse);
  const double error =
      sums.by_logs + sums.theta / (1 - sums.theta) + rounded +
      r.u * (kMergeRoundings * std::abs(e.max) + kMergeLogRoundings * e.log_keys + size + 8) +
      r.u_lse * size + e.underflow_weight;
  return Known(error * kRoundOff + r.ReferenceError(e.lse, 1 + size));
}

// What dividing by the sum adds to each weight's relative error.
double DivisionError(const Roundings& r, const RowErrors& e, double theta) {
  if (!(theta < 1)) return kInf;
  return theta / (1 - theta) + r.u_weight +
         r.u * (kDivideRoundings + kMergeRoundings * (std::abs(e.max) + 1) +
                kMergeLogRoundings * e.log_keys);
}

// The bound of a stored weight w whose error before it is stored is `error`.
double StoredWeightBound(const Roundings& r, const RowErrors& e, double w, double error) {
  const double whole = error + e.underflow_weight;
  return Known((whole + r.StoreError(w + whole)) * kRoundOff + r.ReferenceError(w, w));
}

// A weight is e^s / sum e^s, or e^(s - lse): the first loses in the sum, the second in |lse|.
void SetWeightBounds(const RowContext& context, const RowErrors& e, std::vector<double>& bounds) {
  const Problem& p = context.problem;
  bounds.clear();
  if (!p.want_weights && p.want_scores != ScoreMode::kWeights) return;
  const Roundings& r = context.roundings;
  bounds.assign(static_cast<size_t>(p.kv_len), 0.0);
  const double relative = DivisionError(r, e, e.theta);
  const double least_sum = e.least_sum();
  for (size_t n = 0; n < e.visible; ++n) {
    const double w = e.weight[n];
    double error = 1 + relative;
    if (!e.saturated) {
      const double above = (e.grow[n] + relative + e.grow[n] * relative + e.shrink) / least_sum;
      const double below = e.sum_grow + std::min(e.grow[n], e.eta[n]) + relative;
      error = std::min(error, w * std::max(above, below));
    }
    bounds[static_cast<size_t>(e.key[n])] =
        StoredWeightBound(r, e, w, error + e.lost[n] + e.tiny_lost);
  }
}

// The least relative error that is forgiven in a sum over so many keys.
double LeastSumError(const Roundings& r, double keys) {
  return Gamma(r.Depth(keys) + kSumRoundings + r.input_roundings, r.u);
}

// The furthest that sum z v / sum z can get from o where each z may lie anywhere between w e^-eta and
// w e^eta: Dinkelbach's iteration, upwards for sign = 1. Stops as soon as a sweep does not improve:
// an iterate that rounds onto some v would drop that key and go back.
double Reach(const RowContext& context, const RowErrors& e, int64_t column, double sign) {
  double best = sign * context.Out(column);
  const double start = best;
  const size_t keys = e.key.size();
  thread_local std::vector<double> values, logs;
  values.resize(keys);
  logs.resize(keys);
  for (size_t n = 0; n < keys; ++n) values[n] = sign * context.Value(e.key[n], column);
  for (int sweep = 0; sweep < 50; ++sweep) {
    // Relative to the largest chosen here: ends of intervals may lie further apart than exp reaches.
    double top = -kInf;
    for (size_t n = 0; n < keys; ++n) {
      const bool up = values[n] > best;
      logs[n] = e.score[n] + (up ? e.eta[n] : -e.eta[n]);
      top = std::max(top, logs[n]);
    }
    double sum = 0, total = 0;
    for (size_t n = 0; n < keys; ++n) {
      const double z = std::exp(logs[n] - top);
      sum += z * values[n];
      total += z;
    }
    if (!(total > 0) || !(sum / total > best)) break;
    best = sum / total;
  }
  return best - start;
}

bool IsWide(const RowErrors& e) {
  if (e.max_eta <= kWideEta) return false;
  for (size_t n = 0; n < e.key.size(); ++n) {
    if (e.eta[n] > kWideEta && e.score[n] - e.lse + e.eta[n] > kNegligible) return true;
  }
  return false;
}

// The sums over the keys of what `Column` is made of, for all columns at once: each array has an
// element a column.
struct Columns {
  using Lanes = Eigen::ArrayXd;
  Lanes out, common, summed, rounded, lost, size, distance, largest;
  Lanes scratch;

  void Measure(const RowContext& context, const RowErrors& e);
  // Adds the n-th key, of these values.
  void AddKey(const RowErrors& e, size_t n, const double* value);

  // Column `d`, each sum over `z`, the least sum of weights, and held against what no column can
  // exceed.
  Column At(const RowContext& context, const RowErrors& e, int64_t d, double z, bool wide) const;
};

void Columns::Measure(const RowContext& context, const RowErrors& e) {
  const int64_t dim = context.problem.value_dim;
  out = context.OutRow();
  for (Lanes* lanes : {&common, &summed, &rounded, &lost, &size, &distance, &largest}) {
    lanes->setZero(dim);
  }
  for (size_t n = 0; n < e.key.size(); ++n) {
    AddKey(e, n, context.ValuesOf(e.key[n], scratch));
  }
}

// One loop, not one an array: the lanes are few, and ten loops would cost more than what is in them.
void Columns::AddKey(const RowErrors& e, size_t n, const double* value) {
  const double w = e.weight[n], grow = w * e.grow[n], high = w * (1 + e.grow[n]);
  const double high_phi = high * e.phi[n], lost_weight = e.lost[n];
  const double* mean = out.data();
  for (int64_t d = 0; d < out.size(); ++d) {
    const double absolute = std::abs(value[d]), away = std::abs(value[d] - mean[d]);
    const double either = std::max(absolute, away);
    common.data()[d] += grow * away;
    summed.data()[d] += high_phi * absolute;
    rounded.data()[d] += high * either;
    if (lost_weight > 0) lost.data()[d] += lost_weight * either;
    size.data()[d] += w * absolute;
    distance.data()[d] = std::max(distance.data()[d], away);
    largest.data()[d] = std::max(largest.data()[d], absolute);
  }
}

Column Columns::At(const RowContext& context, const RowErrors& e, int64_t d, double z,
                   bool wide) const {
  const auto least = [z](double sum, double cap) { return z > 0 ? std::min(sum / z, cap) : cap; };
  Column c;
  c.out = out(d);
  c.common = least(common(d), distance(d));
  c.summed = least(summed(d), e.max_phi * largest(d));
  c.rounded = least(rounded(d), 2 * largest(d));
  c.lost = lost(d) + e.tiny_lost * 2 * largest(d);
  c.size = size(d);
  if (wide) {
    const double reach = std::max(Reach(context, e, d, 1), Reach(context, e, d, -1));
    c.common = std::min(c.common, reach + 1e-12 * largest(d));
  }
  return c;
}

}  // namespace

void WorstBound(const RowContext& context, const RowErrors& errors, RowNumbers& bound) {
  const RowSums sums = SumsOf(errors);
  bound.lse = LseBound(context.roundings, errors, sums);
  SetWeightBounds(context, errors, bound.weights);
  const bool wide = IsWide(errors);
  thread_local Columns columns;
  columns.Measure(context, errors);
  const double z = errors.saturated ? 0 : errors.least_sum();
  bound.out.clear();
  bound.out.reserve(static_cast<size_t>(context.problem.value_dim));
  for (int64_t d = 0; d < context.problem.value_dim; ++d) {
    // A visible NaN in V: the bound stays 0.
    const bool due = !std::isnan(columns.out(d));
    bound.out.push_back(
        due ? OutBound(context.roundings, sums, columns.At(context, errors, d, z, wide)) : 0);
  }
}

// By Cauchy and Schwarz each weighted sum over the keys is at most a factor of the row times a root
// of the column's second moments: sum w (v - o)^2 = sum w v^2 - o^2, and max(|v|, |v - o|)^2 is at
// most the sum of both squares.
void CheapBound(const RowContext& context, const RowErrors& e, RowNumbers& bound) {
  const RowSums sums = SumsOf(e);
  bound.lse = LseBound(context.roundings, e, sums);
  SetWeightBounds(context, e, bound.weights);
  bound.out.clear();
  double grow = 0, phi = 0, high = 0;  // roots of sum w x^2
  for (size_t n = 0; n < e.key.size(); ++n) {
    const double w = e.weight[n], h = 1 + e.grow[n];
    grow += w * e.grow[n] * e.grow[n];
    phi += w * h * h * e.phi[n] * e.phi[n];
    high += w * h * h;
  }
  const double z = e.saturated ? 0 : e.least_sum();
  const double per_z = z > 0 ? 1 / z : kInf;
  grow = std::sqrt(grow) * per_z, phi = std::sqrt(phi) * per_z, high = std::sqrt(high) * per_z;
  const RowMajor& moments = context.head.SecondMoments();
  const KvFacts::Extremes& extremes = context.head.kv.ColumnExtremes();
  for (int64_t d = 0; d < context.problem.value_dim; ++d) {
    Column c;
    c.out = context.Out(d);
    const double o = c.out, second = moments(context.row.query, d);
    if (std::isnan(o)) {
      bound.out.push_back(0);
      continue;
    }
    double low = extremes.least(d), top = extremes.greatest(d);
    if (context.roundings.has_zero_values) {
      low = std::min(0.0, low * context.roundings.kept);
      top = std::max(0.0, top * context.roundings.kept);
    }
    const double largest = std::max(std::abs(low), std::abs(top));
    const auto least = [](double sum, double cap) { return sum < cap ? sum : cap; };
    const double distance = std::max(top - o, o - low);
    // The difference of squares cancels: what it may be off by is added.
    const double variance = std::max(0.0, second - o * o) + 1e-14 * (1 + e.keys) * second;
    // Squares of tiny values vanish, those of huge ones overflow.
    const bool holds = second < kLargestMoment;
    const double root =
        holds ? std::sqrt(second) * kRoundOff + std::min(largest, kRootFloor) : largest;
    const double deviation =
        holds ? std::sqrt(variance) + std::min(distance, kRootFloor) : distance;
    c.size = root;
    c.common = least(grow * deviation, distance);
    c.summed = least(phi * root, e.max_phi * largest);
    c.rounded = least(high * (root + deviation), 2 * largest);
    c.lost = e.sum_lost * 2 * largest;
    bound.out.push_back(OutBound(context.roundings, sums, c) * kRoundOff + e.underflow_out);
  }
}

RowFloor MakeFloor(const Roundings& r, double keys, double lse) {
  const double log_keys = std::log(keys), phi = LeastSumError(r, keys);
  if (!(phi < 1)) return {};  // W is infinite; nothing is claimed of it
  // m lies between lse - ln n and lse.
  const double max = std::max({0.0, lse - log_keys, -lse});
  const double merge = r.u * (kMergeRoundings * (max + 1) + kMergeLogRoundings * log_keys);
  const double eta = r.u * (kShiftRoundings * max + kLogRoundings * log_keys) +
                     kPlainExps * r.exp_error +
                     (r.has_zero_values ? 0 : r.cap_error);  // which a sink is spared
  const double sum = phi / (1 - phi);
  RowFloor floor;
  const double mean = (phi + r.u_numerator) / (1 - phi) + sum;
  floor.out_slope = mean + kDivideRoundings * r.u * (1 + mean) + merge;
  const double steps = r.tau < kTiny ? 1 : keys;
  floor.out_offset = (3 * steps + 9) * r.tau;
  floor.lse =
      eta + sum + r.u * (kMergeRoundings * max + kMergeLogRoundings * log_keys + std::abs(lse) + 8);
  floor.weight_slope = std::min(1.0, eta + sum + r.u_weight + r.u * kDivideRoundings + merge);
  floor.weight_offset = steps * r.tau;
  // Of the terms of P: rounding n weights, whose squares add up to at least o^2 / n, alone and in
  // groups; the merge.
  floor.probable_out_slope =
      kHoeffding * r.u_weight * std::sqrt(2 / keys) + merge - kMergeRoundings * r.u;
  floor.probable_weight_slope = r.u_weight + merge - kMergeRoundings * r.u;
  floor.store_roundoff = r.u_out;
  floor.store_lost = r.u_out > 0 ? r.out_lost : 0;
  return floor;
}

// All keys as bad as the worst can be, all columns as wide as the widest.
double CrudeBound(const RowContext& context, double keys, double log_max, const ColumnMaxima& v) {
  const Roundings& r = context.roundings;
  const HeadFacts& head = context.head;
  const int64_t i = context.row.query;
  const double a = std::max(
      r.abs_scale * head.query_norm(i) * head.kv.largest_key_norm + head.largest_bias, head.sink);
  const double reach = r.score_products + head.query_sum(i) + head.kv.largest_key_sum;
  const double score_error = (Gamma(r.score_roundings, r.u) + r.u_score + kSlack * r.u_query) * a +
                             r.score_lost + r.query_lost * head.kv.largest_key_sum +
                             r.score_underflow * reach + r.CapError(a) +
                             r.alibi_tilt * head.largest_alibi;
  const double largest = head.kv.largest_value * r.kept;
  const double tau =
      largest < 1e40 * kTiny ? r.value_underflow : std::max(kTiny, r.value_underflow);
  const double log_keys = std::log(keys), max = std::max(a, log_max);
  const double eta =
      score_error +
      r.u * (kShiftRoundings * max + kLogRoundings * log_keys + kRescaleRoundings * 2 * a) +
      (kPlainExps + keys) * r.exp_error;
  // Where no value differs from o, the errors of log-weights cannot matter: the caps of W hold.
  const bool is_flat = v.deviation == 0;
  if (!is_flat && !(eta < kWideEta)) return kInf;
  const double grow = is_flat ? 0 : eta * (1 + eta), z = is_flat ? 1 : 1 - eta;
  const double phi = Gamma(r.Depth(keys) + keys + kSumRoundings + r.input_roundings, r.u);
  const double lost = keys * (r.weight_lost + kLostRoundings * tau);
  Column c;
  c.out = v.out;
  c.common = grow * v.deviation / z;
  c.summed = phi * (1 + grow) * v.root / z;
  c.rounded = is_flat ? 2 * v.root : (1 + grow) * (v.root + v.deviation) / z;
  c.lost = lost * 2 * largest;
  c.size = v.root;
  return OutBound(r, {max, log_keys, phi * (1 + grow) / z, eta, lost, (4 * keys + 32) * tau}, c);
}

}  // namespace attest
