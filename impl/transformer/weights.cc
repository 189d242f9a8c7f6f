// The weights of a model: their shapes, their order, their initial values.
#include <cmath>
#include <string>

#include "impl/transformer/model.h"
#include "impl/transformer/positions.h"
#include "impl/transformer/random.h"

namespace attest::transformer {
namespace {

template <typename T>
using Visit = std::function<void(std::string_view, Matrix<T>&)>;

template <typename T>
void Each(const std::string& name, Matrix<T>& matrix, const Visit<T>& visit) {
  if (matrix.size() != 0) visit(name, matrix);
}

template <typename T>
void Each(const std::string& name, Linear<T>& linear, const Visit<T>& visit) {
  Each(name + ".weight", linear.weight, visit);
  Each(name + ".bias", linear.bias, visit);
}

template <typename T>
void Each(const std::string& name, Norm<T>& norm, const Visit<T>& visit) {
  Each(name + ".gain", norm.gain, visit);
  Each(name + ".bias", norm.bias, visit);
}

template <typename T>
void Each(const std::string& name, MultiHead<T>& heads, const Visit<T>& visit) {
  Each(name + ".q", heads.q, visit);
  Each(name + ".k", heads.k, visit);
  Each(name + ".v", heads.v, visit);
  Each(name + ".qkv", heads.qkv, visit);
  Each(name + ".o", heads.o, visit);
}

template <typename T>
void Each(const Config& config, const std::string& name, Stack<T>& stack, const Visit<T>& visit) {
  if (config.positions == Positions::kLearned) Each(name + ".positions", stack.positions, visit);
  for (size_t l = 0; l < stack.blocks.size(); ++l) {
    Block<T>& block = stack.blocks[l];
    const std::string at = name + "." + std::to_string(l);
    Each(at + ".self_norm", block.self_norm, visit);
    Each(at + ".self", block.self, visit);
    Each(at + ".cross_norm", block.cross_norm, visit);
    Each(at + ".cross", block.cross, visit);
    Each(at + ".feed_norm", block.feed_norm, visit);
    Each(at + ".up", block.feed.up, visit);
    Each(at + ".gate", block.feed.gate, visit);
    Each(at + ".down", block.feed.down, visit);
  }
  Each(name + ".final_norm", stack.final_norm, visit);
}

template <typename T>
Linear<T> MakeLinear(int64_t in, int64_t out) {
  return {Matrix<T>::Zero(in, out), Matrix<T>::Zero(1, out)};
}

template <typename T>
Norm<T> MakeNorm(const Config& config) {
  Norm<T> norm{Matrix<T>::Zero(1, config.dim), {}};
  if (config.norm == NormKind::kLayer) norm.bias = Matrix<T>::Zero(1, config.dim);
  return norm;
}

template <typename T>
MultiHead<T> MakeHeads(const Config& config, bool packed) {
  const int64_t dim = config.dim, kv_dim = config.kv_dim();
  MultiHead<T> heads;
  if (packed) {
    heads.qkv = MakeLinear<T>(dim, dim + 2 * kv_dim);
  } else {
    heads.q = MakeLinear<T>(dim, dim);
    heads.k = MakeLinear<T>(dim, kv_dim);
    heads.v = MakeLinear<T>(dim, kv_dim);
  }
  heads.o = MakeLinear<T>(dim, dim);
  return heads;
}

template <typename T>
Block<T> MakeBlock(const Config& config, bool with_cross) {
  Block<T> block;
  block.self_norm = MakeNorm<T>(config);
  block.self = MakeHeads<T>(config, config.packed);
  if (with_cross) {
    block.cross_norm = MakeNorm<T>(config);
    block.cross = MakeHeads<T>(config, /*packed=*/false);
  }
  block.feed_norm = MakeNorm<T>(config);
  block.feed.up = MakeLinear<T>(config.dim, config.hidden);
  block.feed.down = MakeLinear<T>(config.hidden, config.dim);
  if (config.activation == Activation::kSwiGlu) {
    block.feed.gate = MakeLinear<T>(config.dim, config.hidden);
  }
  return block;
}

template <typename T>
Stack<T> MakeStack(const Config& config, bool with_cross) {
  Stack<T> stack;
  if (config.positions == Positions::kLearned) {
    stack.positions = Matrix<T>::Zero(config.max_len, config.dim);
  } else if (config.positions == Positions::kSinusoidal) {
    stack.positions = SinusoidalTable<T>(config.max_len, config.dim);
  }
  for (int64_t l = 0; l < config.layers; ++l)
    stack.blocks.push_back(MakeBlock<T>(config, with_cross));
  if (config.placement == Placement::kPre) stack.final_norm = MakeNorm<T>(config);
  return stack;
}

bool IsGain(std::string_view name) {
  return name.ends_with(".gain");
}

// How far from 0 initial values lie at most. Biases and gains are random, too, as they are once
// trained: a model with zero biases hides faults.
double Spread(std::string_view name, int64_t rows) {
  if (IsGain(name) || name.ends_with(".bias")) return 0.25;
  if (name == "embedding" || name.ends_with(".positions")) return 1;
  return std::sqrt(3.0 / static_cast<double>(rows));  // keeps the variance of its input
}

}  // namespace

template <typename T>
void ForEachMatrix(const Config& config, Weights<T>& weights, const Visit<T>& visit) {
  visit("embedding", weights.embedding);
  Each(config, "encoder", weights.encoder, visit);
  Each(config, "decoder", weights.decoder, visit);
  Each("head", weights.head, visit);
}

template <typename T>
Weights<T> ZerosLike(const Config& config) {
  Weights<T> weights;
  weights.embedding = Matrix<T>::Zero(config.vocab, config.dim);
  if (config.kind != Kind::kDecoder) weights.encoder = MakeStack<T>(config, /*with_cross=*/false);
  if (config.kind != Kind::kEncoder) {
    weights.decoder = MakeStack<T>(config, config.kind == Kind::kEncoderDecoder);
  }
  if (!config.tied) weights.head = MakeLinear<T>(config.dim, config.vocab);
  return weights;
}

template <typename T>
Model<T> MakeModel(const Config& config) {
  Model<T> model{config, ZerosLike<T>(config)};
  uint64_t number = 0;
  ForEachMatrix<T>(config, model.weights, [&](std::string_view name, Matrix<T>& matrix) {
    const Stream stream(config.seed, number++);
    const double spread = Spread(name, matrix.rows()), middle = IsGain(name) ? 1 : 0;
    for (int64_t n = 0; n < matrix.size(); ++n) {
      matrix.data()[n] =
          static_cast<T>(middle + spread * stream.Symmetric(static_cast<uint64_t>(n)));
    }
  });
  return model;
}

#define ATTEST_INSTANTIATE(T)                                               \
  template void ForEachMatrix(const Config&, Weights<T>&, const Visit<T>&); \
  template Weights<T> ZerosLike<T>(const Config&);                          \
  template Model<T> MakeModel<T>(const Config&);
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::transformer
