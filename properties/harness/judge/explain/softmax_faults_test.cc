// Faults of the softmax, each made by a loop of its own over plain scores.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "properties/harness/judge/explain/testing.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Scores of one row, as a kernel's own loop has them.
using Scores = std::vector<double>;

Scores ScoresOf(const Problem& p, const Inputs& inputs, const Row& row) {
  Scores scores;
  for (int64_t j = 0; j < p.kv_len; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < p.head_dim; ++c) {
      dot += inputs.q.At(row.batch, row.head, row.query, c) *
             inputs.k.At(row.batch, row.head / p.heads_per_kv_head(), j, c);
    }
    scores.push_back(p.EffectiveScale() * dot);
  }
  return scores;
}

// The softmax, and the weighed values, of what `change` makes of every row's scores.
std::function<Outcome(Problem, Inputs)> Softmaxes(
    std::function<void(const Problem&, const Row&, Scores&)> change) {
  return [change](const Problem& p, const Inputs& inputs) {
    Outcome outcome = RoundedOutcome(p, inputs);
    ForEachRow(p, [&](const Row& row) {
      Scores scores = ScoresOf(p, inputs, row);
      change(p, row, scores);
      const double max = *std::ranges::max_element(scores);
      double sum = 0;
      for (double& s : scores) sum += s = std::exp(s - max);
      outcome.lse.At(row.batch, row.head, row.query, 0) =
          RoundTo(p.LseDType(), max + std::log(sum));
      for (int64_t d = 0; d < p.value_dim; ++d) {
        double out = 0;
        for (int64_t j = 0; j < p.kv_len; ++j) {
          out += scores[static_cast<size_t>(j)] / sum *
                 inputs.v.At(row.batch, row.head / p.heads_per_kv_head(), j, d);
        }
        outcome.out.At(row.batch, row.head, row.query, d) = RoundTo(p.dtype, out);
      }
    });
    return outcome;
  };
}

void CapAll(const Problem& p, const Row& row, Scores& scores) {
  for (int64_t j = 0; j < p.kv_len; ++j) {
    double& s = scores[static_cast<size_t>(j)];
    if (!Visible(p, row, j)) s = -1e30;
    s = p.softcap * std::tanh(s / p.softcap);
  }
}

// Tiles of four keys, each weighed by its own maximum, and summed up as if by the running one.
void WeighByOwnMaximum(const Problem& p, const Row&, Scores& scores) {
  double running = -kInf;
  for (int64_t first = 0; first < p.kv_len; first += 4) {
    const auto begin = scores.begin() + first;
    const auto end = scores.begin() + std::min(first + 4, p.kv_len);
    const double own = *std::max_element(begin, end);
    running = std::max(running, own);
    for (auto s = begin; s != end; ++s) *s += running - own;
  }
}

TEST(SoftmaxFaultsTest, FaultsOfTheSoftmaxAreNamed) {
  const auto capped = [](Problem& p) {
    p.softcap = 1.5;
    p.mask = RandomPlane(p);
  };
  ExpectNamed({{"hidden-before-softcap", capped, Softmaxes(CapAll)},
               {"rescale-missing", [](Problem&) {}, Softmaxes(WeighByOwnMaximum)}});
}

// A finite number in place of a hidden key's score, or added to it.
auto Filled(double fill, bool is_added) {
  return Softmaxes([=](const Problem& p, const Row& row, Scores& scores) {
    for (int64_t j = 0; j < p.kv_len; ++j) {
      double& s = scores[static_cast<size_t>(j)];
      if (!Visible(p, row, j)) s = is_added ? s + fill : fill;
    }
  });
}

TEST(SoftmaxFaultsTest, FiniteScoresOfHiddenKeysAreNamed) {
  ExpectNamed({{"hidden-finite", Causal, Filled(-10, /*is_added=*/true)},
               {"hidden-finite", Causal, Filled(-1, /*is_added=*/false)},
               {"hidden-finite", Padded, Filled(-10, /*is_added=*/false)}});
}

// Scores of about -20000 each, of which no key that is let in by mistake, nor anything else, would be seen.
TEST(SoftmaxFaultsTest, AFillThatOutweighsWhatIsSeenIsNamedByItsNumber) {
  Problem p = OpenProblem();
  p.scale = 1;
  Causal(p);
  p.mask = RandomPlane(p);
  Inputs inputs = InputsOf(p);
  for (double& x : inputs.q.values) x = 55 + x;
  for (double& x : inputs.k.values) x = -60 + x;
  const Explanation found = Shown(p, inputs, Filled(-1e4, /*is_added=*/false)(p, inputs)).Explain();
  EXPECT_EQ(found.cause_class, "hidden-finite") << found.phrase;
  EXPECT_THAT(found.phrase,
              testing::StartsWith("as if hidden keys kept a finite score, such as -10000"));
}

TEST(SoftmaxFaultsTest, AScaleInSixteenBitsIsNamedAsSuch) {
  const Problem p = OpenProblem();
  const Inputs inputs = InputsOf(p);
  Problem other = p;
  other.scale = RoundTo(DType::kBF16, p.EffectiveScale());
  const Explanation found = Shown(p, inputs, RoundedOutcome(other, inputs)).Explain();
  EXPECT_EQ(found.cause_class, "scale");
  EXPECT_THAT(found.phrase, testing::HasSubstr("the scale were rounded to bf16"));
}

}  // namespace
}  // namespace attest
