#include "impl/reference/extended_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "impl/attention/visibility.h"
#include "impl/reference/double_double.h"
#include "impl/reference/reference_internal.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// A matrix whose elements are split once and multiplied often.
class SplitMatrix {
 public:
  // A part of a row, for loops that vectorise.
  struct Line {
    const double* whole;  // high + low
    const double* high;
    const double* low;
  };

  // The [len, dim] plane of `array` at (b, h), or its transpose.
  SplitMatrix(const Array& array, int64_t b, int64_t h, bool transposed)
      : columns_(transposed ? array.shape[2] : array.shape[3]) {
    const int64_t rows = transposed ? array.shape[3] : array.shape[2];
    for (std::vector<double>* part : {&wholes_, &highs_, &lows_}) {
      part->reserve(static_cast<size_t>(rows * columns_));
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns_; ++j) {
        Append(transposed ? array.At(b, h, j, i) : array.At(b, h, i, j));
      }
    }
  }

  Line LineAt(int64_t row, int64_t first_column) const {
    const int64_t at = row * columns_ + first_column;
    return {wholes_.data() + at, highs_.data() + at, lows_.data() + at};
  }

 private:
  void Append(double value) {
    const Halves halves = SplitInHalves(value);
    wholes_.push_back(value);
    highs_.push_back(halves.high);
    lows_.push_back(halves.low);
  }

  int64_t columns_;
  std::vector<double> wholes_, highs_, lows_;
};

// Many sums of products at once. The products of high halves are exact, and what adding them up
// loses is kept (compensated summation: Ogita, Rump, Oishi, "Accurate sum and dot product", 2005)
// in `rests_`, together with the other partial products, which are 2^-26 as large. Only there are
// roundings: a few of 2^-53 for each of n terms, so that a sum is wrong by at most (n + 3) * 2^-78 of
// the sum of its terms' magnitudes.
class CompensatedSums {
 public:
  void Reset(size_t count) {
    sums_.assign(count, 0);
    rests_.assign(count, 0);
  }

  // Adds factor * line[i] to every sum i.
  void AddProducts(const DoubleDouble& factor, const SplitMatrix::Line& line) {
    const Halves halves = SplitInHalves(factor.high);
    Accumulate(halves.high, halves.low + factor.low, line.whole, line.high, line.low, sums_.size(),
               sums_.data(), rests_.data());
  }

  DoubleDouble operator[](size_t i) const { return TwoSum(sums_[i], rests_[i]); }

 private:
  static void Accumulate(double factor_high, double factor_low, const double* __restrict whole,
                         const double* __restrict high, const double* __restrict low, size_t count,
                         double* __restrict sums, double* __restrict rests) {
    for (size_t i = 0; i < count; ++i) {
      const DoubleDouble sum = TwoSum(sums[i], factor_high * high[i]);
      sums[i] = sum.high;
      rests[i] += sum.low + (factor_high * low[i] + factor_low * whole[i]);
    }
  }

  std::vector<double> sums_, rests_;
};

void CopyRow(const Array& from, const Row& row, Array& to) {
  const auto at = static_cast<std::ptrdiff_t>(from.Index(row.batch, row.head, row.query, 0));
  std::copy_n(from.values.begin() + at, from.shape[3], to.values.begin() + at);
}

// One (batch item, query head). A row is computed into `result`, or, where anything in it turns out
// not to be finite, left for the double reference: Compute says which.
class ExtendedHead {
 public:
  ExtendedHead(const Problem& p, const Inputs& inputs, const Semantics& semantics, int64_t b,
               int64_t h, Reference& result)
      : p_(p),
        inputs_(inputs),
        semantics_(semantics),
        steps_(p, inputs, semantics),
        sink_(SinkOf(p, h)),
        keys_(inputs.k, b, h / p.heads_per_kv_head(), /*transposed=*/true),
        values_(inputs.v, b, h / p.heads_per_kv_head(), /*transposed=*/false),
        result_(result) {
    if (p.dropout) kept_ = DoubleDouble{1, 0} / TwoSum(1, -p.dropout->probability);
  }

  bool Compute(const Row& row) {
    KeepEarlyScores(row);
    ListVisibleKeys(p_, row, visible_);
    if (visible_.empty() && !sink_) {
      if (!ComputeEmptyRow(row)) return false;
    } else if (!ComputeVisible(row)) {
      return false;
    }
    KeepLateScores(row);
    return true;
  }

