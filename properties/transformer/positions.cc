// Positions: whether the order of tokens matters, and whether it is distances or places that do.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/random.h"
#include "properties/harness/model/compare_logits.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

std::string NeedsOrderless(const ModelContract& contract, bool) {
  if (contract.kind != ModelKind::kEncoder) return "a decoder's causality is an order by itself";
  return contract.positions == ModelPositions::kNone
             ? ""
             : "the contract does not say that there is no order";
}

std::string NeedsOrder(const ModelContract& contract, bool) {
  const bool has_order = contract.positions == ModelPositions::kAbsolute ||
                         contract.positions == ModelPositions::kRelative;
  if (contract.kind != ModelKind::kEncoder) return "a decoder's causality is an order by itself";
  return has_order ? "" : "the contract does not say that positions matter";
}

std::string NeedsRelative(const ModelContract& contract, bool) {
  if (contract.positions != ModelPositions::kRelative) return "positions are not relative";
  return contract.first_position ? "" : "no first_position is taken";
}

std::vector<size_t> DrawPermutation(uint64_t seed, size_t len) {
  std::vector<size_t> order(len);
  std::iota(order.begin(), order.end(), size_t{0});
  Draw draw(seed);
  for (size_t i = len; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(draw.Below(static_cast<int64_t>(i)))]);
  }
  return order;
}

ModelRequest Permuted(const ModelCase& c, const std::vector<size_t>& order) {
  ModelRequest request = AtOnce(c);
  for (size_t i = 0; i < order.size(); ++i) request.tokens[0][i] = c.tokens[0][order[i]];
  return request;
}

// A set has no order: permute the tokens, and the logits are permuted with them. Sums come in another order,
// so that bits are never promised.
Verdict OrderlessEncodersAreEquivariant(const ModelCase& c, ModelLab& lab) {
  const size_t len = c.tokens[0].size();
  if (len < 2) return SaysNothing("a single token has no order");
  const std::vector<size_t> order = DrawPermutation(c.seed, len);
  const auto answers = lab.Run(std::vector{AtOnce(c), Permuted(c, order)});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), /*promised=*/false);
  for (size_t i = 0; i < len; ++i) {
    comparison.Row(
        (*answers)[0].At(0, order[i]), (*answers)[1].At(0, i), 0, i,
        fmt::format("the tokens were permuted; due is what its token gave at position {}",
                    order[i]));
  }
  return comparison.Finish();
}

// Where positions matter some order of some tokens shows it, by more than a rounding. Several are tried before
// it is said that none does.
Verdict OrderMatters(const ModelCase& c, ModelLab& lab) {
  const size_t len = c.tokens[0].size();
  if (len < 2 || c.tokens[0][0] == c.tokens[0][1]) return SaysNothing("the order is none");
  // ALiBi's distances are the same from either end.
  const bool is_relative = lab.contract().positions == ModelPositions::kRelative;
  if (is_relative && len < 3) return SaysNothing("two tokens have one distance");
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    std::vector<size_t> order = DrawPermutation(MixIn(c.seed, static_cast<uint64_t>(i)), len);
    if (i == 0) {
      std::iota(order.begin(), order.end(), size_t{0});
      std::swap(order[0], order[1]);
    }
    const auto answers = lab.Run(std::vector{AtOnce(c), Permuted(c, order)});
    if (!answers) return answers.error();
    LogitsComparison comparison(lab.contract(), /*promised=*/false);
    for (size_t t = 0; t < len; ++t) {
      comparison.Row((*answers)[0].At(0, order[t]), (*answers)[1].At(0, t), 0, t, "");
    }
    if (comparison.has_failed()) return {};  // it matters
  }
  return ModelFailure(
      Cause::kValue, "logits",
      fmt::format("{} orders of {} tokens give each the same logits, but for roundings: "
                  "positions do not matter",
                  kTries, len));
}

