// The worst-case bound of the gradients: BOUND.md, "Gradients".
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "impl/reference/bound_row.h"
#include "impl/reference/gradient.h"
#include "impl/reference/gradient_row.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kRoundOff = 1 + 1e-6;     // of these formulas themselves, in double
constexpr double kRecomputeRoundings = 6;  // of s - lse, in units of u |s|, u |lse| and u |s - lse|
constexpr double kGradientRoundings = 4;   // of a sum of gradients, besides one an addend
constexpr double kScaledRoundings = 3;     // of a gradient: the scale, twice, and the store
constexpr double kSlopeRoundings = 4;      // of 1 - tanh^2
constexpr double kPartRoundings = 3;       // of P (dP - D): two products and a difference
constexpr double kSinkRoundings = 2;       // of P D of a sink: the product, and what P is kept as

double Size(Wide x) {
  return static_cast<double>(std::fabs(x));
}

// Of one pair: how far its probability, as the value's gradient sees it, and its score's gradient may
// be off, and how large the latter is.
struct PairError {
  double probability = 0;  // of kept * P, rounded as a weight is
  double score = 0;        // of dS, rounded likewise
  double bias = 0;         // of the same by the bias
};

// What an element's sum is made of.
struct Sum {
  double error = 0;   // of its terms, each times what it is multiplied by
  double size = 0;    // of |term|, its error included
  double scaled = 0;  // of what multiplies a q or k that may be scaled first, and lose by underflow
  double factors = 0;  // of what multiplies a dS that may be scaled first, and lose by underflow
  double terms = 0;
};

// What becomes of a tensor's sums.
struct Ending {
  const Roundings& stored;  // those of the type it is stored in
  double scale;             // multiplies each sum, at some step or other
  double of_terms;          // relative error of the terms, besides their own
};

// The roundings of the same arithmetic with outputs of `dtype`.
Roundings RoundingsTo(Problem p, DType dtype, const Contract& contract) {
  const NumericsProfile& profile = contract.NumericsOf(p.dtype);
  p.dtype = dtype;
  return Roundings(p, profile);
}

// Sums for a tensor [a, b, rows, lanes].
struct Sums {
  explicit Sums(const Shape4& shape) : like(shape, 0.0), sums(like.values.size()) {}
  Sum& At(int64_t a, int64_t b, int64_t c, int64_t d) { return sums[like.Index(a, b, c, d)]; }
  Sum* Line(int64_t a, int64_t b, int64_t c) { return sums.data() + like.Index(a, b, c, 0); }
  Array like;
  std::vector<Sum> sums;
};

class GradientBounds {
 public:
  GradientBounds(const Problem& p, const Inputs& inputs, const Reference& reference,
                 ErrorBound& bound, const Contract& contract)
      : p_(p),
        inputs_(inputs),
        reference_(reference),
        bound_(bound),
        semantics_(contract.semantics),
        r_(p, contract.NumericsOf(p.dtype)),
        bias_type_(RoundingsTo(p, p.BiasDType(), contract)),
        sink_type_(RoundingsTo(p, p.LseDType(), contract)),
        bias_(LargestBias(inputs)),
        dq_(p.QShape()),
        dk_(p.KShape()),
        dv_(p.VShape()),
        dbias_(BiasGradientShape(p)),
        dsink_(SinkGradientShape(p)) {}

