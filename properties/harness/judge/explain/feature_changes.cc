#include "properties/harness/judge/explain/feature_changes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <optional>

#include <fmt/format.h>

namespace attest {
namespace {

// Takes `member` out of the problem.
template <typename T>
FeatureChange Without(std::string_view cause_class, std::string phrase,
                      std::optional<T> Problem::*member) {
  return {cause_class, std::move(phrase), [=](const Problem& p) { return (p.*member).has_value(); },
          [=](Problem& p, Inputs&, Semantics&) { (p.*member).reset(); }};
}

FeatureChange ScoresOf(ScoreMode mode, std::string phrase) {
  return {"scores-mode", std::move(phrase),
          [=](const Problem& p) { return p.want_scores && p.want_scores != mode; },
          [=](Problem& p, Inputs&, Semantics&) { p.want_scores = mode; }};
}

// ALiBi as an additive mask whose distances start at the top left.
void AnchorAlibiTopLeft(Problem& p, Inputs& inputs, Semantics&) {
  Problem top_left = p;
  top_left.diagonal_offset.clear();
  const Array before = inputs.bias;
  BitPlane plane{p.WeightsShape(), 4, {}};
  inputs.bias = Array(plane.shape);
  ForEachRow(p, [&](const Row& row) {
    for (int64_t j = 0; j < p.kv_len; ++j) {
      plane.bits.push_back(!p.bias || p.bias->At(row.batch, row.head, row.query, j) ? 1 : 0);
      inputs.bias.At(row.batch, row.head, row.query, j) =
          top_left.Alibi(row.batch, row.head, row.query, j) +
          (p.bias ? before.Broadcast(row.batch, row.head, row.query, j) : 0);
    }
  });
  p.bias = std::move(plane);
  p.alibi_slopes.reset();
}

// The slopes that implementations make for themselves: 2^(-8 (h + 1) / heads); and, as the paper has it where heads are
// no power of two, those of the next lower one, then every other one of twice as many.
std::vector<double> OneRowOfSlopes(int64_t heads) {
  std::vector<double> slopes;
  for (int64_t h = 0; h < heads; ++h) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(heads)));
  }
  return slopes;
}

std::vector<double> SlopesOfThePaper(int64_t heads) {
  const auto lower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes = OneRowOfSlopes(lower);
  const std::vector<double> finer = OneRowOfSlopes(2 * lower);
  for (size_t n = 0; std::ssize(slopes) < heads; n += 2) slopes.push_back(finer[n]);
  return slopes;
}

FeatureChange SlopesOf(std::string phrase, std::vector<double> (*slopes)(int64_t)) {
  return {"alibi-slopes", std::move(phrase),
          [=](const Problem& p) {
            return p.alibi_slopes && p.q_heads > 0 && *p.alibi_slopes != slopes(p.q_heads);
          },
          [=](Problem& p, Inputs&, Semantics&) { p.alibi_slopes = slopes(p.q_heads); }};
}

// The mask that dropout is, before the softmax.
void DropBefore(Problem& p, Inputs&, Semantics&) {
  BitPlane both = p.dropout->keep;
  if (p.mask) {
    size_t flat = 0;
    ForEachRow(p, [&](const Row& row) {
      for (int64_t j = 0; j < p.kv_len; ++j, ++flat) {
        if (!p.mask->At(row.batch, row.head, row.query, j)) both.bits[flat] = 0;
      }
    });
  }
  p.mask = std::move(both);
  p.dropout.reset();
}

FeatureChange SinksTimes(std::string phrase, double (*factor)(const Problem&)) {
  return {"sinks-scaled", std::move(phrase),
          [=](const Problem& p) { return p.sinks && factor(p) != 1; },
          [=](Problem& p, Inputs&, Semantics&) {
            for (double& sink : *p.sinks) sink *= factor(p);
          }};
}

FeatureChange SlidDiagonal(int64_t by) {
  return {"diagonal-slid",
          fmt::format("the diagonal lay one key too {}", by > 0 ? "late" : "early"),
          [](const Problem& p) { return p.causal; },
          [by](Problem& p, Inputs&, Semantics&) {
            p.diagonal_offset.resize(static_cast<size_t>(p.batch), 0);
            for (int64_t& offset : p.diagonal_offset) offset += by;
          }};
}

