#include "impl/transformer/optimizer.h"

#include <cmath>

namespace attest::transformer {
namespace {

// The learned matrices, in the order of ForEachMatrix.
template <typename T>
std::vector<Matrix<T>*> MatricesOf(const Config& config, Weights<T>& weights) {
  std::vector<Matrix<T>*> matrices;
  ForEachMatrix<T>(config, weights,
                   [&](std::string_view, Matrix<T>& matrix) { matrices.push_back(&matrix); });
  return matrices;
}

constexpr double kMeanDecay = 0.9, kSquareDecay = 0.99, kEpsilon = 1e-8;

}  // namespace

template <typename T>
void Adam<T>::Step(Weights<T>& weights, Weights<T>& gradient) {
  ++steps_;
  const double mean_share = 1 - std::pow(kMeanDecay, steps_);
  const double square_share = 1 - std::pow(kSquareDecay, steps_);
  const auto w = MatricesOf(config_, weights), g = MatricesOf(config_, gradient);
  const auto m = MatricesOf(config_, mean_), s = MatricesOf(config_, square_);
  for (size_t n = 0; n < w.size(); ++n) {
    *m[n] = *m[n] * T(kMeanDecay) + *g[n] * T(1 - kMeanDecay);
    *s[n] = *s[n] * T(kSquareDecay) + g[n]->cwiseAbs2() * T(1 - kSquareDecay);
    w[n]->array() -= T(rate_ / mean_share) * m[n]->array() /
                     ((s[n]->array() / T(square_share)).sqrt() + T(kEpsilon));
  }
}

template <typename T>
tl::expected<std::vector<double>, std::string> Train(Model<T>& model, int64_t steps, double rate,
                                                     const std::function<Lesson(int64_t)>& lesson,
                                                     const std::function<Tokens(int64_t)>& source) {
  Adam<T> adam(model.config, rate);
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    Weights<T> gradient = ZerosLike<T>(model.config);
    std::optional<Tokens> from;
    if (source) from = source(step);
    const auto loss = LossAndGradient(model, lesson(step), from ? &*from : nullptr, gradient,
                                      static_cast<uint64_t>(step));
    if (!loss) return tl::unexpected(loss.error());
    losses.push_back(*loss);
    adam.Step(model.weights, gradient);
  }
  return losses;
}

#define ATTEST_INSTANTIATE(T)                                            \
  template class Adam<T>;                                                \
  template tl::expected<std::vector<double>, std::string> Train(         \
      Model<T>&, int64_t, double, const std::function<Lesson(int64_t)>&, \
      const std::function<Tokens(int64_t)>&);
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::transformer
