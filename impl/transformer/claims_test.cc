// What is said of Transformers, held against the layers of this folder.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "impl/transformer/model.h"
#include "impl/transformer/positions.h"
#include "impl/transformer/testing.h"

namespace attest::transformer {
namespace {

using M = Matrix<double>;

// PE(p, 2 c) = sin(p / 10000^(2 c / dim)) and PE(p, 2 c + 1) its cosine, here by logarithms in long
// double. An angle below 64 with a relative error of some 4 * 2^-53 moves the sine by less than 64
// * 4 * 2^-53.
TEST(ClaimsTest, SinusoidalTableIsThePublishedOne) {
  const M table = SinusoidalTable<double>(64, 10);
  for (int64_t p = 0; p < 64; ++p) {
    for (int64_t c = 0; c < 5; ++c) {
      const long double angle = p * std::exp(-2.0L * c / 10 * std::log(10000.0L));
      EXPECT_NEAR(table(p, 2 * c), std::sin(angle), 64 * 0x1p-50);
      EXPECT_NEAR(table(p, 2 * c + 1), std::cos(angle), 64 * 0x1p-50);
    }
  }
}

double RotatedScore(const M& q, const M& k, int64_t i, int64_t j, bool interleaved) {
  M a = q, b = k;
  Rotate(a, q.cols(), {i}, interleaved);
  Rotate(b, k.cols(), {j}, interleaved);
  return (a.row(0).dot(b.row(0)));
}

// A rotation keeps lengths, so that scores are sums of 8 products below 1, each known to a few
// roundings and to those of its angle, which is below 1000.
TEST(ClaimsTest, WithRopeScoresDependOnDistanceAlone) {
  const M q = RandomMatrix(1, 1, 8), k = RandomMatrix(2, 1, 8);
  for (const bool interleaved : {false, true}) {
    for (const int64_t distance : {0, 1, 5, 100}) {
      const double due = RotatedScore(q, k, distance, 0, interleaved);
      for (const int64_t shift : {1, 7, 800}) {
        EXPECT_NEAR(RotatedScore(q, k, distance + shift, shift, interleaved), due,
                    8 * 1000 * 0x1p-51);
      }
    }
    EXPECT_GT(
        std::abs(RotatedScore(q, k, 3, 0, interleaved) - RotatedScore(q, k, 4, 0, interleaved)),
        1e-3);
  }
}

// The mean square of n scores of vectors with independent components of variance 1 and fourth
// moment 9/5.
double MeanSquareOfScores(int64_t n, int64_t dim, double scale) {
  const M q = RandomMatrix(11, n, dim, std::numbers::sqrt3),
          k = RandomMatrix(12, n, dim, std::numbers::sqrt3);
  double sum = 0;
  for (int64_t r = 0; r < n; ++r) sum += std::pow(scale * q.row(r).dot(k.row(r)), 2);
  return sum / static_cast<double>(n);
}

// A score is a sum of dim products of variance 1, so that its variance is dim, and 1 after the
// scale. The square of a scaled score has the variance 2 + (81/25 - 3) / dim, hence the mean of n
// of them a standard deviation of sqrt((2 + 0.24 / dim) / n). Six of them are passed by chance
// twice in 1e9 (and with this seed they are not).
TEST(ClaimsTest, VarianceOfScoresIsOneWithTheScaleAndDimWithout) {
  constexpr int64_t kScores = 4000;
  for (const int64_t dim : {4, 16, 64}) {
    const double size = static_cast<double>(dim);
    const double allowed = 6 * std::sqrt((2 + 0.24 / size) / kScores);
    EXPECT_NEAR(MeanSquareOfScores(kScores, dim, 1 / std::sqrt(size)), 1, allowed);
    EXPECT_NEAR(MeanSquareOfScores(kScores, dim, 1) / size, 1, allowed);
    EXPECT_GT(std::abs(MeanSquareOfScores(kScores, dim, 1) - 1), 2) << "without the scale";
  }
}

// Roundings of a model of two layers in double: some hundred, on numbers of size 10.
constexpr double kModelRounding = 100 * 10 * 0x1p-52;

double Deviation(const M& a, const M& b) {
  return (a - b).cwiseAbs().maxCoeff();
}

void SwapHeads(M& columns, int64_t a, int64_t b, int64_t n) {
  const M kept = columns.middleCols(a * n, n);
  columns.middleCols(a * n, n) = columns.middleCols(b * n, n);
  columns.middleCols(b * n, n) = kept;
}

// Heads are independent: their order is nothing but the order of their rows in Wo.
TEST(ClaimsTest, OrderOfHeadsIsImmaterialIfWoIsPermuted) {
  const Config config = Variation("", Base::kDecoder, {{"kv_heads", "4"}}).config;
  Model<double> model = MakeModel<double>(config);
  const Tokens tokens = Pad(RandomSequences(1, {6}, config.vocab));
  const M due = *Logits(model, tokens);
  MultiHead<double>& heads = model.weights.decoder.blocks[0].self;
  for (Linear<double>* linear : {&heads.q, &heads.k, &heads.v}) {
    SwapHeads(linear->weight, 0, 2, 4);
    SwapHeads(linear->bias, 0, 2, 4);
  }
  EXPECT_GT(Deviation(*Logits(model, tokens), due), 1e-3) << "Wo is not permuted yet";
  M rows = heads.o.weight.transpose();
  SwapHeads(rows, 0, 2, 4);
  heads.o.weight = rows.transpose();
  EXPECT_LE(Deviation(*Logits(model, tokens), due), kModelRounding);
}

// Keys and values come from the same tokens, by projections of their own: neither equal nor bound
// to be.
TEST(ClaimsTest, KeysAndValuesOfOneInputNeedNotBeEqual) {
  const Config config = BaseConfig(Base::kDecoder);
  Model<double> model = MakeModel<double>(config);
  MultiHead<double>& heads = model.weights.decoder.blocks[0].self;
  const M x = RandomMatrix(1, 3, config.dim);
  const Projected<double> p = Project(heads, config, x, x);
  EXPECT_GT(Deviation(p.k, p.v), 0.1);
  const Tokens tokens = Pad(RandomSequences(1, {6}, config.vocab));
  const M due = *Logits(model, tokens);
  heads.v = heads.k;
  EXPECT_GT(Deviation(*Logits(model, tokens), due), 1e-3);
}

// How far the logits of permuted tokens are from the permuted logits.
double PermutationDeviation(const Config& config) {
  const Model<double> model = MakeModel<double>(config);
  const std::vector<int64_t> tokens = RandomSequence(1, 6, config.vocab);
  const std::vector<size_t> order = {3, 5, 0, 1, 4, 2};
  std::vector<int64_t> permuted;
  for (const size_t from : order) permuted.push_back(tokens[from]);
  const M due = *Logits(model, Pad({tokens})), found = *Logits(model, Pad({permuted}));
  double most = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    most = std::max(most,
                    (found.row(static_cast<int64_t>(i)) - due.row(static_cast<int64_t>(order[i])))
                        .cwiseAbs()
                        .maxCoeff());
  }
  return most;
}

TEST(ClaimsTest, EncodersWithoutPositionsAreEquivariantAndDecodersAreNot) {
  EXPECT_LE(PermutationDeviation(Variation("", Base::kEncoder, {{"positions", "none"}}).config),
            kModelRounding);
  EXPECT_GT(PermutationDeviation(BaseConfig(Base::kEncoder)), 1e-3);
  EXPECT_GT(PermutationDeviation(Variation("", Base::kDecoder, {{"positions", "none"}}).config),
            1e-3);
}

// Where the values are linearly dependent, weights can be changed along the null space: here three
// tokens whose values stand on a line. Weights alone say little about what an output came from.
TEST(ClaimsTest, DifferentWeightsCanGiveTheSameOutput) {
  Matrix<double> q(2, 1), k(3, 1), v(3, 2);
  q << 0, std::numbers::ln2;
  k << 0, 1, 0;
  v << 0, 5, 1, 3, 2, 1;  // the middle row is the mean of the others
  AttentionTask<double> task;
  task.batch = task.heads = task.kv_heads = task.head_dim = 1;
  task.q_len = 2;
  task.q = &q;
  task.kv.k = k.data();
  task.kv.len = task.kv.item_rows = task.kv.rows = 3;
  task.visible.key_begin = task.visible.offset = {0};
  task.visible.key_end = {3};
  const auto even = RowWeights(task, 0, 0, 0), peaked = RowWeights(task, 0, 0, 1);
  EXPECT_NEAR(even[1], 1.0 / 3, 0x1p-50);
  EXPECT_NEAR(peaked[1], 1.0 / 2, 0x1p-50);
  for (int64_t c = 0; c < 2; ++c) {
    double a = 0, b = 0;
    for (int64_t j = 0; j < 3; ++j) {
      a += even[static_cast<size_t>(j)] * v(j, c);
      b += peaked[static_cast<size_t>(j)] * v(j, c);
    }
    EXPECT_NEAR(a, b, 0x1p-49);
  }
}

TEST(ClaimsTest, SlopesOfAlibiAreThePublishedOnes) {
  EXPECT_EQ(AlibiSlopes(8),
            (std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8}));
  const std::vector<double> of_six = AlibiSlopes(6);
  EXPECT_EQ(of_six[3], 0x1p-8);
  EXPECT_EQ(of_six[4], 0.5) << "the first of eight";
  EXPECT_EQ(of_six[5], 0.125) << "the third of eight";
}

}  // namespace
}  // namespace attest::transformer