FeatureChange WindowEnd(std::string_view cause_class, std::string_view name,
                        std::optional<int64_t> Window::*side, int64_t by) {
  return {cause_class,
          fmt::format("the window held one key {} at its {} end", by > 0 ? "more" : "fewer", name),
          [side](const Problem& p) { return (p.window.*side).has_value(); },
          [side, by](Problem& p, Inputs&, Semantics&) { *(p.window.*side) += by; }};
}

FeatureChange LengthsOff(int64_t by) {
  return {"lengths-off-by-one", fmt::format("key lengths were one {}", by > 0 ? "more" : "fewer"),
          [](const Problem& p) { return p.key_lengths.has_value(); },
          [by](Problem& p, Inputs&, Semantics&) {
            for (int64_t& length : *p.key_lengths) {
              length = std::clamp<int64_t>(length + by, 0, p.kv_len);
            }
          }};
}

}  // namespace

FeatureChanges IgnoredFeatures() {
  return {
      {"softcap-ignored", "the softcap were ignored",
       [](const Problem& p) { return p.softcap > 0; },
       [](Problem& p, Inputs&, Semantics&) { p.softcap = 0; }},
      {"softcap-order", "the softcap came at the other side of the bias",
       [](const Problem& p) { return p.softcap > 0 && (p.bias || p.alibi_slopes); },
       [](Problem&, Inputs&, Semantics& s) {
         s.softcap_order = s.softcap_order == SoftcapOrder::kBeforeBias ? SoftcapOrder::kAfterBias
                                                                        : SoftcapOrder::kBeforeBias;
       }},
      Without("sinks-ignored", "the sinks were ignored", &Problem::sinks),
      Without("alibi-ignored", "ALiBi were ignored", &Problem::alibi_slopes),
      Without("dropout-ignored", "dropout were ignored", &Problem::dropout),
      {"dropout-unscaled", "dropout did not scale what it keeps",
       [](const Problem& p) { return p.dropout && p.dropout->probability > 0; },
       [](Problem& p, Inputs&, Semantics&) { p.dropout->probability = 0; }},
      Without("documents-ignored", "the documents were ignored", &Problem::documents),
      Without("blocks-ignored", "the block mask were ignored", &Problem::block_mask),
      {"prefix-ignored", "the prefix lengths were ignored",
       [](const Problem& p) { return p.causal && p.prefix_lengths; },
       [](Problem& p, Inputs&, Semantics&) { p.prefix_lengths.reset(); }},
  };
}

FeatureChanges OtherScoreModes() {
  return {
      ScoresOf(ScoreMode::kRaw, "the raw scores were asked for"),
      ScoresOf(ScoreMode::kCapped, "the scores after the softcap were asked for"),
      ScoresOf(ScoreMode::kBiased, "the scores after bias and hiding were asked for"),
      ScoresOf(ScoreMode::kWeights, "the weights were asked for as scores"),
  };
}

FeatureChanges MistakenFeatures() {
  return {
      {"alibi-anchor", "ALiBi measured from the top left, whatever the diagonal's offset",
       [](const Problem& p) { return p.alibi_slopes && !p.diagonal_offset.empty(); },
       AnchorAlibiTopLeft},
      {"alibi-slopes", "ALiBi had the other sign",
       [](const Problem& p) { return p.alibi_slopes.has_value(); },
       [](Problem& p, Inputs&, Semantics&) {
         for (double& slope : *p.alibi_slopes) slope = -slope;
       }},
      SlopesOf("ALiBi had slopes of its own, 2^(-8 (h + 1) / q_heads)", OneRowOfSlopes),
      SlopesOf("ALiBi had slopes of its own, those of the paper", SlopesOfThePaper),
      {"dropout-order", "keys were dropped before the softmax and not after it",
       [](const Problem& p) { return p.dropout.has_value(); }, DropBefore},
      SinksTimes("the sinks were multiplied by the scale",
                 [](const Problem& p) { return p.EffectiveScale(); }),
      SinksTimes("the sinks were exponents of 2", [](const Problem&) { return std::numbers::ln2; }),
      SinksTimes("the sinks were multiplied by log2(e)",
                 [](const Problem&) { return std::numbers::log2e; }),
      SinksTimes("the sinks had the other sign", [](const Problem&) { return -1.0; }),
      {"sinks-capped", "the sinks went through the softcap too",
       [](const Problem& p) { return p.sinks && p.softcap > 0; },
       [](Problem& p, Inputs&, Semantics&) {
         for (double& sink : *p.sinks) sink = p.softcap * std::tanh(sink / p.softcap);
       }},
  };
}

