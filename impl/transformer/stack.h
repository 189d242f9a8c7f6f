// What Logits and LossAndGradient are made of: tokens to vectors, up a stack of blocks, to logits,
// and the same way down with gradients.
#ifndef ATTEST_TRANSFORMER_STACK_H_
#define ATTEST_TRANSFORMER_STACK_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "impl/transformer/model.h"
#include "impl/transformer/positions.h"

namespace attest::transformer {

// Where the decoder's dropout begins; the encoder's begins at 0.
inline constexpr uint64_t kDecoderSite = uint64_t{1} << 20;

// An error that names a token that is none, or one that stands at or beyond max_len.
tl::expected<void, std::string> CheckTokens(const Config& config, const Tokens& tokens,
                                            const std::vector<int64_t>& positions);

// What dropout in eval would be seeded with: another number each time, as a generator's state.
uint64_t NextFaultySeed();

template <typename T>
int64_t TableRow(const Pass<T>& pass, int64_t position) {
  const int64_t len = pass.config.max_len;
  if (pass.StepFault(Fault::kLearnedPositionsWrap)) return position % std::max<int64_t>(1, len / 2);
  return std::min(position, len - 1);  // only faults reach farther
}

// Tokens as vectors, [batch * len, dim]: embedding and, where it is added, position. Padding is
// zero.
template <typename T>
Matrix<T> Embed(const Pass<T>& pass, const Weights<T>& weights, const Stack<T>& stack,
                const Tokens& tokens, const std::vector<int64_t>& positions) {
  const Config& config = pass.config;
  Matrix<T> x = Matrix<T>::Zero(tokens.rows(), config.dim);
  const bool scaled = config.tied && !pass.StepFault(Fault::kTiedEmbeddingUnscaled);
  const T scale(static_cast<T>(scaled ? std::sqrt(static_cast<double>(config.dim)) : 1));
  for (int64_t b = 0; b < tokens.batch; ++b) {
    for (int64_t i = tokens.Begin(b); i < tokens.End(b); ++i) {
      const int64_t row = tokens.Row(b, i), position = positions[static_cast<size_t>(row)];
      x.row(row) = weights.embedding.row(tokens.Id(b, i)) * scale;
      if (stack.positions.size() != 0) x.row(row) += stack.positions.row(TableRow(pass, position));
    }
  }
  return x;
}

template <typename T>
void EmbedBackward(const Config& config, const Tokens& tokens,
                   const std::vector<int64_t>& positions, const Matrix<T>& dx, Weights<T>& gradient,
                   Stack<T>& stack_gradient) {
  const T scale(static_cast<T>(config.tied ? std::sqrt(static_cast<double>(config.dim)) : 1));
  for (int64_t b = 0; b < tokens.batch; ++b) {
    for (int64_t i = tokens.Begin(b); i < tokens.End(b); ++i) {
      const int64_t row = tokens.Row(b, i);
      gradient.embedding.row(tokens.Id(b, i)) += dx.row(row) * scale;
      if (config.positions == Positions::kLearned) {
        stack_gradient.positions.row(positions[static_cast<size_t>(row)]) += dx.row(row);
      }
    }
  }
}

// Tokens through a stack. `inputs`, if given, keeps what each block was given, and the final norm
// last.
template <typename T>
Matrix<T> Climb(const Stack<T>& stack, StackPass<T>& pass, Matrix<T> x,
                std::vector<Matrix<T>>* inputs = nullptr) {
  for (size_t l = 0; l < stack.blocks.size(); ++l) {
    if (inputs != nullptr) inputs->push_back(x);
    x = Forward(stack.blocks[l], pass, static_cast<int64_t>(l), x);
  }
  if (inputs != nullptr) inputs->push_back(x);
  if (stack.final_norm.gain.size() == 0) return x;
  return Forward(stack.final_norm, pass.pass.config.norm, x, pass.pass.config.fault);
}

// The gradient of the stack's input.
template <typename T>
Matrix<T> Descend(const Stack<T>& stack, StackPass<T>& pass, const std::vector<Matrix<T>>& inputs,
                  Matrix<T> dy, Stack<T>& gradient, Matrix<T>* dmemory) {
  if (stack.final_norm.gain.size() != 0) {
    dy = Backward(stack.final_norm, pass.pass.config.norm, inputs.back(), dy, gradient.final_norm);
  }
  for (size_t l = stack.blocks.size(); l-- > 0;) {
    dy = Backward(stack.blocks[l], pass, static_cast<int64_t>(l), inputs[l], dy, gradient.blocks[l],
                  dmemory);
  }
  return dy;
}

template <typename T>
Matrix<T> Head(const Pass<T>& pass, const Weights<T>& weights, const Matrix<T>& x) {
  if (!pass.config.tied) return Forward(weights.head, x);
  if (!pass.StepFault(Fault::kTiedEmbeddingMisread)) {
    return ProductWithTransposed(x, weights.embedding);
  }
  const Matrix<T> misread =
      Eigen::Map<const Matrix<T>>(weights.embedding.data(), pass.config.dim, pass.config.vocab);
  return Product(x, misread);
}

template <typename T>
Matrix<T> HeadBackward(const Config& config, const Weights<T>& weights, const Matrix<T>& x,
                       const Matrix<T>& dlogits, Weights<T>& gradient) {
  if (!config.tied) return Backward(weights.head, x, dlogits, gradient.head);
  gradient.embedding += dlogits.transpose() * x;
  return dlogits * weights.embedding;
}

template <typename T>
Pass<T> MakePass(const Config& config, const Attend<T>& attend, Cache<T>* cache) {
  Pass<T> pass{config, attend, cache};
  pass.in_step = cache != nullptr && !cache->empty();
  if (config.fault == Fault::kDropoutInEval) pass.dropout_seed = NextFaultySeed();
  return pass;
}

inline Sight SelfSight(const Tokens& tokens, const std::vector<int64_t>& positions, bool causal) {
  return {tokens, tokens, positions, positions, causal, /*cross=*/false};
}

inline Sight CrossSight(const Tokens& tokens, const Places& source) {
  return {tokens, source, {}, {}, /*causal=*/false, /*cross=*/true};
}

inline bool IsCausal(const Config& config, bool encoder) {
  return !encoder || config.fault == Fault::kEncoderSeesOnlyThePast;
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_STACK_H_
