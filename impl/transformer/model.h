// A whole model: a decoder-only language model, an encoder, or an encoder-decoder, in float or
// double. Logits computes everything anew; Session (session.h) generates with a cache;
// LossAndGradient trains.
//
// A row of logits depends, bit for bit, on the tokens that it sees and on their positions alone:
// not on the batch, padding, later tokens or, up to 64 tokens, on how they came to a cache. (With
// more, keys share other tiles, and the difference is that of another order of summation.)
#ifndef ATTEST_TRANSFORMER_MODEL_H_
#define ATTEST_TRANSFORMER_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "impl/transformer/block.h"
#include "impl/transformer/config.h"
#include "impl/transformer/pass.h"
#include "impl/transformer/tokens.h"

namespace attest::transformer {

// Blocks one on top of the other.
template <typename T>
struct Stack {
  Matrix<T> positions;  // [max_len, dim], sinusoidal or learned; else no elements
  std::vector<Block<T>> blocks;
  Norm<T> final_norm;  // where norms are placed before; else no elements
};

template <typename T>
struct Weights {
  Matrix<T> embedding;        // [vocab, dim], of source and target alike
  Stack<T> encoder, decoder;  // the one that the kind has, or both
  Linear<T> head;             // [dim, vocab]; no elements where tied
};

// Calls visit(name, matrix) for every matrix that is learned, in an order that never changes.
template <typename T>
void ForEachMatrix(const Config& config, Weights<T>& weights,
                   const std::function<void(std::string_view, Matrix<T>&)>& visit);

template <typename T>
struct Model {
  Config config;
  Weights<T> weights;
};

// A model with its initial weights, a function of config.seed. The config has passed CheckConfig.
template <typename T>
Model<T> MakeModel(const Config& config);

// Weights of the same shapes, all 0.
template <typename T>
Weights<T> ZerosLike(const Config& config);

// Tokens of an encoded source.
template <typename T>
struct Memory {
  Matrix<T> tokens;  // [batch * len, dim]
  Places places;
};

// The output of the encoder of an encoder-decoder.
template <typename T>
tl::expected<Memory<T>, std::string> Encode(const Model<T>& model, const Tokens& source,
                                            const Attend<T>& attend = PlainAttend<T>());

// Logits [batch * len, vocab] of every token; rows of padding hold something finite. `memory` is
// what an encoder-decoder needs. With a cache the tokens come behind what it holds, and are added
// to it. The error names a token or position that is out of range, or is the kernel's.
template <typename T>
tl::expected<Matrix<T>, std::string> Logits(const Model<T>& model, const Tokens& tokens,
                                            const Memory<T>* memory = nullptr,
                                            const Attend<T>& attend = PlainAttend<T>(),
                                            Cache<T>* cache = nullptr);

// What a batch teaches: at each place the token that follows, and how much it counts.
struct Lesson {
  Tokens inputs;
  std::vector<int64_t> targets;  // [batch, len]
  std::vector<double> weights;   // [batch, len]; 0 where there is nothing to learn

  double TotalWeight() const {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    return sum;
  }
};

// The mean over weights of -log softmax(logits)[target], in nats; 0 where all weights are.
// `gradient`, if given, becomes that of the logits.
template <typename T>
double CrossEntropy(const Matrix<T>& logits, const Lesson& lesson, Matrix<T>* gradient = nullptr);

// The loss of a lesson; the gradient of every weight is added to `gradient`. Dropout is on where a
// seed is given. `source` is that of an encoder-decoder. Attention and its gradients may be a kernel's, whose message is
// the error.
template <typename T>
tl::expected<double, std::string> LossAndGradient(
    const Model<T>& model, const Lesson& lesson, const Tokens* source, Weights<T>& gradient,
    std::optional<uint64_t> dropout_seed = {}, const Attend<T>& attend = PlainAttend<T>(),
    const AttendBackward<T>& attend_backward = PlainAttendBackward<T>());

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_MODEL_H_
