#include "impl/reference/reference.h"

#include <cmath>
#include <limits>
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

// Turns raw q.k products of one row into scores: scaled, biased, hidden ones -inf.
void ScoreRow(const Problem& p, const Inputs& inputs, const Row& row, double scale,
              const std::vector<int64_t>& keys, Plane& scores) {
  auto line = scores.row(row.query);
  int64_t next = 0;  // the first key not dealt with yet
  for (const int64_t j : keys) {
    for (; next < j; ++next) line(next) = -kInf;
    line(j) *= scale;
    if (p.bias) line(j) += inputs.bias.Broadcast(row.batch, row.head, row.query, j);
    ++next;
  }
  for (; next < p.kv_len; ++next) line(next) = -kInf;
}

struct RowSum {
  double max = -kInf;  // of the visible scores
  double sum = 0;      // of exp(score - max) over the visible keys
};

// Fills the row's weights, which are 0, from its scores. A NaN score makes every weight NaN.
RowSum WeighRow(const Row& row, const std::vector<int64_t>& keys, const Plane& scores,
                Plane& weights) {
  RowSum total;
  for (const int64_t j : keys) {
    const double score = scores(row.query, j);
    if (!(score <= total.max)) total.max = std::isnan(total.max) ? total.max : score;
  }
  for (const int64_t j : keys) {
    weights(row.query, j) = std::exp(scores(row.query, j) - total.max);
    total.sum += weights(row.query, j);
  }
  for (const int64_t j : keys) weights(row.query, j) /= total.sum;
  return total;
}

// Sets an empty row's output to what it is by contract.
void FillEmptyRow(const Problem& p, const Row& row, EmptyRow what, const ConstPlane& q,
                  const ConstPlane& k, const ConstPlane& v, Plane& out) {
  auto target = out.row(row.query);
  if (const auto constant = ConstantOfEmptyRow(what, p)) {
    target.setConstant(*constant);
  } else if (what == EmptyRow::kMeanValue) {
    target = v.colwise().sum() / static_cast<double>(p.kv_len);
  } else {
    Eigen::VectorXd weights = p.EffectiveScale() * (k * q.row(row.query).transpose());
    weights = (weights.array() - weights.maxCoeff()).exp();
    target = (weights.transpose() * v) / weights.sum();
  }
}

// One (batch item, query head): the whole computation, on matrices.
class HeadComputation {
 public:
  HeadComputation(const Problem& p, const Inputs& inputs, const Semantics& semantics, int64_t b,
                  int64_t h, Reference& result)
      : p_(p),
        inputs_(inputs),
        semantics_(semantics),
        b_(b),
        h_(h),
        q_(PlaneOf(inputs.q, b, h)),
        k_(PlaneOf(inputs.k, b, h / p.heads_per_kv_head())),
        v_(PlaneOf(inputs.v, b, h / p.heads_per_kv_head())),
        scores_(PlaneOf(result.scores, b, h)),
        weights_(PlaneOf(result.weights, b, h)),
        out_(PlaneOf(result.out, b, h)),
        lse_(PlaneOf(result.lse, b, h)) {}

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
    ScoreRow(p_, inputs_, row, scale, keys_, scores_);
    if (keys_.empty()) {
      lse_(row.query, 0) = LseOfEmptyRow(semantics_.lse_empty_row);
      FillEmptyRow(p_, row, semantics_.empty_row, q_, k_, v_, out_);
      return;
    }
    const RowSum total = WeighRow(row, keys_, scores_, weights_);
    lse_(row.query, 0) = total.max + std::log(total.sum);
    // Key by key and not as a matrix product: what is hidden is not even multiplied by zero.
    for (const int64_t j : keys_) out_.row(row.query) += weights_(row.query, j) * v_.row(j);
  }

  const Problem& p_;
  const Inputs& inputs_;
  const Semantics& semantics_;
  const int64_t b_, h_;
  const ConstPlane q_, k_, v_;
  Plane scores_, weights_, out_, lse_;
  std::vector<int64_t> keys_;  // visible to the row at hand
};

}  // namespace

Reference ComputeReference(const Problem& problem, const Inputs& inputs,
                           const Semantics& semantics) {
  Reference result{Array(problem.OutShape()), Array(problem.LseShape()),
                   Array(problem.WeightsShape()), Array(problem.WeightsShape())};
  for (int64_t b = 0; b < problem.batch; ++b) {
    for (int64_t h = 0; h < problem.q_heads; ++h) {
      HeadComputation(problem, inputs, semantics, b, h, result).Run();
    }
  }
  return result;
}

}  // namespace attest
