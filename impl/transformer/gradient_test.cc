// Every backward pass against central differences in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "impl/mutants/plain.h"
#include "impl/tiled/tiled.h"
#include "impl/transformer/batcher.h"
#include "impl/transformer/kernel_attention.h"
#include "impl/transformer/layers.h"
#include "impl/transformer/model.h"
#include "impl/transformer/testing.h"

namespace attest::transformer {
namespace {

using M = Matrix<double>;
using Loss = std::function<double()>;

// The slope of `loss` along `direction` at *x, from differences over 2 h and 4 h. Their
// disagreement is three times the truncation error of the first; the rounding error is that of two
// losses, each the end of a chain of some 64 roundings of numbers of size `size`, over 2 h.
struct Slope {
  double value, error;
};

Slope SlopeOf(const Loss& loss, M& x, const M& direction, double size) {
  const double h = 1.0 / (1 << 17);
  const M at = x;
  const auto over = [&](double step) {
    x = at + step * direction;
    const double above = loss();
    x = at - step * direction;
    const double below = loss();
    x = at;
    return (above - below) / (2 * step);
  };
  const double fine = over(h), coarse = over(2 * h);
  return {fine, std::abs(fine - coarse) + 64 * 0x1p-52 * size / h};
}

// A gradient may deviate by the error of the differences, and by its own roundings.
void ExpectGradient(const std::string& name, const Loss& loss, M& x, const M& gradient,
                    uint64_t seed, double size = 1) {
  for (uint64_t n = 0; n < 2; ++n) {
    M direction = RandomMatrix(seed + n, x.rows(), x.cols());
    if (n == 1) {  // a single element
      const int64_t element = Stream(seed, n).Below(0, x.size());
      direction.setZero();
      direction.data()[element] = 1;
    }
    const Slope slope = SlopeOf(loss, x, direction, size);
    const double found = (gradient.array() * direction.array()).sum();
    EXPECT_NEAR(found, slope.value, slope.error) << name << ", direction " << n;
  }
}

// loss = sum(out * pattern), so that pattern is the gradient of out.
double Against(const M& out, const M& pattern) {
  return (out.array() * pattern.array()).sum();
}

TEST(GradientTest, Linear) {
  Linear<double> layer{RandomMatrix(1, 5, 4), RandomMatrix(2, 1, 4)};
  M x = RandomMatrix(3, 3, 5);
  const M dy = RandomMatrix(4, 3, 4);
  Linear<double> gradient{M::Zero(5, 4), M::Zero(1, 4)};
  const M dx = Backward(layer, x, dy, gradient);
  const Loss loss = [&] { return Against(Forward(layer, x), dy); };
  ExpectGradient("x", loss, x, dx, 5, 10);
  ExpectGradient("weight", loss, layer.weight, gradient.weight, 6, 10);
  ExpectGradient("bias", loss, layer.bias, gradient.bias, 7, 10);
}

TEST(GradientTest, Norms) {
  for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
    Norm<double> layer{RandomMatrix(1, 1, 6),
                       kind == NormKind::kLayer ? RandomMatrix(2, 1, 6) : M()};
    M x = RandomMatrix(3, 4, 6);
    const M dy = RandomMatrix(4, 4, 6);
    Norm<double> gradient{M::Zero(1, 6), M::Zero(1, 6)};
    const M dx = Backward(layer, kind, x, dy, gradient);
    const Loss loss = [&] { return Against(Forward(layer, kind, x), dy); };
    ExpectGradient("x", loss, x, dx, 5, 10);
    ExpectGradient("gain", loss, layer.gain, gradient.gain, 6, 10);
    if (layer.bias.size() != 0) ExpectGradient("bias", loss, layer.bias, gradient.bias, 7, 10);
  }
}

TEST(GradientTest, FeedForward) {
  for (const Activation kind : {Activation::kGelu, Activation::kSwiGlu}) {
    const auto linear = [](uint64_t seed, int64_t in, int64_t out) {
      return Linear<double>{RandomMatrix(seed, in, out), RandomMatrix(seed + 1, 1, out)};
    };
    const auto zeros = [](int64_t in, int64_t out) {
      return Linear<double>{M::Zero(in, out), M::Zero(1, out)};
    };
    FeedForward<double> layer{linear(1, 4, 7), linear(3, 7, 4), linear(5, 4, 7)};
    FeedForward<double> gradient{zeros(4, 7), zeros(7, 4), zeros(4, 7)};
    M x = RandomMatrix(8, 3, 4, 2);
    const M dy = RandomMatrix(9, 3, 4);
    const M dx = Backward(layer, kind, x, dy, gradient);
    const Loss loss = [&] { return Against(Forward(layer, kind, x), dy); };
    ExpectGradient("x", loss, x, dx, 10, 30);
    ExpectGradient("up", loss, layer.up.weight, gradient.up.weight, 11, 30);
    ExpectGradient("down", loss, layer.down.weight, gradient.down.weight, 12, 30);
    ExpectGradient("gate", loss, layer.gate.weight, gradient.gate.weight, 13, 30);
  }
}

TEST(GradientTest, RotationTurnsBack) {
  for (const bool interleaved : {false, true}) {
    M x = RandomMatrix(1, 3, 8);
    const M dy = RandomMatrix(2, 3, 8);
    const std::vector<int64_t> positions = {0, 3, 17};
    M dx = dy;
    Rotate(dx, 4, positions, interleaved, /*forward=*/false);
    const Loss loss = [&] {
      M y = x;
      Rotate(y, 4, positions, interleaved);
      return Against(y, dy);
    };
    ExpectGradient("x", loss, x, dx, 3, 20);
  }
}

// Grouped heads, causality, padding on the left, so that the first row of item 1 is empty.
TEST(GradientTest, Attention) {
  M q = RandomMatrix(1, 2 * 3, 4 * 2), k = RandomMatrix(2, 2 * 4, 2 * 2),
    v = RandomMatrix(3, 2 * 4, 2 * 2);
  AttentionTask<double> task;
  task.batch = 2;
  task.q_len = 3;
  task.heads = 4;
  task.kv_heads = 2;
  task.head_dim = 2;
  task.q = &q;
  task.scale = 0.7;
  task.slopes = {0.5, 0.25, 0.125, 0.0625};
  task.alibi_offset = {1, 1};
  task.visible.causal = true;
  task.visible.key_begin = {0, 2};
  task.visible.key_end = {4, 4};
  task.visible.offset = {1, 1};
  task.kv.k = k.data();
  task.kv.v = v.data();
  task.kv.len = task.kv.item_rows = 4;
  task.kv.rows = 8;
  const M dout = RandomMatrix(4, 2 * 3, 4 * 2);
  const AttentionGradients<double> d = AttentionBackward(task, dout);
  const Loss loss = [&] {
    task.kv.k = k.data();
    task.kv.v = v.data();
    M out;
    OnlineAttention(task, out);
    return Against(out, dout);
  };
  ExpectGradient("q", loss, q, d.q, 5, 20);
  ExpectGradient("k", loss, k, d.k, 6, 20);
  ExpectGradient("v", loss, v, d.v, 7, 20);
  // Hidden keys, and the row that sees none, have no part in it: exactly.
  EXPECT_EQ(d.k.row(4), M::Zero(1, 4));
  EXPECT_EQ(d.v.row(5), M::Zero(1, 4));
  EXPECT_EQ(d.q.row(3), M::Zero(1, 8));
}

// The loss of a whole model in every one of its matrices.
void ExpectModelGradient(const NamedConfig& named, Lesson lesson, const Tokens* source,
                         std::optional<uint64_t> dropout = {}) {
  SCOPED_TRACE(named.name);
  Model<double> model = MakeModel<double>(named.config);
  Weights<double> gradient = ZerosLike<double>(named.config), unused = gradient;
  const auto value = LossAndGradient(model, lesson, source, gradient, dropout);
  ASSERT_TRUE(value) << value.error();
  std::vector<M*> gradients;
  ForEachMatrix<double>(named.config, gradient,
                        [&](std::string_view, M& matrix) { gradients.push_back(&matrix); });
  const Loss loss = [&] {
    // Passes up alone are quicker, but know no dropout.
    if (dropout) return *LossAndGradient(model, lesson, source, unused, dropout);
    std::optional<Memory<double>> memory;
    if (source != nullptr) memory = *Encode(model, *source);
    return CrossEntropy(*Logits(model, lesson.inputs, memory ? &*memory : nullptr), lesson);
  };
  size_t n = 0;
  ForEachMatrix<double>(named.config, model.weights, [&](std::string_view name, M& matrix) {
    ExpectGradient(std::string(name), loss, matrix, *gradients[n], n, 10);
    EXPECT_GT(gradients[n]->cwiseAbs().maxCoeff(), 0) << name << " has no gradient";
    ++n;
  });
}

TEST(GradientTest, WholeModels) {
  for (const NamedConfig& named : AllConfigs()) {
    const int64_t vocab = named.config.vocab;
    const bool has_source = named.config.kind == Kind::kEncoderDecoder;
    const Tokens source = Pad(RandomSequences(3, {2, 4}, vocab), Side::kLeft);
    ExpectModelGradient(named, MakeLesson(RandomSequences(4, {5, 3}, vocab), 5, false),
                        has_source ? &source : nullptr);
  }
}

// The largest difference of two gradients of one model, over all its matrices.
double Apart(const Config& config, Weights<double>& a, Weights<double>& b) {
  std::vector<M*> of_a;
  ForEachMatrix<double>(config, a, [&](std::string_view, M& matrix) { of_a.push_back(&matrix); });
  double apart = 0;
  size_t n = 0;
  ForEachMatrix<double>(config, b, [&](std::string_view, M& matrix) {
    apart = std::max(apart, (*of_a[n++] - matrix).cwiseAbs().maxCoeff());
  });
  return apart;
}

// The same loss and gradient by a kernel's forward and backward passes; and a fault of its backward pass shows in what
// a model learns, though its loss is right.
TEST(GradientTest, AModelTrainsByAKernel) {
  for (const Base base : {Base::kGpt, Base::kDecoder, Base::kAlibi}) {
    const Config config = BaseConfig(base);
    const Model<double> model = MakeModel<double>(config);
    const Lesson lesson = MakeLesson(RandomSequences(4, {5, 3}, config.vocab), 5, false);
    Weights<double> plain = ZerosLike<double>(config);
    const double loss = *LossAndGradient(model, lesson, nullptr, plain);
    const auto train = [&](const attest_kernel_table* table, const char* variant) {
      std::vector<std::pair<std::string, std::string>> options;
      if (*variant != 0) options = {{"variant", variant}};
      auto kernel = KernelAttention::Create(table, options);
      EXPECT_TRUE(kernel) << kernel.error();
      Weights<double> gradient = ZerosLike<double>(config);
      const auto value = LossAndGradient<double>(
          model, lesson, nullptr, gradient, {},
          [&](const AttentionTask<double>& task, M& out) { return kernel->Run(task, out); },
          [&](const AttentionTask<double>& task, const M& dout) {
            return kernel->Backward(task, dout);
          });
      EXPECT_TRUE(value) << value.error();
      EXPECT_NEAR(value.value_or(0), loss, 1e-12);
      return Apart(config, plain, gradient);
    };
    constexpr double kRoundings = 1e-11;
    EXPECT_LT(train(TiledKernelTable(), ""), kRoundings);
    EXPECT_GT(train(MutantKernelTable(), "backward-mask-ignored"), 1e6 * kRoundings);
  }
}

TEST(GradientTest, PackedDocumentsAndDropout) {
  const NamedConfig gpt = Variation("gpt", Base::kGpt, {{"layers", "1"}});
  const auto documents = RandomSequences(5, {3, 2, 5}, gpt.config.vocab);
  ExpectModelGradient(gpt, MakeLesson(documents, 5, /*pack=*/true), nullptr, /*dropout=*/9);
}

}  // namespace
}  // namespace attest::transformer