FeatureChanges IgnoredVisibility() {
  return {
      {"row-zero", "with a head_dim of 0 the row saw no key",
       [](const Problem& p) { return p.head_dim == 0; },
       [](Problem& p, Inputs&, Semantics&) {
         p.key_lengths = std::vector<int64_t>(static_cast<size_t>(p.batch), 0);
       }},
      {"causal-ignored", "the causal flag were ignored", [](const Problem& p) { return p.causal; },
       [](Problem& p, Inputs&, Semantics&) { p.causal = false; }},
      {"window-ignored", "the window were ignored",
       [](const Problem& p) { return p.window.active(); },
       [](Problem& p, Inputs&, Semantics&) { p.window = {}; }},
      {"diagonal-top-left", "the diagonal started at the top left",
       [](const Problem& p) { return !p.diagonal_offset.empty(); },
       [](Problem& p, Inputs&, Semantics&) { p.diagonal_offset.clear(); }},
      SlidDiagonal(1),
      SlidDiagonal(-1),
      Without("lengths-ignored", "the key lengths were ignored", &Problem::key_lengths),
      Without("mask-ignored", "the mask were ignored", &Problem::mask),
      Without("bias-ignored", "the additive mask were ignored", &Problem::bias),
  };
}

FeatureChanges VisibilityOffByOne() {
  return {WindowEnd("window-left-end", "left", &Window::left, 1),
          WindowEnd("window-left-end", "left", &Window::left, -1),
          WindowEnd("window-right-end", "right", &Window::right, 1),
          WindowEnd("window-right-end", "right", &Window::right, -1),
          LengthsOff(1),
          LengthsOff(-1),
          {"mask-inverted", "the mask meant the opposite",
           [](const Problem& p) { return p.mask.has_value(); },
           [](Problem& p, Inputs&, Semantics&) {
             for (auto& bit : p.mask->bits) bit = bit == 0 ? 1 : 0;
           }}};
}

FeatureChanges HeadDimTails(const Problem& problem) {
  FeatureChanges changes;
  for (int64_t tile = 2; tile <= 64 && tile < problem.head_dim; tile *= 2) {
    const int64_t dims = problem.head_dim / tile * tile;
    if (dims == problem.head_dim) continue;
    changes.push_back({"head-dim-tail",
                       fmt::format("q and k ended with the last full {} of head_dim", tile),
                       [](const Problem&) { return true; },
                       [dims](Problem& p, Inputs& inputs, Semantics&) {
                         for (size_t n = 0; n < inputs.q.values.size(); ++n) {
                           if (static_cast<int64_t>(n) % p.head_dim >= dims) inputs.q.values[n] = 0;
                         }
                       }});
  }
  return changes;
}

FeatureChanges OtherScales() {
  const auto is = [](std::string phrase, double (*scale)(const Problem&)) {
    return FeatureChange{"scale", std::move(phrase),
                         [=](const Problem& p) { return scale(p) != p.EffectiveScale(); },
                         [=](Problem& p, Inputs&, Semantics&) { p.scale = scale(p); }};
  };
  return {is("the scale were left out", [](const Problem&) { return 1.0; }),
          is("the scale were applied twice",
             [](const Problem& p) { return p.EffectiveScale() * p.EffectiveScale(); })};
}

}  // namespace attest