// What roundings of angles leave of a claim about a token at position p, as a share of the largest logit. RoPE
// turns by p f with f <= 1, and in f32 the product is off by at most p f u, u = 2^-24, whatever cosine and sine do; so
// that of a query and a key that are compared from 0 and from p, each angle is off by up to p u more, their
// difference by 2 p u, and a score s by 2 p u |s|. (The rounding of f itself is the same for both and drops out.)
// Weights then move by up to 4 p u |s|, and what they are the means of by that share of its range. How large scores
// are, a black box does not say: the line is drawn at |s| = 4 with every pair off by the most, which is |s| = 37 where
// errors fall off as RoPE's frequencies do (the mean of f is 1 / ln 10000). At position 1000 that is 0.1 per cent of
// the largest logit, at 131072 it is 12.5 per cent; cases begin early often enough (draw_case.cc) to keep the
// claim sharp. Where it passes 1 per cent, scores that are larger still are seen by asking again from a place earlier:
// what that changes is rounding, too (SpreadOf). Angles are taken to be of f32 in coarser models, too: half precision cannot number positions.
double RoundingOfAngles(int64_t position, DType dtype) {
  constexpr double kScore = 4;
  const double u = std::min(TraitsOf(dtype).unit_roundoff, TraitsOf(DType::kF32).unit_roundoff);
  return 4 * kScore * u * static_cast<double>(position);
}

// By how much the logits of an item differ between two answers, as a share of the largest.
double SpreadOf(const ModelAnswer& a, const ModelAnswer& b, size_t item, size_t len) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < len; ++i) {
    const auto from = a.At(item, i), to = b.At(item, i);
    for (size_t v = 0; v < from.size(); ++v) {
      if (!std::isfinite(from[v]) || !std::isfinite(to[v])) continue;
      difference = std::max(difference, std::abs(from[v] - to[v]));
      largest = std::max({largest, std::abs(from[v]), std::abs(to[v])});
    }
  }
  return largest > 0 ? difference / largest : 0;
}

// With rotations and distances the beginning is nowhere.
Verdict RelativePositionsHaveNoBeginning(const ModelCase& c, ModelLab& lab) {
  if (c.first_position.empty()) return SaysNothing("there is no room to begin later");
  constexpr double kCoarse = 0.01, kTimesSpread = 2;
  ModelRequest at_zero = AtOnce(c), a_place_earlier = AtOnce(c);
  at_zero.first_position.clear();
  for (int64_t& first : a_place_earlier.first_position) --first;
  const auto answers = lab.Run(std::vector{at_zero, AtOnce(c), a_place_earlier});
  if (!answers) return answers.error();
  LogitsComparison comparison(lab.contract(), /*promised=*/false);
  for (size_t b = 0; b < c.tokens.size(); ++b) {
    // Of angles that are nothing but rounding nothing is said: a share of 1 is all there is.
    const int64_t last = c.first_position[b] + std::ssize(c.tokens[b]) - 1;
    double share = RoundingOfAngles(last, lab.contract().dtype);
    if (share > kCoarse) {
      share += kTimesSpread * SpreadOf((*answers)[1], (*answers)[2], b, c.tokens[b].size());
    }
    comparison.Allow(std::min(share, 1.0));
    for (size_t i = 0; i < c.tokens[b].size(); ++i) {
      comparison.Row(
          (*answers)[0].At(b, i), (*answers)[1].At(b, i), b, i,
          fmt::format("its first token stands at position {}; due is what it gives from 0",
                      c.first_position[b]));
    }
  }
  return comparison.Finish();
}

constexpr ModelProperty kProperties[] = {
    {"positions.orderless_encoders_are_equivariant",
     "Without positions, permuting the tokens of an encoder permutes its logits.",
     "an encoder with positions: none", 0, NeedsOrderless, OrderlessEncodersAreEquivariant},
    {"positions.order_matters",
     "With positions, some order of an encoder's tokens changes its logits.",
     "an encoder with positions", 0, NeedsOrder, OrderMatters},
    {"positions.relative_ones_have_no_beginning",
     "With relative positions a sequence has the same logits wherever it begins.",
     "positions: relative, first_position", kPartBatch | kPartPosition, NeedsRelative,
     RelativePositionsHaveNoBeginning},
};

}  // namespace

std::span<const ModelProperty> PositionProperties() {
  return kProperties;
}

}  // namespace attest
