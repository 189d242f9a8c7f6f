#include "properties/bench/distributions.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace attest {
namespace {

class Drawer {
 public:
  Drawer(DType dtype, Random& random) : random_(random) { p_.dtype = dtype; }

  void DrawProblem(const SampleShape& shape);
  void FillNormal(double sigma);
  void Fill(Distribution distribution);
  void FillBias(Distribution distribution);
  Sample Finish();

  void SetSize(int64_t rows, int64_t len, int64_t dim, int64_t value_dim) {
    p_.q_len = rows;
    p_.kv_len = len;
    p_.head_dim = dim;
    p_.value_dim = value_dim;
    p_.want_lse = true;
  }
  void Allocate() { in_ = {Array(p_.QShape()), Array(p_.KShape()), Array(p_.VShape()), {}}; }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  double Normal() { return normal_(random_); }
  int64_t LogUniform(int64_t most) {
    const double x = std::exp2(Uniform(0, std::log2(static_cast<double>(most) + 1)));
    return std::clamp<int64_t>(static_cast<int64_t>(x), 1, most);
  }

  void DrawMask();
  void FillHeavyTailed();
  void FillDenormal();
  void FillCancelling();
  void FillTinyWeights();
  void CopyKeys(int64_t distinct);
  template <typename ScoreOf>
  void ChooseScores(double noise, ScoreOf score_of);

  Random& random_;
  std::normal_distribution<double> normal_;
  Problem p_;
  Inputs in_;
};

void Drawer::DrawProblem(const SampleShape& shape) {
  SetSize(shape.rows, LogUniform(shape.max_len), LogUniform(shape.max_dim),
          LogUniform(shape.max_dim));
  if (Below(4) == 0 && shape.max_len >= 64) p_.kv_len = (p_.kv_len + 63) / 64 * 64;
  if (Below(4) == 0) p_.scale = std::exp2(Below(2) ? std::floor(Uniform(-5, 2)) : Uniform(-5, 1));
  DrawMask();
  if (Below(4) == 0) {
    p_.bias.emplace();
    p_.bias->shape = {1, 1, Below(2) ? p_.q_len : 1, p_.kv_len};
    p_.bias->bits.assign(static_cast<size_t>(ElementCount(p_.bias->shape)), 1);
  }
  Allocate();
}

void Drawer::DrawMask() {
  const int64_t kind = Below(4);
  if (kind == 1 || kind == 2) {
    // Diagonals anywhere, so that rows of every length occur; at least one key is left.
    p_.diagonal_offset = {std::max<int64_t>(p_.kv_len - 1 - LogUniform(p_.kv_len), 0)};
    p_.causal = kind == 1;
    if (kind == 2) p_.window = {LogUniform(p_.kv_len), LogUniform(p_.kv_len)};
  } else if (kind == 3) {
    p_.mask.emplace();
    p_.mask->shape = {1, 1, p_.q_len, p_.kv_len};
    const double density = Uniform(0, 1);
    for (int64_t i = 0; i < p_.q_len * p_.kv_len; ++i) {
      p_.mask->bits.push_back(Uniform(0, 1) < density);
    }
  }
}

void Drawer::FillNormal(double sigma) {
  for (Array* tensor : {&in_.q, &in_.k, &in_.v}) {
    for (double& x : tensor->values) x = Normal() * (tensor == &in_.v ? 1 : sigma);
  }
}

void Drawer::FillHeavyTailed() {
  for (Array* tensor : {&in_.q, &in_.k, &in_.v}) {
    for (double& x : tensor->values) x = std::ldexp(Normal(), static_cast<int>(Below(13)) - 6);
  }
}

// Subnormal values of any size, and in half of the cases subnormal q and k as well.
void Drawer::FillDenormal() {
  FillNormal(1);
  const FormatTraits traits = TraitsOf(p_.dtype);
  const auto unit = [&] {
    return std::exp2(Uniform(std::log2(traits.min_subnormal), std::log2(traits.min_normal)));
  };
  const double value_unit = unit(), key_unit = Below(2) ? unit() : 1;
  for (double& v : in_.v.values) v *= value_unit;
  for (Array* tensor : {&in_.q, &in_.k}) {
    for (double& x : tensor->values) x *= key_unit;
  }
}

void Drawer::FillCancelling() {
  FillNormal(1);
  const bool halves = Below(2) != 0;
  const double c = std::exp2(Uniform(-2, 6));
  for (int64_t j = 0; j < p_.kv_len; ++j) {
    const bool negative = halves ? 2 * j >= p_.kv_len : j % 2 != 0;
    for (int64_t d = 0; d < p_.value_dim; ++d) in_.v.At(0, 0, j, d) = negative ? -c : c;
  }
}

// Keys from `distinct` on repeat earlier ones.
void Drawer::CopyKeys(int64_t distinct) {
  for (int64_t j = distinct; j < p_.kv_len; ++j) {
    const int64_t source = Below(distinct);
    for (int64_t d = 0; d < p_.head_dim; ++d) in_.k.At(0, 0, j, d) = in_.k.At(0, 0, source, d);
  }
}

// Makes the score of key j about score_of(j) for the first row (the other rows are close to it):
// k_j = score q / (scale |q|^2), plus `noise` times a normal vector. V stays normal.
template <typename ScoreOf>
void Drawer::ChooseScores(double noise, ScoreOf score_of) {
  FillNormal(1);
  double square = 0;
  for (int64_t d = 0; d < p_.head_dim; ++d) {
    double& q = in_.q.At(0, 0, 0, d);
    if (std::abs(q) < 0.25) q = std::copysign(0.25, q);
    q = RoundTo(p_.dtype, q);
    square += q * q;
  }
  for (int64_t i = 1; i < p_.q_len; ++i) {
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      in_.q.At(0, 0, i, d) = in_.q.At(0, 0, 0, d) * (1 + noise * Normal());
    }
  }
  const double unit = 1 / (p_.EffectiveScale() * square);
  for (int64_t j = 0; j < p_.kv_len; ++j) {
    const double score = score_of(j);
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      in_.k.At(0, 0, j, d) = score * unit * in_.q.At(0, 0, 0, d) + noise * Normal();
    }
  }
}

