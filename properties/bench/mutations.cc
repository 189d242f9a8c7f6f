#include "properties/bench/mutations.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace attest {
namespace {

// Works on the first row of q; samples of the search have one.
class Mutator {
 public:
  Mutator(Sample& sample, Random& random)
      : p_(sample.problem), in_(sample.inputs), random_(random) {}

  void AlignValuesWithScores() {
    const std::vector<double> scores = Scores();
    double mean = 0;
    for (const double s : scores) mean += s / static_cast<double>(scores.size());
    const int64_t d = Below(p_.value_dim);
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      in_.v.At(0, 0, j, d) = scores[static_cast<size_t>(j)] - mean;
    }
  }
  void MakeValuesSigns() {
    const int64_t d = Below(p_.value_dim);
    const double c = std::exp2(static_cast<double>(Below(9) - 4));
    for (int64_t j = 0; j < p_.kv_len; ++j) in_.v.At(0, 0, j, d) = Below(2) ? c : -c;
  }
  void MakeValuesUnit() {
    const int64_t d = Below(p_.value_dim), chosen = Below(p_.kv_len);
    for (int64_t j = 0; j < p_.kv_len; ++j) in_.v.At(0, 0, j, d) = j == chosen ? 1 : 0;
  }
  void ScaleValues() {
    const double factor = std::exp2(static_cast<double>(Below(17) - 8));
    for (double& v : in_.v.values) v *= factor;
  }
  void ScaleQuery() {
    const double factor = std::exp2(Uniform(-2, 2));
    for (double& q : in_.q.values) q *= factor;
  }
  void ZeroPartOfQuery() {
    const int64_t first = Below(p_.head_dim);
    for (int64_t d = first; d < p_.head_dim; ++d) in_.q.At(0, 0, 0, d) = 0;
  }
  void CopyKey() {
    const int64_t from = Below(p_.kv_len), to = Below(p_.kv_len);
    for (int64_t d = 0; d < p_.head_dim; ++d) in_.k.At(0, 0, to, d) = in_.k.At(0, 0, from, d);
  }
  void RoundToPowersOfTwo() {
    Array& tensor = AnyTensor();
    for (double& x : tensor.values) {
      if (x != 0 && std::isfinite(x)) x = std::copysign(std::exp2(std::ilogb(x)), x);
    }
  }
  void FlipMantissa() {
    Array& tensor = AnyTensor();
    double& x = tensor.values[static_cast<size_t>(Below(ElementCount(tensor.shape)))];
    x *= 1 + (Below(2) ? 1 : -1) * std::exp2(-Uniform(0, 24));
  }
  void MoveMaxToTileEdge() {
    const std::vector<double> scores = Scores();
    const int64_t from = std::max_element(scores.begin(), scores.end()) - scores.begin();
    const int64_t edge = 16 * Below(p_.kv_len / 16 + 1) - Below(2);
    SwapKeys(from, std::clamp<int64_t>(edge, 0, p_.kv_len - 1));
  }
  void SortKeys() {
    const std::vector<double> scores = Scores();
    std::vector<int64_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return std::pair(scores[static_cast<size_t>(a)], a) <
             std::pair(scores[static_cast<size_t>(b)], b);
    });
    const Array keys = in_.k, values = in_.v;
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      const int64_t from = order[static_cast<size_t>(j)];
      for (int64_t d = 0; d < p_.head_dim; ++d) in_.k.At(0, 0, j, d) = keys.At(0, 0, from, d);
      for (int64_t d = 0; d < p_.value_dim; ++d) in_.v.At(0, 0, j, d) = values.At(0, 0, from, d);
    }
  }
  void ShiftScores() {
    const double shift = Below(2) ? Uniform(-200, -90) : Uniform(-20, 200);
    for (int64_t j = 0; j < p_.kv_len; ++j) AddToScore(j, shift);
  }
  // The key's weight falls somewhere around the least normal and subnormal of the element type.
  void SinkKey() {
    const std::vector<double> scores = Scores();
    const int64_t chosen = Below(p_.kv_len);
    const FormatTraits traits = TraitsOf(p_.dtype);
    const double exponent =
        Uniform(std::log2(traits.min_subnormal) - 2, std::log2(traits.min_normal) + 2);
    const double top = *std::max_element(scores.begin(), scores.end());
    AddToScore(chosen, top + std::numbers::ln2 * exponent - scores[static_cast<size_t>(chosen)]);
  }
  void NudgeScore() { AddToScore(Below(p_.kv_len), Uniform(-1, 1)); }
  void ChangeBias() {
    if (!p_.bias) return;
    in_.bias.values[static_cast<size_t>(Below(ElementCount(in_.bias.shape)))] = Uniform(-20, 20);
  }
  void DropLastKey() {
    if (p_.kv_len < 2 || p_.mask || p_.bias) return;
    --p_.kv_len;
    for (Array* tensor : {&in_.k, &in_.v}) {
      --tensor->shape[2];
      tensor->values.resize(static_cast<size_t>(ElementCount(tensor->shape)));
    }
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  Array& AnyTensor() {
    Array* const tensors[] = {&in_.q, &in_.k, &in_.v};
    return *tensors[Below(3)];
  }

  // scale * q.k, hidden keys too.
  std::vector<double> Scores() const {
    std::vector<double> scores;
    for (int64_t j = 0; j < p_.kv_len; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < p_.head_dim; ++d) dot += in_.q.At(0, 0, 0, d) * in_.k.At(0, 0, j, d);
      scores.push_back(dot * p_.EffectiveScale());
    }
    return scores;
  }
  void AddToScore(int64_t key, double amount) {
    double square = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d) square += std::pow(in_.q.At(0, 0, 0, d), 2);
    const double unit = amount / (square * p_.EffectiveScale());
    if (!std::isfinite(unit)) return;
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      in_.k.At(0, 0, key, d) += unit * in_.q.At(0, 0, 0, d);
    }
  }
  void SwapKeys(int64_t a, int64_t b) {
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      std::swap(in_.k.At(0, 0, a, d), in_.k.At(0, 0, b, d));
    }
    for (int64_t d = 0; d < p_.value_dim; ++d) {
      std::swap(in_.v.At(0, 0, a, d), in_.v.At(0, 0, b, d));
    }
  }

  Problem& p_;
  Inputs& in_;
  Random& random_;
};

