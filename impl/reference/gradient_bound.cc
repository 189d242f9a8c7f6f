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

double Size(Wide x) {
  return static_cast<double>(std::fabs(x));
}

// Of one pair: how far its probability, as the value's gradient sees it, and its score's gradient may
// be off, and how large the latter is.
struct PairError {
  double probability = 0;  // of kept * P, rounded as a weight is
  double score = 0;        // of dS, rounded likewise
};

// What an element's sum is made of.
struct Sum {
  double error = 0;   // of its terms, each times what it is multiplied by
  double size = 0;    // of |term|, its error included
  double scaled = 0;  // of what multiplies a q or k that may be scaled first, and lose by underflow
  double terms = 0;
};

// Sums for a tensor [a, b, rows, lanes].
struct Sums {
  explicit Sums(const Shape4& shape) : like(shape, 0.0), sums(like.values.size()) {}
  Sum& At(int64_t a, int64_t b, int64_t c, int64_t d) { return sums[like.Index(a, b, c, d)]; }
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
        bias_(LargestBias(inputs)),
        dq_(p.QShape()),
        dk_(p.KShape()),
        dv_(p.VShape()) {}

  Gradient Run(const Gradient& due) {
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t kv_head = 0; kv_head < p_.kv_heads; ++kv_head) RunKvHead(b, kv_head);
    }
    return {Finished(dq_, due.dq, r_.abs_scale), Finished(dk_, due.dk, r_.abs_scale),
            Finished(dv_, due.dv, 1)};
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
      if (!is_zero) GiveUp(row);
      return;
    }
    if (!IsDecided(row)) return GiveUp(row);
    MeasureGradientRow(p_, inputs_, reference_, semantics_, row, measured_);
    MeasureRow(p_, inputs_, reference_, r_, head, row, Condition::kExact, errors_);
    MeasureDelta(row);
    for (size_t n = 0; n < measured_.pairs.size(); ++n) AddPair(row, measured_.pairs[n], n);
  }

  bool IsDecided(const Row& row) {
    if (bound_.IsUnconstrained(row)) return false;
    if (!std::isfinite(reference_.lse.At(row.batch, row.head, row.query, 0))) return false;
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      if (!std::isfinite(inputs_.dout.At(row.batch, row.head, row.query, d)) ||
          !std::isfinite(reference_.out.At(row.batch, row.head, row.query, d))) {
        return false;
      }
    }
    return true;
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
    }
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
      const double high = HighWeight(n), off = DweightError(pair);
      by_sum += (high - pair.weight) * Size(pair.dweight) + high * off;
      size += high * (Size(pair.dweight) + off);
    }
    by_sum += Gamma(errors_.keys + errors_.max_rescales + kGradientRoundings, r_.u) * size +
              (errors_.keys + 2) * r_.tau;
    delta_error_ = std::max(by_out, by_sum);
  }

  // The largest that a kernel may make of P: from the score and the stored lse, or as the softmax.
  double HighWeight(size_t n) const {
    const GradientPair& pair = measured_.pairs[n];
    const double s = errors_.score[n], lse = errors_.lse;
    const double eta =
        errors_.eta[n] + lse_error_ + r_.exp_error +
        kRecomputeRoundings * r_.u * (std::abs(s) + std::abs(lse) + std::abs(s - lse));
    return pair.weight + pair.weight * std::expm1(eta) + r_.weight_underflow;
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
    const double high = HighWeight(n);
    const double kept = high * pair.kept * (1 + r_.factor_error);
    error.probability = kept + Rounded(kept) - pair.weight * pair.kept;

    const double both = DweightError(pair) + delta_error_;
    const double t = Size(pair.dweight - measured_.delta);
    const double t_error = both + r_.u * (Size(pair.dweight) + Size(measured_.delta) + 2 * both);
    const double slope = Size(CapSlope(pair.tanh));
    const double high_slope = std::min(1.0, slope + SlopeError(pair, n));
    const double high_score =
        high * (t + t_error) * high_slope * (1 + kPartRoundings * r_.u) + 3 * r_.tau;
    error.score = high_score + Rounded(high_score) - pair.weight * t * slope;
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
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      const double k = std::abs(inputs_.k.At(b, kv_head, j, d));
      const double q = std::abs(inputs_.q.At(b, h, i, d));
      for (const auto& [sum, factor] :
           {std::pair{&dq_.At(b, h, i, d), k}, {&dk_.At(b, kv_head, j, d), q}}) {
        Add(*sum, factor, dscore, error.score);
        sum->scaled += dscore + error.score;
      }
    }
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const double dout = std::abs(inputs_.dout.At(b, h, i, d));
      Add(dv_.At(b, kv_head, j, d), dout, weight, error.probability);
    }
  }

  // `scale` multiplies the whole sum, at some step or other.
  double Finish(const Sum& sum, double due, double scale) const {
    if (sum.terms == 0) return sum.error;  // exactly 0, or nothing claimed
    const double roundings = sum.terms + kGradientRoundings + 2 * r_.input_roundings;
    // Each query head's part may be stored as the output is before the parts are added.
    const double parts = p_.heads_per_kv_head() > 1 ? r_.u_out * sum.size : 0;
    const double whole = sum.error + (Gamma(roundings, r_.u) + 2 * r_.u_query) * sum.size + parts;
    const double scaled =
        scale * whole + kScaledRoundings * r_.u * (std::abs(due) + scale * whole) +
        std::max(1.0, scale) *
            ((3 * sum.terms + 8) * r_.tau + (r_.query_lost + r_.tau) * sum.scaled);
    const double high = std::abs(due) + scaled;
    if (2 * sum.size * std::max(1.0, scale) >= r_.range || high >= r_.out_range) return kInf;
    const double stored = scaled + r_.StoreError(high) + r_.tau;
    const double bound = stored * kRoundOff + r_.ReferenceError(due, scale * sum.size);
    return std::isnan(bound) ? kInf : bound;
  }

  Array Finished(Sums& sums, const Array& due, double scale) const {
    Array bounds = std::move(sums.like);
    for (size_t n = 0; n < sums.sums.size(); ++n) {
      bounds.values[n] = Finish(sums.sums[n], due.values[n], scale);
    }
    return bounds;
  }

  const Problem& p_;
  const Inputs& inputs_;
  const Reference& reference_;
  ErrorBound& bound_;
  const Semantics semantics_;
  const Roundings r_;
  const double bias_;
  Sums dq_, dk_, dv_;
  GradientRow measured_;
  RowErrors errors_;
  double lse_error_ = 0, delta_error_ = 0;  // of the row at hand
};

}  // namespace

Gradient BoundGradient(const Problem& problem, const Inputs& inputs, const Reference& reference,
                       ErrorBound& bound, const Contract& contract) {
  const Gradient due = ComputeGradient(problem, inputs, reference, contract.semantics);
  return GradientBounds(problem, inputs, reference, bound, contract).Run(due);
}

}  // namespace attest