 private:
  bool ComputeVisible(const Row& row) {
    if (!Score(row, /*biased=*/true)) return false;
    for (size_t n = 0; n < visible_.size(); ++n) {
      result_.scores.At(row.batch, row.head, row.query, visible_[n]) = scores_[n].high;
    }
    const DoubleDouble max = Exponentiate(sink_);
    const double lse = (Log(total_) + max).high;
    if (!std::isfinite(lse)) return false;
    result_.lse.At(row.batch, row.head, row.query, 0) = lse;
    const DoubleDouble share = DoubleDouble{1, 0} / total_;
    for (size_t n = 0; n < visible_.size(); ++n) {
      result_.weights.At(row.batch, row.head, row.query, visible_[n]) = (scores_[n] * share).high;
    }
    return AverageValues(row);
  }

  bool ComputeEmptyRow(const Row& row) {
    result_.lse.At(row.batch, row.head, row.query, 0) = LseOfEmptyRow(semantics_.lse_empty_row);
    if (const auto constant = ConstantOfEmptyRow(semantics_.empty_row, p_)) {
      for (int64_t d = 0; d < p_.value_dim; ++d) {
        result_.out.At(row.batch, row.head, row.query, d) = *constant;
      }
      return true;
    }
    SeeEveryKey();
    if (semantics_.empty_row == EmptyRow::kMeanValue) {
      scores_.assign(visible_.size(), {0, 0});
    } else if (!Score(row, /*biased=*/false)) {
      return false;
    }
    Exponentiate(std::nullopt);
    return AverageValues(row);
  }

  void SeeEveryKey() {
    visible_.resize(static_cast<size_t>(p_.kv_len));
    std::iota(visible_.begin(), visible_.end(), 0);
  }