constexpr std::array kMutations = {&Mutator::AlignValuesWithScores,
                                   &Mutator::MakeValuesSigns,
                                   &Mutator::MakeValuesUnit,
                                   &Mutator::ScaleValues,
                                   &Mutator::ScaleQuery,
                                   &Mutator::ZeroPartOfQuery,
                                   &Mutator::CopyKey,
                                   &Mutator::RoundToPowersOfTwo,
                                   &Mutator::FlipMantissa,
                                   &Mutator::MoveMaxToTileEdge,
                                   &Mutator::SortKeys,
                                   &Mutator::ShiftScores,
                                   &Mutator::SinkKey,
                                   &Mutator::NudgeScore,
                                   &Mutator::ChangeBias,
                                   &Mutator::DropLastKey};

// Values at the end of their type's range constrain nothing; halving keeps the search inside. A NaN
// of two huge scores would settle its row by itself.
double Stored(DType dtype, double x) {
  if (std::isnan(x)) return 0;
  const double most = TraitsOf(dtype).max_finite / 2;
  return RoundTo(dtype, std::clamp(x, -most, most));
}

}  // namespace

void Mutate(Sample& sample, Random& random) {
  Mutator mutator(sample, random);
  (mutator.*kMutations[random() % kMutations.size()])();
  for (Array* tensor :
       {&sample.inputs.q, &sample.inputs.k, &sample.inputs.v, &sample.inputs.bias}) {
    for (double& x : tensor->values) x = Stored(sample.problem.dtype, x);
  }
}

}  // namespace attest