  Gradient Run(const Gradient& due) {
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t kv_head = 0; kv_head < p_.kv_heads; ++kv_head) RunKvHead(b, kv_head);
    }
    // The part of each query head, or of what shares a bias, may be stored as an output before the
    // parts are added.
    const bool is_shared = p_.bias && p_.bias->shape != p_.WeightsShape();
    const double of_heads = 2 * r_.u_query + (p_.heads_per_kv_head() > 1 ? r_.u_out : 0);
    const Ending scaled{r_, r_.abs_scale, of_heads}, values{r_, 1, of_heads};
    const Ending bias{bias_type_, 1, is_shared ? r_.u_out : 0}, sink{sink_type_, 1, 0};
    return {Finished(dq_, due.dq, scaled), Finished(dk_, due.dk, scaled),
            Finished(dv_, due.dv, values), Finished(dbias_, due.dbias, bias),
            Finished(dsink_, due.dsink, sink)};
  }

 private:
  void RunKvHead(int64_t b, int64_t kv_head) {
    const KvFacts kv(inputs_, b, kv_head);
    const int64_t ratio = p_.heads_per_kv_head();
    for (int64_t h = kv_head * ratio; h < (kv_head + 1) * ratio; ++h) {
      HeadFacts head(p_, inputs_, reference_, bias_, kv, b, h);
      for (int64_t i = 0; i < p_.q_len; ++i) RunRow(head, {b, h, i});
    }
  }

  void RunRow(HeadFacts& head, const Row& row) {
    // What an empty row's own rule makes of its gradients nobody has said.
    if (IsPaddedQuery(p_, row)) return;
    if (SeesNoKey(p_, row)) {
      const bool is_zero = !IsEmptyRow(p_, row) || semantics_.empty_row == EmptyRow::kZero;
      // Hidden poison that the forward pass may let into its out comes back from there.
      if (!is_zero || bound_.IsUnconstrained(row)) GiveUp(row);
      // D of such a row is 0, unless infinity is multiplied by it.
      if (p_.sinks && !IsDoutFinite(row)) DsinkOf(row).error = kInf;
      return;
    }
    if (!IsDecided(row)) return GiveUp(row);
    MeasureGradientRow(p_, inputs_, reference_, semantics_, row, measured_);
    MeasureRow(p_, inputs_, reference_, r_, head, row, Condition::kExact, errors_);
    MeasureDelta(row);
    for (size_t n = 0; n < measured_.pairs.size(); ++n) AddPair(row, measured_.pairs[n], n);
    if (p_.sinks) AddSink(row);
  }

  Sum& DsinkOf(const Row& row) { return dsink_.At(0, row.head, 0, 0); }
  Sum& DbiasOf(const Row& row, int64_t key) {
    const Shape4 at = BiasIndex(p_, row, key);
    return dbias_.At(at[0], at[1], at[2], at[3]);
  }

  bool IsDoutFinite(const Row& row) const {
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (!std::isfinite(inputs_.dout.At(row.batch, row.head, row.query, d))) return false;
    }
    return true;
  }

  bool IsDecided(const Row& row) {
    if (bound_.IsUnconstrained(row)) return false;
    if (!std::isfinite(reference_.lse.At(row.batch, row.head, row.query, 0))) return false;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (!std::isfinite(reference_.out.At(row.batch, row.head, row.query, d))) return false;
    }
    return IsDoutFinite(row);
  }

  // Nothing is claimed of the row, nor of any key that its kernel walks over.
  void GiveUp(const Row& row) {
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      dq_.At(row.batch, row.head, row.query, d).error = kInf;
    }
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      for (int64_t d = 0; d < p_.head_dim; ++d) dk_.At(row.batch, kv_head, j, d).error = kInf;
      for (int64_t d = 0; d < p_.value_dim; ++d) dv_.At(row.batch, kv_head, j, d).error = kInf;
      if (p_.bias) DbiasOf(row, j).error = kInf;
    }
    if (p_.sinks) DsinkOf(row).error = kInf;
  }

  // Of what came from one more product: value_dim products and sums, dropout's factor.
  double ProductRoundings() const {
    return static_cast<double>(p_.value_dim) + 2 + 2 * r_.input_roundings;
  }

  double DweightError(const GradientPair& pair) const {
    const double gamma = Gamma(ProductRoundings(), r_.u);
    return (gamma + r_.factor_error * (1 + gamma)) * pair.reach +
           (static_cast<double>(p_.value_dim) + 2) * r_.tau * std::max(1.0, pair.kept);
  }

  // How far D may be off: as dout . out, with out as the forward has stored it, or as the sum of P dP.
  void MeasureDelta(const Row& row) {
    const RowNumbers& worst = bound_.WorstOf(row);
    lse_error_ = worst.lse;
    const double gamma = Gamma(ProductRoundings(), r_.u);
    double by_out = (static_cast<double>(p_.value_dim) + 2) * r_.tau;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const double dout = std::abs(inputs_.dout.At(row.batch, row.head, row.query, d));
      const double out = std::abs(reference_.out.At(row.batch, row.head, row.query, d));
      const double off = worst.out[static_cast<size_t>(d)];
      by_out += dout * (off * (1 + gamma) + gamma * out);
    }
    double by_sum = 0, size = 0;
    for (size_t n = 0; n < measured_.pairs.size(); ++n) {
      const GradientPair& pair = measured_.pairs[n];
      const double high = HighWeight(pair.weight, n), off = DweightError(pair);
      by_sum += (high - pair.weight) * Size(pair.dweight) + high * off;
      size += high * (Size(pair.dweight) + off);
    }
    by_sum += Gamma(errors_.keys + errors_.max_rescales + kGradientRoundings, r_.u) * size +
              (errors_.keys + 2) * r_.tau;
    delta_error_ = std::max(by_out, by_sum);
  }

  // The largest that a kernel may make of P: from the score and the stored lse, or as the softmax.
  double HighWeight(double weight, size_t n) const {
    const double s = errors_.score[n], lse = errors_.lse;
    const double eta =
        errors_.eta[n] + lse_error_ + r_.exp_error +
        kRecomputeRoundings * r_.u * (std::abs(s) + std::abs(lse) + std::abs(s - lse));
    return weight + weight * std::expm1(eta) + r_.weight_underflow;
  }

  // What rounding to the type of weights may take from a number of at most this size.
  double Rounded(double size) const {
    return r_.u_weight == 0 ? 0 : std::min(size, std::max(r_.u_weight * size, r_.weight_lost));
  }

  // How far the slope of the softcap may be off: tanh errs as the score behind it does.
  double SlopeError(const GradientPair& pair, size_t n) const {
    if (p_.softcap == 0) return 0;
    const double off =
        kSlack * errors_.score_error[n] / p_.softcap + 3 * r_.exp_error + kSlopeRoundings * r_.u;
    return 2 * Size(pair.tanh) * off + off * off + kSlopeRoundings * r_.u;
  }

  PairError ErrorOf(const GradientPair& pair, size_t n) const {
    PairError error;
    const double high = HighWeight(pair.weight, n);
    const double kept = high * pair.kept * (1 + r_.factor_error);
    error.probability = kept + Rounded(kept) - pair.weight * pair.kept;

    const double both = DweightError(pair) + delta_error_;
    const double t = Size(pair.dweight - measured_.delta);
    const double t_error = both + r_.u * (Size(pair.dweight) + Size(measured_.delta) + 2 * both);
    const auto times = [&](double slope, double slope_error) {
      const double high_slope = std::min(1.0, slope + slope_error);
      const double most =
          high * (t + t_error) * high_slope * (1 + kPartRoundings * r_.u) + 3 * r_.tau;
      return most + Rounded(most) - pair.weight * t * slope;
    };
    error.score = times(Size(pair.slope), SlopeError(pair, n));
    error.bias = pair.caps_bias ? error.score : times(1, 0);
    return error;
  }

  static void Add(Sum& sum, double factor, double term, double error) {
    sum.error += factor * error;
    sum.size += factor * (term + error);
    sum.terms += 1;
  }

  void AddPair(const Row& row, const GradientPair& pair, size_t n) {
    const auto [b, h, i] = row;
    const int64_t kv_head = h / p_.heads_per_kv_head(), j = pair.key;
    const PairError error = ErrorOf(pair, n);
    const double dscore = Size(pair.dscore), weight = pair.weight * pair.kept;
    // What dS is rounded to may leave its range; then nothing is claimed.
    if (!(2 * (dscore + error.score) < r_.weight_range)) return GiveUp(row);
    const double *k = LineOf(inputs_.k, b, kv_head, j), *q = LineOf(inputs_.q, b, h, i);
    Sum *dk = dk_.Line(b, kv_head, j), *dq = dq_.Line(b, h, i);
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      Add(dq[d], std::abs(k[d]), dscore, error.score);
      Add(dk[d], std::abs(q[d]), dscore, error.score);
      dq[d].scaled += dscore + error.score;
      dk[d].scaled += dscore + error.score;
      dq[d].factors += std::abs(k[d]);
      dk[d].factors += std::abs(q[d]);
    }
    const double* dout = LineOf(inputs_.dout, b, h, i);
    Sum* dv = dv_.Line(b, kv_head, j);
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      Add(dv[d], std::abs(dout[d]), weight, error.probability);
    }
    if (p_.bias) Add(DbiasOf(row, j), 1, Size(pair.dbias), error.bias);
  }

  // The sink stands behind the keys.
  void AddSink(const Row& row) {
    const double high = HighWeight(measured_.sink_weight, errors_.visible);
    const double most =
        high * (Size(measured_.delta) + delta_error_) * (1 + kSinkRoundings * r_.u) + 2 * r_.tau;
    const double term = Size(measured_.dsink);
    Add(DsinkOf(row), 1, term, most - term);
  }

  double Finish(const Sum& sum, double due, const Ending& ending) const {
    if (sum.terms == 0) return sum.error;  // exactly 0, or nothing claimed
    const double roundings = sum.terms + kGradientRoundings + 2 * r_.input_roundings;
    const double scale = ending.scale;
    const double whole = sum.error + (Gamma(roundings, r_.u) + ending.of_terms) * sum.size;
    const double scaled =
        scale * whole + kScaledRoundings * r_.u * (std::abs(due) + scale * whole) +
        std::max(1.0, scale) *
            ((3 * sum.terms + 8) * r_.tau + (r_.query_lost + r_.tau) * sum.scaled) +
        r_.tau * sum.factors;
    const double high = std::abs(due) + scaled;
    if (2 * sum.size * std::max(1.0, scale) >= r_.range || high >= ending.stored.out_range) {
      return kInf;
    }
    const double stored = scaled + ending.stored.StoreError(high) + r_.tau;
    const double bound = stored * kRoundOff + r_.ReferenceError(due, scale * sum.size);
    return std::isnan(bound) ? kInf : bound;
  }

  Array Finished(Sums& sums, const Array& due, const Ending& ending) const {
    Array bounds = std::move(sums.like);
    for (size_t n = 0; n < sums.sums.size(); ++n) {
      bounds.values[n] = Finish(sums.sums[n], due.values[n], ending);
    }
    return bounds;
  }

  const Problem& p_;
  const Inputs& inputs_;
  const Reference& reference_;
  ErrorBound& bound_;
  const Semantics semantics_;
  const Roundings r_;
  const Roundings bias_type_, sink_type_;  // of what dbias and dsink are stored in
  const double bias_;
  Sums dq_, dk_, dv_, dbias_, dsink_;
  GradientRow measured_;
  RowErrors errors_;
  double lse_error_ = 0, delta_error_ = 0;  // of the row at hand
};

}  // namespace

Gradient BoundGradient(const Problem& problem, const Inputs& inputs, const Reference& reference,
                       const Gradient& due, ErrorBound& bound, const Contract& contract) {
  return GradientBounds(problem, inputs, reference, bound, contract).Run(due);
}

}  // namespace attest
