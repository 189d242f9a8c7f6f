#include "impl/reference/reference.h"

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include <Eigen/Core>

#include "impl/attention/visibility.h"
#include "impl/reference/reference_internal.h"

namespace attest {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstPlane = Eigen::Map<const Matrix>;
using Plane = Eigen::Map<Matrix>;

constexpr double kInf = std::numeric_limits<double>::infinity();

// The [len, dim] matrix of one batch item and head.
ConstPlane PlaneOf(const Array& array, int64_t b, int64_t h) {
  return {array.values.data() + (b * array.shape[1] + h) * array.shape[2] * array.shape[3],
          array.shape[2], array.shape[3]};
}
Plane PlaneOf(Array& array, int64_t b, int64_t h) {
  return {array.values.data() + (b * array.shape[1] + h) * array.shape[2] * array.shape[3],
          array.shape[2], array.shape[3]};
}

struct RowSum {
  double max = -kInf;  // of the visible scores and the sink
  double sum = 0;      // of exp(score - max) over the visible keys and the sink
};

// Fills the row's weights, which are 0, from its scores. A NaN score makes every weight NaN.
RowSum WeighRow(const Row& row, const std::vector<int64_t>& keys, std::optional<double> sink,
                const Plane& scores, Plane& weights) {
  RowSum total;
  if (sink) total.max = *sink;
  for (const int64_t j : keys) {
    const double score = scores(row.query, j);
    if (!(score <= total.max)) total.max = std::isnan(total.max) ? total.max : score;
  }
  if (sink) total.sum = std::exp(*sink - total.max);
  for (const int64_t j : keys) {
    weights(row.query, j) = std::exp(scores(row.query, j) - total.max);
    total.sum += weights(row.query, j);
  }
  for (const int64_t j : keys) weights(row.query, j) /= total.sum;
  return total;
}

// One (batch item, query head): the whole computation, on matrices.
class HeadComputation {
 public:
  HeadComputation(const Problem& p, const Inputs& inputs, const Semantics& semantics, int64_t b,
                  int64_t h, std::vector<int64_t>& keys, Reference& result)
      : p_(p),
        semantics_(semantics),
        steps_(p, inputs, semantics),
        sink_(SinkOf(p, h)),
        kept_(p.dropout ? 1 / (1 - p.dropout->probability) : 1),
        b_(b),
        h_(h),
        q_(PlaneOf(inputs.q, b, h)),
        k_(PlaneOf(inputs.k, b, h / p.heads_per_kv_head())),
        v_(PlaneOf(inputs.v, b, h / p.heads_per_kv_head())),
        scores_(PlaneOf(result.scores, b, h)),
        weights_(PlaneOf(result.weights, b, h)),
        out_(PlaneOf(result.out, b, h)),
        lse_(PlaneOf(result.lse, b, h)),
        asked_(result.asked_scores),
        keys_(keys) {}

  void Run() {
    if (p_.head_dim > 0) {
      scores_.noalias() = q_ * k_.transpose();
    } else {
      scores_.setZero();
    }
    const double scale = p_.EffectiveScale();
    for (int64_t i = 0; i < p_.q_len; ++i) RunRow(Row{b_, h_, i}, scale);
  }

 private:
  void RunRow(const Row& row, double scale) {
    ListVisibleKeys(p_, row, keys_);
    if (p_.want_scores) KeepEarlyScores(row, scale);
    ScoreRow(row, scale);
    if (keys_.empty() && !sink_) {
      lse_(row.query, 0) = LseOfEmptyRow(semantics_.lse_empty_row);
      FillEmptyRow(row, scale);
    } else {
      const RowSum total = WeighRow(row, keys_, sink_, scores_, weights_);
      lse_(row.query, 0) = total.max + std::log(total.sum);
      // Key by key and not as a matrix product: what is hidden is not even multiplied by zero.
      for (const int64_t j : keys_) AddValue(row.query, j, weights_(row.query, j));
    }
    if (p_.want_scores) KeepLateScores(row);
  }

