// Adam, as published, over all weights of a model: enough to train tiny models in seconds.
#ifndef ATTEST_TRANSFORMER_OPTIMIZER_H_
#define ATTEST_TRANSFORMER_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "impl/transformer/model.h"

namespace attest::transformer {

template <typename T>
class Adam {
 public:
  // `rate` is how far a weight goes in a step, about.
  Adam(const Config& config, double rate)
      : config_(config), rate_(rate), mean_(ZerosLike<T>(config)), square_(ZerosLike<T>(config)) {}

  // One step against the gradient.
  void Step(Weights<T>& weights, Weights<T>& gradient);

 private:
  Config config_;
  double rate_;
  double steps_ = 0;
  Weights<T> mean_, square_;
};

// Trains for so many steps, each on lesson(step); returns the loss before each step. Dropout is
// that of the config. `source`, where given, is the source of an encoder-decoder's step.
template <typename T>
tl::expected<std::vector<double>, std::string> Train(
    Model<T>& model, int64_t steps, double rate, const std::function<Lesson(int64_t)>& lesson,
    const std::function<Tokens(int64_t)>& source = nullptr);

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_OPTIMIZER_H_