  // Sets scores_ to scale * q.k, one a visible key.
  void Multiply(const Row& row) {
    scores_.clear();
    if (visible_.empty()) return;
    const int64_t first = visible_.front();
    sums_.Reset(static_cast<size_t>(visible_.back() + 1 - first));
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      const double q = inputs_.q.At(row.batch, row.head, row.query, d);
      sums_.AddProducts({q, 0}, keys_.LineAt(d, first));
    }
    const double scale = p_.EffectiveScale();
    for (const int64_t j : visible_) {
      scores_.push_back(sums_[static_cast<size_t>(j - first)] * scale);
    }
  }

  // Sets scores_ to what is exponentiated. False if any is not finite.
  bool Score(const Row& row, bool biased) {
    Multiply(row);
    for (size_t n = 0; n < visible_.size(); ++n) {
      if (!std::isfinite(scores_[n].high)) return false;
      scores_[n] = steps_.Final(row, visible_[n], scores_[n], biased);
      if (!std::isfinite(scores_[n].high)) return false;
    }
    return true;
  }

  // The largest score, its low part included: of huge scores that alone is more than exp can take.
  DoubleDouble Largest(std::optional<double> sink) const {
    DoubleDouble max{sink.value_or(-kInf), 0};
    for (const DoubleDouble& score : scores_) {
      const bool is_larger =
          score.high > max.high || (score.high == max.high && score.low > max.low);
      if (is_larger) max = score;
    }
    return max;
  }

  // Turns each score into exp(score - max) and sets total_ to their sum, the sink's included. Returns
  // max.
  DoubleDouble Exponentiate(std::optional<double> sink) {
    const DoubleDouble max = Largest(sink), down{-max.high, -max.low};
    DoubleDouble total;  // compensated: what each addition loses is kept in the low part
    if (sink) total = Exp(down + *sink);
    for (DoubleDouble& score : scores_) {
      score = Exp(score + down);
      const DoubleDouble sum = TwoSum(total.high, score.high);
      total = {sum.high, total.low + (sum.low + score.low)};
    }
    total_ = TwoSum(total.high, total.low);
    return max;
  }

  // What is left of a weight after dropout.
  DoubleDouble Dropped(const Row& row, int64_t key, const DoubleDouble& weight) const {
    if (!p_.dropout) return weight;
    return weight *
           (p_.dropout->keep.At(row.batch, row.head, row.query, key) ? kept_ : DoubleDouble{});
  }

  // Sets the row's output to the mean of the visible values, weighted by scores_. False if any lane
  // is not finite.
  bool AverageValues(const Row& row) {
    sums_.Reset(static_cast<size_t>(p_.value_dim));
    for (size_t n = 0; n < visible_.size(); ++n) {
      sums_.AddProducts(Dropped(row, visible_[n], scores_[n]), values_.LineAt(visible_[n], 0));
    }
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      const double mean = (sums_[static_cast<size_t>(d)] / total_).high;
      if (!std::isfinite(mean)) return false;
      result_.out.At(row.batch, row.head, row.query, d) = mean;
    }
    return true;
  }

  // The asked scores of every key, hidden ones too. What is not finite is as in double, and says nothing
  // of the rest of the row.
  void KeepEarlyScores(const Row& row) {
    if (p_.want_scores != ScoreMode::kRaw && p_.want_scores != ScoreMode::kCapped) return;
    const bool capped = p_.want_scores == ScoreMode::kCapped;
    SeeEveryKey();
    Multiply(row);
    for (size_t n = 0; n < visible_.size(); ++n) {
      const int64_t j = visible_[n];
      const DoubleDouble score = capped ? steps_.Capped(row, j, scores_[n]) : scores_[n];
      result_.asked_scores.At(row.batch, row.head, row.query, j) =
          std::isfinite(score.high) ? score.high : ScoreInDouble(row, j, capped);
    }
  }

  double ScoreInDouble(const Row& row, int64_t key, bool capped) const {
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    double sum = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      sum += inputs_.q.At(row.batch, row.head, row.query, d) *
             inputs_.k.At(row.batch, kv_head, key, d);
    }
    sum *= p_.EffectiveScale();
    return capped ? ScoreSteps<double>(p_, inputs_, semantics_).Capped(row, key, sum) : sum;
  }

  void KeepLateScores(const Row& row) {
    if (p_.want_scores == ScoreMode::kBiased) CopyRow(result_.scores, row, result_.asked_scores);
    if (p_.want_scores == ScoreMode::kWeights) CopyRow(result_.weights, row, result_.asked_scores);
  }

  const Problem& p_;
  const Inputs& inputs_;
  const Semantics& semantics_;
  const ScoreSteps<DoubleDouble> steps_;
  const std::optional<double> sink_;
  DoubleDouble kept_{1, 0};   // what a weight that is not dropped is multiplied by
  const SplitMatrix keys_;    // [head_dim, kv_len]
  const SplitMatrix values_;  // [kv_len, value_dim]
  Reference& result_;

  // Of the row at hand.
  std::vector<int64_t> visible_;
  std::vector<DoubleDouble> scores_;  // one a visible key; later exp(score - max)
  DoubleDouble total_;
  CompensatedSums sums_;
};

}  // namespace

Reference ComputeExtendedReference(const Problem& p, const Inputs& inputs,
                                   const Semantics& semantics) {
  Reference result{Array(p.OutShape()),
                   Array(p.LseShape()),
                   Array(p.WeightsShape()),
                   Array(p.WeightsShape(), -kInf),
                   {}};
  if (p.want_scores) result.asked_scores = Array(p.WeightsShape());
  std::optional<Reference> plain;  // double, where some row is not finite
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.q_heads; ++h) {
      ExtendedHead head(p, inputs, semantics, b, h, result);
      for (int64_t i = 0; i < p.q_len; ++i) {
        const Row row{b, h, i};
        if (head.Compute(row)) continue;
        if (!plain) plain = ComputeReference(p, inputs, semantics);
        for (Array Reference::*tensor : {&Reference::out, &Reference::lse, &Reference::weights,
                                         &Reference::scores, &Reference::asked_scores}) {
          if (((*plain).*tensor).empty()) continue;
          CopyRow((*plain).*tensor, row, result.*tensor);
        }
      }
    }
  }
  return result;
}

bool NeedsExtendedReference(const NumericsProfile& profile) {
  // On sums of n terms the double reference errs by up to n * 2^-53, as much as 2^-13 of the
  // n * 2^-40 that a kernel at the threshold is allowed: nothing. No type lies between f32 and f64.
  return AccumulationRoundoff(profile) < 0x1p-40;
}

Reference ReferenceFor(const Problem& problem, const Inputs& inputs, const Contract& contract) {
  return NeedsExtendedReference(contract.NumericsOf(problem.dtype))
             ? ComputeExtendedReference(problem, inputs, contract.semantics)
             : ComputeReference(problem, inputs, contract.semantics);
}

}  // namespace attest
