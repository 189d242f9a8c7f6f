#include "properties/features.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "properties/derive.h"
#include "properties/needs.h"

namespace attest {
namespace {

// A plane of `shape` whose batch and head extents are 1 now and then, seven bits in ten set.
BitPlane DrawPlane(Draw& draw, Shape4 shape) {
  BitPlane plane;
  for (size_t axis = 0; axis < 2; ++axis) {
    if (draw.Percent(40)) shape[axis] = 1;
  }
  plane.shape = shape;
  for (int64_t n = ElementCount(shape); n > 0; --n) plane.bits.push_back(draw.Percent(70));
  return plane;
}

// `parts` + 1 borders from 0 to `length`, ascending.
std::vector<int64_t> DrawBorders(Draw& draw, int64_t length, int64_t parts) {
  std::vector<int64_t> borders = {0, length};
  for (int64_t n = 1; n < parts; ++n) borders.push_back(draw.Between(0, length));
  std::ranges::sort(borders);
  return borders;
}

}  // namespace

Case EnsureSoftcap(Case c) {
  if (c.problem.softcap > 0) return c;
  c.problem.softcap = DrawFor(c, 0x50F7).Pick(std::vector<double>{1, 2, 5, 30});
  return c;
}

Case EnsureAlibi(Case c, const Contract& contract) {
  Problem& p = c.problem;
  if (!p.alibi_slopes) {
    const int64_t start = DrawFor(c, 0xA11B).Below(6);
    p.alibi_slopes.emplace();
    for (int64_t h = 0; h < p.q_heads; ++h) {
      p.alibi_slopes->push_back(std::ldexp(1.0, -static_cast<int>((start + h) % 6)));
    }
  }
  return Realign(std::move(c), contract);
}

Case EnsureSinks(Case c) {
  Problem& p = c.problem;
  if (p.sinks) return c;
  Draw draw = DrawFor(c, 0x51A4);
  p.sinks.emplace();
  for (int64_t h = 0; h < p.q_heads; ++h) {
    p.sinks->push_back(static_cast<double>(draw.Between(-8, 8)) / 4);
  }
  return c;
}

std::vector<Run> DrawRuns(const Case& c) {
  Draw draw = DrawFor(c, 0xD0C);
  const int64_t parts = draw.Between(1, 3);
  const auto queries = DrawBorders(draw, c.problem.q_len, parts);
  const auto keys = DrawBorders(draw, c.problem.kv_len, parts);
  std::vector<Run> runs;
  for (size_t n = 0; n + 1 < queries.size(); ++n) {
    runs.push_back({queries[n], queries[n + 1], keys[n], keys[n + 1]});
  }
  return runs;
}

Case WithRuns(Case c, const std::vector<Run>& runs) {
  Documents documents;
  for (int64_t b = 0; b < c.problem.batch; ++b) {
    for (size_t n = 0; n < runs.size(); ++n) {
      const auto rows = static_cast<size_t>(runs[n].last_query - runs[n].first_query);
      const auto keys = static_cast<size_t>(runs[n].last_key - runs[n].first_key);
      documents.query.insert(documents.query.end(), rows, static_cast<int64_t>(n));
      documents.key.insert(documents.key.end(), keys, static_cast<int64_t>(n));
    }
  }
  c.problem.documents = std::move(documents);
  return c;
}

Case EnsureDocuments(Case c) {
  if (c.problem.documents) return c;
  const std::vector<Run> runs = DrawRuns(c);
  return WithRuns(std::move(c), runs);
}

Case EnsurePrefix(Case c, const Contract& contract) {
  c = EnsureCausal(std::move(c), contract);
  if (c.problem.prefix_lengths) return c;
  Draw draw = DrawFor(c, 0x9EF);
  c.problem.prefix_lengths.emplace();
  for (int64_t b = 0; b < c.problem.batch; ++b) {
    c.problem.prefix_lengths->push_back(draw.Between(0, c.problem.kv_len));
  }
  return c;
}

Case EnsureBlockMask(Case c) {
  Problem& p = c.problem;
  if (p.block_mask) return c;
  Draw draw = DrawFor(c, 0xB10C);
  const std::vector<int64_t> sizes = {1, 2, 3, 16};
  BlockMask mask;
  mask.block_q = draw.Pick(sizes);
  mask.block_k = draw.Percent(50) ? mask.block_q : draw.Pick(sizes);
  const auto tiles = [](int64_t length, int64_t block) { return (length + block - 1) / block; };
  mask.plane = DrawPlane(
      draw, {p.batch, p.q_heads, tiles(p.q_len, mask.block_q), tiles(p.kv_len, mask.block_k)});
  p.block_mask = std::move(mask);
  return c;
}

Case EnsureDropout(Case c) {
  Problem& p = c.problem;
  if (p.dropout) return c;
  Draw draw = DrawFor(c, 0xD409);
  Dropout dropout;
  dropout.probability = draw.Percent(50) ? 0.5 : 0.1;
  dropout.keep.shape = p.WeightsShape();
  for (int64_t n = ElementCount(dropout.keep.shape); n > 0; --n) {
    dropout.keep.bits.push_back(draw.Percent(70));
  }
  p.dropout = std::move(dropout);
  return c;
}

Case EnsureQueryLengths(Case c) {
  Problem& p = c.problem;
  if (p.query_lengths) return c;
  Draw draw = DrawFor(c, 0x0E1);
  p.query_lengths.emplace();
  for (int64_t b = 0; b < p.batch; ++b) p.query_lengths->push_back(draw.Between(0, p.q_len));
  return c;
}

Case WithoutScoreFeatures(Case c) {
  c.problem.softcap = 0;
  c.problem.alibi_slopes.reset();
  c.problem.sinks.reset();
  c.problem.dropout.reset();
  return c;
}

Case WithoutFp8(Case c) {
  if (!c.problem.fp8) return c;
  c.problem.fp8.reset();
  for (auto& [tensor, array] : c.literals) {
    if (tensor == DataTensor::kBias) continue;
    for (double& x : array.values) x = RoundTo(c.problem.dtype, x);
  }
  return c;
}

Case WithoutKeyOutputs(Case c) {
  c.problem.want_weights = false;
  c.problem.want_scores.reset();
  return c;
}

Case WithoutScoresOutput(Case c) {
  c.problem.want_scores.reset();
  return c;
}

Case Packable(Case c, const Contract& contract) {
  c = WithoutKeyOutputs(WithoutBias(std::move(c)));
  c.problem.mask.reset();  // planes know no packing
  c.problem.documents.reset();
  c.problem.block_mask.reset();
  c.problem.dropout.reset();
  return EnsureQueryLengths(EnsureLengths(std::move(c), contract));
}

Case WithoutPositions(Case c, const Contract& contract) {
  Problem& p = c.problem;
  p.alibi_slopes.reset();
  c.storage.past = 0;
  c.storage.first_call = FirstCall::kNo;
  const bool placed =
      p.causal || p.window.active() || p.key_lengths || p.prefix_lengths || p.block_mask;
  if (!placed) return c;
  c = WithExplicitMask(std::move(c));
  if (!NeedsMask(contract).empty()) c.problem.mask.reset();
  return c;
}

Case Lively(Case c) {
  c.problem.scale.reset();
  c.problem.fp8.reset();
  return WithValues(WithScores(std::move(c), ScoreFamily::kSmallIntegers), ValueFamily::kNormal);
}

}  // namespace attest
