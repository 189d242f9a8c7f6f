// The models against a second one that shares nothing with them but the weights: one token's vector
// at a time, written from the prose, without batch, padding or cache.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "impl/transformer/model.h"
#include "impl/transformer/positions.h"
#include "impl/transformer/testing.h"

namespace attest::transformer {
namespace {

using Vector = std::vector<double>;
using Vectors = std::vector<Vector>;  // one a token

Vector Sum(const Vector& a, const Vector& b) {
  Vector sum = a;
  for (size_t i = 0; i < a.size(); ++i) sum[i] += b[i];
  return sum;
}

class SecondModel {
 public:
  explicit SecondModel(const Model<double>& model) : c_(model.config), w_(model.weights) {}

  Vectors Logits(const std::vector<int64_t>& tokens, const std::vector<int64_t>& source) const {
    if (c_.kind == Kind::kEncoder) return Heads(Run(w_.encoder, tokens, false, {}));
    Vectors memory;
    if (c_.kind == Kind::kEncoderDecoder) memory = Run(w_.encoder, source, false, {});
    return Heads(Run(w_.decoder, tokens, true, memory));
  }

 private:
  Vectors Run(const Stack<double>& stack, const std::vector<int64_t>& tokens, bool causal,
              const Vectors& memory) const {
    Vectors x;
    for (size_t p = 0; p < tokens.size(); ++p) x.push_back(Embed(stack, tokens[p], p));
    for (const Block<double>& block : stack.blocks) {
      x = Sub(x, block.self_norm,
              [&](const Vectors& n) { return Attend(block.self, n, n, causal, true); });
      if (!memory.empty()) {
        x = Sub(x, block.cross_norm,
                [&](const Vectors& n) { return Attend(block.cross, n, memory, false, false); });
      }
      x = Sub(x, block.feed_norm, [&](const Vectors& n) {
        Vectors fed;
        for (const Vector& token : n) fed.push_back(Feed(block.feed, token));
        return fed;
      });
    }
    if (c_.placement == Placement::kPre) {
      for (Vector& token : x) token = Normal(stack.final_norm, token);
    }
    return x;
  }

  template <typename F>
  Vectors Sub(const Vectors& x, const Norm<double>& norm, F&& f) const {
    Vectors n = x;
    if (c_.placement == Placement::kPre) {
      for (Vector& token : n) token = Normal(norm, token);
    }
    Vectors y = f(n);
    for (size_t t = 0; t < x.size(); ++t) {
      y[t] = Sum(x[t], y[t]);
      if (c_.placement == Placement::kPost) y[t] = Normal(norm, y[t]);
    }
    return y;
  }

  Vector Embed(const Stack<double>& stack, int64_t token, size_t position) const {
    Vector x;
    for (int64_t d = 0; d < c_.dim; ++d) {
      double value = w_.embedding(token, d);
      if (c_.tied) value *= std::sqrt(static_cast<double>(c_.dim));
      if (stack.positions.size() != 0) value += stack.positions(static_cast<int64_t>(position), d);
      x.push_back(value);
    }
    return x;
  }

  // Columns [first, first + count) of a linear layer.
  static Vector Apply(const Linear<double>& linear, const Vector& x, int64_t first, int64_t count) {
    Vector y;
    for (int64_t o = first; o < first + count; ++o) {
      double sum = linear.bias(0, o);
      for (size_t i = 0; i < x.size(); ++i) sum += x[i] * linear.weight(static_cast<int64_t>(i), o);
      y.push_back(sum);
    }
    return y;
  }
  static Vector Apply(const Linear<double>& linear, const Vector& x) {
    return Apply(linear, x, 0, linear.weight.cols());
  }

  Vector Normal(const Norm<double>& norm, const Vector& x) const {
    const double n = static_cast<double>(x.size());
    double mean = 0, square = 0;
    if (c_.norm == NormKind::kLayer) {
      for (const double v : x) mean += v / n;
    }
    for (const double v : x) square += (v - mean) * (v - mean) / n;
    Vector y;
    for (size_t i = 0; i < x.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      y.push_back((x[i] - mean) / std::sqrt(square + 1e-5) * norm.gain(0, at));
      if (c_.norm == NormKind::kLayer) y.back() += norm.bias(0, at);
    }
    return y;
  }

  Vector Feed(const FeedForward<double>& feed, const Vector& x) const {
    Vector hidden = Apply(feed.up, x);
    const Vector gate = c_.activation == Activation::kSwiGlu ? Apply(feed.gate, x) : Vector();
    for (size_t i = 0; i < hidden.size(); ++i) {
      // GELU is x times the share of the normal distribution below it.
      hidden[i] *= gate.empty() ? std::erfc(-hidden[i] / std::numbers::sqrt2) / 2
                                : gate[i] / (1 + std::exp(-gate[i]));
    }
    return Apply(feed.down, hidden);
  }

