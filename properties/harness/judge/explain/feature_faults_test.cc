#include "properties/harness/judge/explain/feature_faults.h"

#include <cmath>
#include <random>

#include "properties/harness/judge/explain/testing.h"

namespace attest {
namespace {

void Capped(Problem& p) {
  p.softcap = 1.5;
  p.alibi_slopes = {2, 1, 0.5, 0.25};
}
void FirstRowSeesOneKey(Problem& p) {
  Capped(p);
  p.causal = true;
}
void Sunk(Problem& p) {
  p.causal = true;
  p.diagonal_offset = {2, 6};
  p.sinks = {1, 0, 2, -1};
}
void SunkAndCapped(Problem& p) {
  Sunk(p);
  p.softcap = 1.5;
}
void Dropped(Problem& p) {
  p.dropout = Dropout{0.25, RandomPlane(p)};
}
void Scored(Problem& p) {
  Capped(p);
  p.want_scores = ScoreMode::kCapped;
}

std::vector<FaultyKernel> FeatureFaults() {
  const auto documents = [](Problem& p) {
    p.documents.emplace();
    for (int64_t n = 0; n < p.batch * p.q_len; ++n)
      p.documents->query.push_back((n + n / 7) % 7 / 3);
    for (int64_t n = 0; n < p.batch * p.kv_len; ++n) p.documents->key.push_back(n % 11 / 5);
  };
  const auto blocks = [](Problem& p) {
    p.block_mask = BlockMask{7, 4, {{1, 1, 1, 3}, 4, {1, 0, 1}}};
  };
  const auto many_blocks = [](Problem& p) {
    p.block_mask = BlockMask{7, 4, {{1, 4, 1, 3}, 4, {1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1}}};
  };
  const auto slid_alibi = [](Problem& p) {
    p.diagonal_offset = {2, 6};
    p.alibi_slopes = {2, 1, 0.5, 0.25};
  };
  const auto prefix = [](Problem& p) {
    p.causal = true;
    p.prefix_lengths = {3, 6};
  };
  return {
      {"softcap-ignored", Capped, Solves([](Problem& p) { p.softcap = 0; })},
      {"softcap-order", Capped,
       [](const Problem& p, const Inputs& inputs) {
         Semantics other = Strict().semantics;
         other.softcap_order = SoftcapOrder::kAfterBias;
         return RoundedOutcome(p, inputs, other);
       }},
      {"alibi-ignored", Capped, Solves([](Problem& p) { p.alibi_slopes.reset(); })},
      {"sinks-ignored", Sunk, Solves([](Problem& p) { p.sinks.reset(); })},
      {"causal-ignored", Sunk, Solves([](Problem& p) { p.causal = false; })},
      {"diagonal-top-left", Sunk, Solves([](Problem& p) { p.diagonal_offset.clear(); })},
      {"diagonal-slid", Sunk, Solves([](Problem& p) {
         p.diagonal_offset = {1, 5};
       })},
      {"dropout-ignored", Dropped, Solves([](Problem& p) { p.dropout.reset(); })},
      {"dropout-unscaled", Dropped, Solves([](Problem& p) { p.dropout->probability = 0; })},
      {"documents-ignored", documents, Solves([](Problem& p) { p.documents.reset(); })},
      {"blocks-ignored", blocks, Solves([](Problem& p) { p.block_mask.reset(); })},
      {"prefix-ignored", prefix, Solves([](Problem& p) { p.prefix_lengths.reset(); })},
      {"scores-mode", Scored, Solves([](Problem& p) { p.want_scores = ScoreMode::kRaw; })},
      {"scores-mode", Scored, Solves([](Problem& p) { p.want_scores = ScoreMode::kBiased; })},
      {"head-0-for-all", Capped, Solves([](Problem& p) {
         p.alibi_slopes = {2, 2, 2, 2};
       })},
      {"head-0-for-all", Sunk, Solves([](Problem& p) {
         p.sinks = {1, 1, 1, 1};
       })},
      {"batch-0-for-all", prefix, Solves([](Problem& p) {
         p.prefix_lengths = {3, 3};
       })},
      {"batch-0-for-all", documents, Solves([](Problem& p) {
         for (int64_t n = 0; n < p.q_len; ++n) p.documents->query[7 + n] = p.documents->query[n];
         for (int64_t n = 0; n < p.kv_len; ++n) p.documents->key[11 + n] = p.documents->key[n];
       })},
      {"head-0-for-all", many_blocks, Solves([](Problem& p) {
         for (size_t n = 3; n < 12; ++n) p.block_mask->plane.bits[n] = n % 3 == 1 ? 0 : 1;
       })},
      {"alibi-anchor", slid_alibi, Solves([](Problem& p) { p.diagonal_offset.clear(); })},
      {"alibi-slopes", Capped, Solves([](Problem& p) {
         p.alibi_slopes = {0.25, 0.0625, 0.015625, 0.00390625};
       })},
      {"alibi-slopes", Capped, Solves([](Problem& p) {
         for (double& slope : *p.alibi_slopes) slope = -slope;
       })},
      {"sinks-capped", SunkAndCapped, Solves([](Problem& p) {
         for (double& sink : *p.sinks) sink = p.softcap * std::tanh(sink / p.softcap);
       })},
      {"softcap-value", FirstRowSeesOneKey, Solves([](Problem& p) { p.softcap = 2.5; })},
      {"head-dim-tail", Capped,
       [](const Problem& p, Inputs inputs) {
         for (size_t n = 0; n < inputs.q.values.size(); ++n) {
           if (n % 6 >= 4) inputs.q.values[n] = 0;
         }
         return RoundedOutcome(p, inputs);
       }},
      {"sinks-scaled", Sunk, Solves([](Problem& p) {
         for (double& sink : *p.sinks) sink *= p.EffectiveScale();
       })},
      {"sinks-scaled", Sunk, Solves([](Problem& p) {
         for (double& sink : *p.sinks) sink *= std::log(2.0);
       })},
      {"sinks-repeated", Sunk, Solves([](Problem& p) {
         for (double& sink : *p.sinks) sink += std::log(3.0);
       })},
      // Five keys fill up a tile of 16, at the least score that a softcap of 1.5 leaves.
      {"padded-keys-attended", Capped,
       Solves([](Problem& p) { p.sinks = std::vector<double>(4, std::log(5.0) - 1.5); })},
      {"padded-keys-attended", Sunk, Solves([](Problem& p) {
         for (double& sink : *p.sinks) sink = std::log(std::exp(sink) + 5);
       })},
      {"dropout-scale", Dropped, Solves([](Problem& p) { p.dropout->probability = 0.2505; })},
      {"dropout-order", Dropped, Solves([](Problem& p) {
         p.mask = p.dropout->keep;
         p.dropout.reset();
       })},
  };
}

TEST(FeatureFaultsTest, FeaturesThatAreIgnoredOrTakenOtherwiseAreNamed) {
  ExpectNamed(FeatureFaults());
}

// The kernel sees what `sees` says in place of what the problem does; what it must not see is given by a mask.
std::function<Outcome(Problem, Inputs)> Sees(
    std::function<bool(const Problem&, const Row&, int64_t)> sees) {
  return [sees](const Problem& p, const Inputs& inputs) {
    Problem seen = p;
    BitPlane plane{p.WeightsShape(), 4, {}};
    ForEachRow(p, [&](const Row& row) {
      for (int64_t j = 0; j < p.kv_len; ++j) plane.bits.push_back(sees(p, row, j) ? 1 : 0);
    });
    seen.causal = false;
    seen.window = {};
    seen.key_lengths.reset();
    seen.prefix_lengths.reset();
    seen.mask = std::move(plane);
    return RoundedOutcome(seen, inputs);
  };
}

TEST(FeatureFaultsTest, PlacesThatAreTakenForOthersAreNamed) {
  const auto window = [](Problem& p) {
    p.causal = true;
    p.diagonal_offset = {4, 4};
    p.window = {3, 1};
  };
  const auto packed_left = [](const Problem& p, const Row& row, int64_t j) {
    const int64_t place = row.query + p.DiagonalOffset(row.batch);
    return j <= place && j >= row.query * 2 + row.head % 2 + p.DiagonalOffset(row.batch) - 3;
  };
  const auto packed = [](const Problem& p, const Row& row, int64_t j) {
    return j <= row.head % 2 * p.q_len + row.query + p.DiagonalOffset(row.batch);
  };
  const auto prefix = [](Problem& p) {
    p.causal = true;
    p.prefix_lengths = {7, 6};
    p.key_lengths = {5, 9};
  };
  const auto reopened = [](const Problem& p, const Row& row, int64_t j) {
    const auto b = static_cast<size_t>(row.batch);
    return j < (*p.prefix_lengths)[b] || (j <= row.query && j < (*p.key_lengths)[b]);
  };
  const auto masks = [](Problem& p) {
    std::mt19937_64 random(6);
    p.mask = BitPlane{{2, 1, 7, 11}, 4, {}};
    for (int n = 0; n < 2 * 7 * 11; ++n) p.mask->bits.push_back(random() % 3 != 0);
  };
  const auto repeated = [](const Problem& p, const Row& row, int64_t j) {
    return p.mask->At((row.batch * p.q_heads + row.head) % p.batch, 0, row.query, j) != 0;
  };
  ExpectNamed({{"packed-row-index", window, Sees(packed_left)},
               {"packed-row-index", Causal, Sees(packed)},
               {"lengths-ignored", prefix, Sees(reopened)},
               {"lengths-mistaken", Padded, Solves([](Problem& p) {
                  p.key_lengths = {9, 9};
                })},
               {"mask-head-major", masks, Sees(repeated)}});
}

// A number that is free would explain any one row: round ones are named, and those that all rows agree on.
TEST(FeatureFaultsTest, NumbersThatNothingSpeaksForAreNotNamed) {
  Problem p = OpenProblem();
  FirstRowSeesOneKey(p);
  const Inputs inputs = InputsOf(p);
  Problem other = p;
  other.softcap = 2.5317;
  EXPECT_NE(Shown(p, inputs, RoundedOutcome(other, inputs)).Explain().cause_class, "softcap-value");
  p = OpenProblem();
  Dropped(p);
  other = p;
  other.dropout->probability = 0.2505;
  Outcome uneven = RoundedOutcome(other, inputs);
  uneven.out.values[3] *= 1.001;
  EXPECT_NE(Shown(p, inputs, uneven).Explain().cause_class, "dropout-scale");
}

// The scores alone are those of another problem; out and lse are right.
FaultyKernel ScoresOnly(std::string_view cause_class, ScoreMode mode,
                        std::function<void(Problem&)> set_up,
                        std::function<void(Problem&)> change) {
  return {cause_class,
          [mode, set_up = std::move(set_up)](Problem& p) {
            set_up(p);
            p.want_scores = mode;
          },
          [change = std::move(change)](const Problem& p, const Inputs& inputs) {
            Problem other = p;
            change(other);
            Outcome outcome = RoundedOutcome(p, inputs);
            const Inputs of_other{inputs.q, inputs.k, inputs.v, other.bias ? inputs.bias : Array{}};
            outcome.scores = RoundedOutcome(other, of_other).scores;
            return outcome;
          }};
}

TEST(FeatureFaultsTest, ScoresThatAloneAreWrongGetCausesOfTheirOwn) {
  // Beside what makes every step another one.
  const auto masked = [](Problem& p) {
    Capped(p);
    p.mask = RandomPlane(p);
  };
  const auto biased = [](Problem& p) {
    Capped(p);
    p.bias = RandomPlane(p);
  };
  using enum ScoreMode;
  ExpectNamed({
      ScoresOnly("scores-mode", kRaw, Capped, [](Problem& p) { p.want_scores = kCapped; }),
      ScoresOnly(
          "scale", kRaw, [](Problem&) {}, [](Problem& p) { p.scale = 1; }),
      ScoresOnly("mask-ignored", kBiased, masked, [](Problem& p) { p.mask.reset(); }),
      ScoresOnly("bias-ignored", kBiased, biased, [](Problem& p) { p.bias.reset(); }),
      ScoresOnly("causal-ignored", kWeights, Sunk, [](Problem& p) { p.causal = false; }),
  });
}

// A rule of rows says nothing of scores, whatever it makes of the rest.
TEST(FeatureFaultsTest, ScoresThatNothingExplainsGetNoCause) {
  for (const ScoreMode mode :
       {ScoreMode::kRaw, ScoreMode::kCapped, ScoreMode::kBiased, ScoreMode::kWeights}) {
    Problem p = OpenProblem();
    p.want_scores = mode;
    const Inputs inputs = InputsOf(p);
    Outcome outcome = RoundedOutcome(p, inputs);
    for (size_t n = 0; n < outcome.scores.values.size(); n += 3) outcome.scores.values[n] += 0.5;
    const Explanation found = Shown(p, inputs, outcome).Explain();
    EXPECT_EQ(found.phrase, "") << found.cause_class;
  }
}

TEST(FeatureFaultsTest, NothingIsNamedWhereOneRowContradicts) {
  Problem p = OpenProblem();
  Sunk(p);
  const Inputs inputs = InputsOf(p);
  Problem without = p;
  without.sinks.reset();
  Outcome outcome = RoundedOutcome(without, inputs);
  Shown shown(p, inputs, outcome);
  const Mismatch m = shown.mismatch();
  const std::vector<Row> some = {{0, 0, 3}, {1, 3, 6}};
  const auto found = FeatureFaults(m, some, {}, CausesWanted::kBest);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].cause_class, "sinks-ignored");
  outcome.out.At(1, 3, 6, 0) += 1;
  Shown spoilt(p, inputs, outcome);
  EXPECT_TRUE(FeatureFaults(spoilt.mismatch(), some, {}, CausesWanted::kEvery).empty());
}

}  // namespace
}  // namespace attest