  // Turns the row of q.k products into scores, hidden ones -inf.
  void ScoreRow(const Row& row, double scale) {
    auto line = scores_.row(row.query);
    int64_t next = 0;  // the first key not dealt with yet
    for (const int64_t j : keys_) {
      for (; next < j; ++next) line(next) = -kInf;
      line(j) = steps_.Final(row, j, line(j) * scale, /*biased=*/true);
      ++next;
    }
    for (; next < p_.kv_len; ++next) line(next) = -kInf;
  }

  // A loop of its own: rows are short, and an expression of matrices costs more to set up than to compute.
  void AddValue(int64_t i, int64_t j, double weight) {
    const double w = Dropped(i, j, weight);
    const double* const value = v_.data() + j * p_.value_dim;
    double* const out = out_.data() + i * p_.value_dim;
    for (int64_t d = 0; d < p_.value_dim; ++d) out[d] += w * value[d];
  }

  double Dropped(int64_t i, int64_t j, double weight) const {
    if (!p_.dropout) return weight;
    return p_.dropout->keep.At(b_, h_, i, j) ? weight * kept_ : weight * 0;
  }

  // Sets an empty row's output to what it is by contract.
  void FillEmptyRow(const Row& row, double scale) {
    auto target = out_.row(row.query);
    if (const auto constant = ConstantOfEmptyRow(semantics_.empty_row, p_)) {
      target.setConstant(*constant);
      return;
    }
    Eigen::VectorXd weights = Eigen::VectorXd::Ones(p_.kv_len);
    if (semantics_.empty_row == EmptyRow::kUnmasked) {
      weights = scale * (k_ * q_.row(row.query).transpose());
      for (int64_t j = 0; j < p_.kv_len; ++j) {
        weights(j) = steps_.Final(row, j, weights(j), /*biased=*/false);
      }
      weights = (weights.array() - weights.maxCoeff()).exp();
    }
    const double total = weights.sum();
    for (int64_t j = 0; j < p_.kv_len; ++j) weights(j) = Dropped(row.query, j, weights(j));
    target = (weights.transpose() * v_) / total;
  }

  // The asked scores of every key, hidden ones too, while the row still holds its products.
  void KeepEarlyScores(const Row& row, double scale) {
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      const double scaled = scores_(row.query, j) * scale;
      double& target = asked_.At(b_, h_, row.query, j);
      if (*p_.want_scores == ScoreMode::kRaw) target = scaled;
      if (*p_.want_scores == ScoreMode::kCapped) target = steps_.Capped(row, j, scaled);
    }
  }

  void KeepLateScores(const Row& row) {
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      double& target = asked_.At(b_, h_, row.query, j);
      if (*p_.want_scores == ScoreMode::kBiased) target = scores_(row.query, j);
      if (*p_.want_scores == ScoreMode::kWeights) target = weights_(row.query, j);
    }
  }

  const Problem& p_;
  const Semantics& semantics_;
  const ScoreSteps<double> steps_;
  const std::optional<double> sink_;
  const double kept_;  // what a weight that is not dropped is multiplied by
  const int64_t b_, h_;
  const ConstPlane q_, k_, v_;
  Plane scores_, weights_, out_, lse_;
  Array& asked_;
  std::vector<int64_t>& keys_;  // visible to the row at hand
};

}  // namespace

Reference ComputeReference(const Problem& problem, const Inputs& inputs,
                           const Semantics& semantics) {
  Reference result{Array(problem.OutShape()),
                   Array(problem.LseShape()),
                   Array(problem.WeightsShape()),
                   Array(problem.WeightsShape()),
                   {}};
  if (problem.want_scores) result.asked_scores = Array(problem.WeightsShape());
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t h = 0; h < problem.q_heads; ++h) {
      HeadComputation(problem, inputs, semantics, b, h, keys, result).Run();
    }
  }
  return result;
}

}  // namespace attest
