// Tiny models learn what can be learnt, and cannot learn what cannot.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "impl/transformer/batcher.h"
#include "impl/transformer/optimizer.h"
#include "impl/transformer/session.h"
#include "impl/transformer/testing.h"

namespace attest::transformer {
namespace {

using Sequences = std::vector<std::vector<int64_t>>;

Config Tiny(Base base, std::map<std::string, std::string> options = {}) {
  options.insert({{"dim", "8"},
                  {"heads", "2"},
                  {"kv_heads", "2"},
                  {"hidden", "16"},
                  {"layers", "1"},
                  {"vocab", "8"}});
  Config config = Variation("", base, options).config;
  config.dropout = 0;
  return config;
}

TEST(TrainingTest, ADecoderLearnsATextByHeart) {
  Config config = Tiny(Base::kDecoder);
  config.vocab = kByteVocab;
  config.dim = 16;
  Model<float> model = MakeModel<float>(config);
  const std::string text = "attention is all you need";
  const Lesson lesson = MakeLesson({EncodeBytes(text)}, 32, false);
  const auto losses = Train<float>(model, 120, 0.02, [&](int64_t) { return lesson; });
  ASSERT_TRUE(losses) << losses.error();
  EXPECT_GT(losses->front(), 4) << "at first it knows nothing of 257 tokens";
  EXPECT_LT(losses->back(), 0.1);
  const auto said = Generate(model, {EncodeBytes("atte", /*end=*/false)}, 22, /*with_cache=*/true);
  ASSERT_TRUE(said) << said.error();
  EXPECT_EQ(DecodeBytes(said->at(0)).value_or(""), text);
}

// Says the source backwards, which only cross-attention can know.
TEST(TrainingTest, AnEncoderDecoderLearnsToReverse) {
  const Config config =
      Tiny(Base::kEncoderDecoder, {{"dim", "16"}, {"placement", "pre"}, {"positions", "learned"}});
  Model<float> model = MakeModel<float>(config);
  const auto sources = [&](int64_t step) {
    return RandomSequences(static_cast<uint64_t>(step), Sequences::value_type(16, 3),
                           config.vocab - 1);
  };
  const auto lesson = [&](int64_t step) {
    Sequences targets;
    for (const auto& source : sources(step)) {
      targets.push_back({7, source[2], source[1], source[0]});
    }
    return MakeLesson(targets, 4, false);
  };
  const auto losses =
      Train<float>(model, 400, 0.01, lesson, [&](int64_t step) { return Pad(sources(step)); });
  ASSERT_TRUE(losses) << losses.error();
  const double chance = std::log(7.0);
  EXPECT_GT(losses->front(), chance);
  EXPECT_LT(losses->back(), chance / 4) << "on tokens that it has never seen";
}

// The loss on fresh lessons of independent uniform tokens, after training on such.
struct Fresh {
  double loss;
  double targets;
};

Fresh LossOnFreshDice(Fault fault) {
  const Config config = Tiny(Base::kGpt);
  Model<float> model = MakeModel<float>(config);
  const auto lesson = [&](int64_t step) {
    return MakeLesson(
        RandomSequences(static_cast<uint64_t>(step), Sequences::value_type(8, 7), config.vocab), 8,
        /*pack=*/false, fault);
  };
  EXPECT_TRUE(Train<float>(model, 150, 0.02, lesson));
  Fresh fresh{0, 0};
  for (int64_t step = 1000; step < 1020; ++step) {
    const Lesson unseen = lesson(step);
    fresh.loss += unseen.TotalWeight() * CrossEntropy(*Logits(model, unseen.inputs), unseen);
    fresh.targets += unseen.TotalWeight();
  }
  fresh.loss /= fresh.targets;
  return fresh;
}

// A likelihood ratio: under an honest batcher each fresh target is uniform given the inputs up to
// it, so that product(model's probability * V) over n of them has mean 1, and by Markov's
// inequality is above 1e9 once in 1e9: the mean loss is below ln V - ln(1e9) / n no more often.
double LeastLoss(double targets) {
  return std::log(8.0) - std::log(1e9) / targets;
}

TEST(TrainingTest, NoHonestBatcherLetsALossBeatChance) {
  const Fresh honest = LossOnFreshDice(Fault::kNone);
  EXPECT_GT(honest.loss, LeastLoss(honest.targets));
  RecordProperty("loss", std::to_string(honest.loss));
  RecordProperty("bound", std::to_string(LeastLoss(honest.targets)));
}

TEST(TrainingTest, ALeakyBatcherIsFoundByItsLoss) {
  for (const Fault fault : {Fault::kTargetNotShifted, Fault::kTargetShiftedBackwards}) {
    const Fresh leaky = LossOnFreshDice(fault);
    EXPECT_LT(leaky.loss, LeastLoss(leaky.targets));
    RecordProperty("loss" + std::to_string(static_cast<int>(fault)), std::to_string(leaky.loss));
  }
}

TEST(TrainingTest, DropoutIsOfTrainingAlone) {
  const Config config = BaseConfig(Base::kGpt);
  const Model<double> model = MakeModel<double>(config);
  const Lesson lesson = MakeLesson({{1, 2, 3, 4}}, 4, false);
  Weights<double> gradient = ZerosLike<double>(config);
  const double eval = CrossEntropy(*Logits(model, lesson.inputs), lesson);
  EXPECT_EQ(*LossAndGradient(model, lesson, nullptr, gradient), eval);
  const double one = *LossAndGradient(model, lesson, nullptr, gradient, 1);
  EXPECT_NE(one, eval);
  EXPECT_EQ(*LossAndGradient(model, lesson, nullptr, gradient, 1), one) << "a seed is a mask";
  EXPECT_NE(*LossAndGradient(model, lesson, nullptr, gradient, 2), one);
}

}  // namespace
}  // namespace attest::transformer