// Weights around the least normal and subnormal of the type they are rounded to, on values so large
// that what is lost of them shows.
void Drawer::FillTinyWeights() {
  const FormatTraits traits = TraitsOf(p_.dtype);
  const double least = std::log2(traits.min_subnormal), normal = std::log2(traits.min_normal);
  ChooseScores(0, [&](int64_t j) {
    return j == 0 ? 0 : std::numbers::ln2 * Uniform(least - 3, normal + 3);
  });
  // Four places below the end of the range: normal values reach 2^3 at times.
  const double factor = std::exp2(Uniform(0, std::log2(traits.max_finite) - 4));
  const double first = Below(2) ? 1 : 0;
  for (int64_t j = 0; j < p_.kv_len; ++j) {
    for (int64_t d = 0; d < p_.value_dim; ++d) in_.v.At(0, 0, j, d) *= j == 0 ? first : factor;
  }
}

void Drawer::Fill(Distribution distribution) {
  switch (distribution) {
    case Distribution::kNormal:
      return FillNormal(1);
    case Distribution::kHeavyTailed:
      return FillHeavyTailed();
    case Distribution::kScoresTo30:
      return ChooseScores(0.01, [&](int64_t) { return Uniform(-30, 30); });
    case Distribution::kScoresTo1e4: {
      const double most = std::exp2(Uniform(5, 13.3));
      return ChooseScores(0.01, [&](int64_t) { return Uniform(-most, most); });
    }
    case Distribution::kOneHot: {
      const int64_t chosen = Below(p_.kv_len);
      return ChooseScores(0.01, [&](int64_t j) { return j == chosen ? 40 : Uniform(-2, 0); });
    }
    case Distribution::kEqualKeys:
      FillNormal(1);
      return CopyKeys(1);
    case Distribution::kFewKeys:
      FillNormal(2);
      return CopyKeys(std::min<int64_t>(p_.kv_len, 2 + Below(4)));
    case Distribution::kCancelling:
      return FillCancelling();
    case Distribution::kDenormals:
      return FillDenormal();
    case Distribution::kSmallIntegers:
      for (Array* tensor : {&in_.q, &in_.k, &in_.v}) {
        for (double& x : tensor->values) x = static_cast<double>(Below(7) - 3);
      }
      return;
    case Distribution::kPositiveValues:
      FillNormal(1);
      for (double& x : in_.v.values) x = 0.5 + std::abs(x);
      return;
    case Distribution::kNearTies: {
      const double height = (Below(2) ? 1 : -1) * std::exp2(Uniform(6, 13.3));
      return ChooseScores(0, [&](int64_t) { return height + Normal(); });
    }
    case Distribution::kVeryNegative: {
      const double height = -std::exp2(Uniform(6.6, 12));
      return ChooseScores(0.01, [&](int64_t) { return height - std::abs(Normal()); });
    }
    case Distribution::kTinyWeights:
      return FillTinyWeights();
  }
}

void Drawer::FillBias(Distribution distribution) {
  if (!p_.bias) return;
  in_.bias = Array(p_.bias->shape);
  const bool is_deep = distribution == Distribution::kVeryNegative;
  const double shift = is_deep ? -200 : Below(4) == 0 ? Uniform(-1000, 1000) : 0;
  for (double& x : in_.bias.values) x = shift + 2 * Normal();
}

Sample Drawer::Finish() {
  for (Array* tensor : {&in_.q, &in_.k, &in_.v, &in_.bias}) {
    for (double& x : tensor->values) x = RoundTo(p_.dtype, x);
  }
  return {std::move(p_), std::move(in_)};
}

}  // namespace

std::string_view Name(Distribution distribution) {
  constexpr std::array<std::string_view, kDistributionCount> kNames = {
      "normal",     "heavy-tailed", "|s| to 30",    "|s| to 1e4",  "one-hot",
      "equal keys", "2-5 keys",     "cancelling V", "denormals",   "small integers",
      "positive V", "near-ties",    "max s < -90",  "tiny weights"};
  return kNames[static_cast<size_t>(distribution)];
}

Sample DrawSample(Distribution distribution, DType dtype, const SampleShape& shape,
                  Random& random) {
  Drawer drawer(dtype, random);
  drawer.DrawProblem(shape);
  drawer.Fill(distribution);
  drawer.FillBias(distribution);
  return drawer.Finish();
}

Sample DrawNormalSample(DType dtype, int64_t rows, int64_t len, int64_t dim, Random& random) {
  Drawer drawer(dtype, random);
  drawer.SetSize(rows, len, dim, dim);
  drawer.Allocate();
  drawer.FillNormal(1);
  return drawer.Finish();
}

}  // namespace attest
