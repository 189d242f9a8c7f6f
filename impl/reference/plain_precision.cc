#include "impl/reference/plain_precision.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "impl/attention/visibility.h"

namespace attest {
namespace {

// The accumulate types: the type that operations are done in, and what rounds their results. Operations
// on two numbers of f16 or bf16, done in float and rounded again, come out as if rounded once: float
// has more than twice their bits (Figueroa, "When is double rounding innocuous?", 1995).
struct InF64 {
  using Real = double;
  static Real Round(Real x) { return x; }
};
struct InF32 {
  using Real = float;
  static Real Round(Real x) { return x; }
};
template <DType kType>
struct InNarrow {
  using Real = float;
  static Real Round(Real x) { return static_cast<Real>(RoundTo(kType, static_cast<double>(x))); }
};

template <typename Arithmetic>
class PlainAttention {
 public:
  PlainAttention(const Problem& p, const Inputs& inputs, const NumericsProfile& profile,
                 SoftcapOrder order)
      : p_(p),
        inputs_(inputs),
        profile_(profile),
        order_(order),
        scale_(Given(p.EffectiveScale())),
        kept_(p.dropout ? Sum(1 / Sum(1 - Given(p.dropout->probability))) : 1) {}

  void ComputeRow(const Row& row, Array& out) {
    ListVisibleKeys(p_, row, keys_);
    if (keys_.empty()) return;
    Score(row);
    Weigh(row);
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      Real sum = 0;
      for (size_t n = 0; n < keys_.size(); ++n) {
        sum = AddProduct(sum, row_[n], inputs_.v.At(row.batch, kv_head, keys_[n], d));
      }
      out.At(row.batch, row.head, row.query, d) = RoundTo(p_.dtype, static_cast<double>(sum));
    }
  }

 private:
  using Real = typename Arithmetic::Real;

  static Real Sum(Real x) { return Arithmetic::Round(x); }
  static Real Given(double x) { return Sum(static_cast<Real>(x)); }
  static Real AddProduct(Real sum, Real a, double b) { return Sum(sum + Sum(a * Given(b))); }
  static Real Stored(DType type, Real x) {
    return static_cast<Real>(RoundTo(type, static_cast<double>(x)));
  }

  // Sets row_ to the scores of the visible keys, as they are stored.
  void Score(const Row& row) {
    const bool scales_query = profile_.scale_placement == ScalePlacement::kStorage;
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    query_.clear();
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      const Real q = Given(inputs_.q.At(row.batch, row.head, row.query, d));
      query_.push_back(scales_query ? Stored(p_.dtype, Sum(q * scale_)) : q);
    }
    row_.clear();
    for (const int64_t j : keys_) {
      Real score = 0;
      for (int64_t d = 0; d < p_.head_dim; ++d) {
        score = AddProduct(score, query_[static_cast<size_t>(d)],
                           inputs_.k.At(row.batch, kv_head, j, d));
      }
      if (!scales_query) score = Sum(score * scale_);
      row_.push_back(Stored(profile_.scores, Finish(row, j, score)));
    }
  }

  // From scale * q.k to what is exponentiated.
  Real Finish(const Row& row, int64_t key, Real score) const {
    if (order_ == SoftcapOrder::kBeforeBias) score = Cap(score);
    if (p_.bias) {
      score = Sum(score + Given(inputs_.bias.Broadcast(row.batch, row.head, row.query, key)));
    }
    if (p_.alibi_slopes) {
      const int64_t ahead = key - row.query - p_.DiagonalOffset(row.batch);
      const Real slope = Given((*p_.alibi_slopes)[static_cast<size_t>(row.head)]);
      score = Sum(score - Sum(slope * Given(static_cast<double>(ahead < 0 ? -ahead : ahead))));
    }
    return order_ == SoftcapOrder::kAfterBias ? Cap(score) : score;
  }

  Real Cap(Real score) const {
    if (p_.softcap == 0) return score;
    const Real cap = Given(p_.softcap);
    return Sum(cap * Sum(std::tanh(Sum(score / cap))));
  }

  // Turns the scores in row_ into normalised weights, as they are stored.
  void Weigh(const Row& row) {
    Real max = *std::max_element(row_.begin(), row_.end()), sum = 0;
    if (p_.sinks) {
      const Real sink = Given((*p_.sinks)[static_cast<size_t>(row.head)]);
      max = std::max(max, sink);
      sum = Sum(std::exp(Sum(sink - max)));
    }
    for (Real& x : row_) {
      x = Sum(std::exp(Sum(x - max)));
      sum = Sum(sum + x);
    }
    for (size_t n = 0; n < keys_.size(); ++n) {
      row_[n] = Stored(profile_.probability, Drop(row, keys_[n], Sum(row_[n] / sum)));
    }
  }

  Real Drop(const Row& row, int64_t key, Real weight) const {
    if (!p_.dropout) return weight;
    const bool is_kept = p_.dropout->keep.At(row.batch, row.head, row.query, key);
    return is_kept ? Sum(weight * kept_) : 0;
  }

  const Problem& p_;
  const Inputs& inputs_;
  const NumericsProfile& profile_;
  const SoftcapOrder order_;
  const Real scale_, kept_;
  std::vector<int64_t> keys_;  // visible to the row at hand
  std::vector<Real> query_;    // [head_dim]
  std::vector<Real> row_;      // one a visible key: its score, later its weight
};

template <typename Arithmetic>
Array Compute(const Problem& p, const Inputs& inputs, const NumericsProfile& profile,
              SoftcapOrder order) {
  Array out(p.OutShape());
  PlainAttention<Arithmetic> attention(p, inputs, profile, order);
  ForEachRow(p, [&](const Row& row) { attention.ComputeRow(row, out); });
  return out;
}

}  // namespace

Array ComputePlainPrecision(const Problem& problem, const Inputs& inputs,
                            const NumericsProfile& profile, SoftcapOrder order) {
  switch (profile.accumulate) {
    case DType::kF64:
      return Compute<InF64>(problem, inputs, profile, order);
    case DType::kF16:
      return Compute<InNarrow<DType::kF16>>(problem, inputs, profile, order);
    case DType::kBF16:
      return Compute<InNarrow<DType::kBF16>>(problem, inputs, profile, order);
    default:
      return Compute<InF32>(problem, inputs, profile, order);
  }
}

}  // namespace attest