  // Head h of query (part 0), key (1) or value (2) of a token.
  Vector Project(const MultiHead<double>& heads, int part, int64_t h, const Vector& x) const {
    const int64_t n = c_.head_dim();
    if (heads.qkv.weight.size() == 0) {
      const Linear<double>* parts[] = {&heads.q, &heads.k, &heads.v};
      return Apply(*parts[part], x, h * n, n);
    }
    const int64_t begin[] = {0, c_.dim, c_.dim + c_.kv_dim()};
    return Apply(heads.qkv, x, begin[part] + h * n, n);
  }

  // Pairs of components as complex numbers, turned by position * 10000^(-2 c / n).
  Vector Turned(Vector x, size_t position) const {
    const size_t n = x.size(), half = n / 2;
    for (size_t c = 0; c < half && c_.rope(); ++c) {
      const bool split = c_.positions == Positions::kRopeHalf;
      double& re = x[split ? c : 2 * c];
      double& im = x[split ? c + half : 2 * c + 1];
      const double angle =
          static_cast<double>(position) *
          std::exp(-std::log(1e4) * 2 * static_cast<double>(c) / static_cast<double>(n));
      const std::complex<double> turned = std::complex<double>(re, im) * std::polar(1.0, angle);
      re = turned.real();
      im = turned.imag();
    }
    return x;
  }

  Vectors Attend(const MultiHead<double>& heads, const Vectors& x, const Vectors& source,
                 bool causal, bool self) const {
    Vectors out;
    for (size_t i = 0; i < x.size(); ++i) {
      Vector merged;
      for (int64_t h = 0; h < c_.heads; ++h) {
        const Vector head = AttendHead(heads, h, x, i, source, causal, self);
        merged.insert(merged.end(), head.begin(), head.end());
      }
      out.push_back(Apply(heads.o, merged));
    }
    return out;
  }

  Vector AttendHead(const MultiHead<double>& heads, int64_t h, const Vectors& x, size_t i,
                    const Vectors& source, bool causal, bool self) const {
    const int64_t kv_head = h * c_.kv_heads / c_.heads;
    const Vector q = Project(heads, 0, h, x[i]);
    Vector sum(q.size(), 0);
    double total = 0;
    for (size_t j = 0; j < source.size(); ++j) {
      const auto distance = static_cast<double>(i) - static_cast<double>(j);
      if (causal && (distance < 0 || (c_.window > 0 && distance >= static_cast<double>(c_.window))))
        continue;
      const Vector k = Project(heads, 1, kv_head, source[j]);
      const Vector v = Project(heads, 2, kv_head, source[j]);
      const Vector a = self ? Turned(q, i) : q, b = self ? Turned(k, j) : k;
      double score = 0;
      for (size_t d = 0; d < a.size(); ++d) score += a[d] * b[d];
      score /= std::sqrt(static_cast<double>(c_.head_dim()));
      if (self && c_.positions == Positions::kAlibi) {
        score -= std::pow(2, -8.0 * static_cast<double>(h + 1) / static_cast<double>(c_.heads)) *
                 distance;
      }
      const double weight = std::exp(score);
      total += weight;
      for (size_t d = 0; d < v.size(); ++d) sum[d] += weight * v[d];
    }
    for (double& value : sum) value /= total;
    return sum;
  }

  Vectors Heads(const Vectors& x) const {
    Vectors logits;
    for (const Vector& token : x) {
      if (!c_.tied) {
        logits.push_back(Apply(w_.head, token));
        continue;
      }
      logits.emplace_back();
      for (int64_t t = 0; t < c_.vocab; ++t) {
        double sum = 0;
        for (int64_t d = 0; d < c_.dim; ++d)
          sum += token[static_cast<size_t>(d)] * w_.embedding(t, d);
        logits.back().push_back(sum);
      }
    }
    return logits;
  }

  const Config& c_;
  const Weights<double>& w_;
};

// Both compute in double, with logits below 20 and chains of a few hundred roundings.
constexpr double kAllowed = 500 * 20 * 0x1p-52;

TEST(SecondModelTest, BothGiveTheSameLogits) {
  for (const auto& [name, config] : AllConfigs()) {
    SCOPED_TRACE(name);
    const Model<double> model = MakeModel<double>(config);
    const auto tokens = RandomSequence(1, 7, config.vocab),
               source = RandomSequence(2, 5, config.vocab);
    const Vectors due = SecondModel(model).Logits(tokens, source);
    std::optional<Memory<double>> memory;
    if (config.kind == Kind::kEncoderDecoder) memory = *Encode(model, Pad({source}));
    const auto found = Logits(model, Pad({tokens}), memory ? &*memory : nullptr);
    ASSERT_TRUE(found) << found.error();
    for (int64_t r = 0; r < found->rows(); ++r) {
      for (int64_t t = 0; t < config.vocab; ++t) {
        EXPECT_NEAR((*found)(r, t), due[static_cast<size_t>(r)][static_cast<size_t>(t)], kAllowed);
      }
    }
  }
}

}  // namespace
}  // namespace attest::transformer
