// FlashInfer's tests of attention: normal data; f16 within 1e-3 and 1e-3, bf16 within 1e-2 and
// 1e-2, 8-bit keys and values within 1e-1 and 1e-1; the diagonal at the bottom right. Its batches
// of 12 and 17 are 2 and 3 here where there are many queries, and its pages have two keys.
#include <cmath>

#include "properties/bench/peers/suites.h"

namespace attest {
namespace {

constexpr std::array<DType, 2> kHalves = {DType::kF16, DType::kBF16};
constexpr double kMostAPoint = 3e7;

Rule OutRule(DType dtype) {
  return dtype == DType::kBF16 ? ToleranceRule(1e-2, 1e-2) : ToleranceRule(1e-3, 1e-3);
}

// The slopes of the ALiBi paper for a power of two of heads.
void AddSlopes(Problem& p) {
  p.alibi_slopes = PerHead(p, [&](int64_t h) {
    return std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(p.q_heads));
  });
}

// Paged and packed decode and prefill.
PeerGroup BatchGroup(bool is_decode) {
  static constexpr std::array<int64_t, 2> kDecodeBatch = {12, 17}, kPrefillBatch = {2, 3};
  static constexpr std::array<int64_t, 3> kKeys = {54, 97, 512};
  static constexpr std::array<int64_t, 2> kQueries = {37, 17}, kHeads = {4, 32}, kDims = {128, 256};
  static constexpr std::array<DirectStorage, 2> kStorage = {DirectStorage::kPages,
                                                            DirectStorage::kPacked};
  PeerGroup group;
  // batch, kv_len, q_len, heads, head_dim, causal, ALiBi, softcap, heads inside positions, storage
  group.axes = {
      {2, true}, {3, true}, {is_decode ? 1u : 2u, true}, {2, true}, {2, true}, {2}, {2}, {2},
      {2},       {2}};
  group.problem = [is_decode](const Point& at) -> std::optional<Problem> {
    const bool is_packed = kStorage[at[9]] == DirectStorage::kPacked;
    if (is_decode && (at[5] != 0 || is_packed)) return std::nullopt;
    if (is_packed && at[8] != 0) return std::nullopt;
    const int64_t dim = kDims[at[4]];
    Problem p = ProblemOf({(is_decode ? kDecodeBatch : kPrefillBatch)[at[0]], kHeads[at[3]], 4,
                           is_decode ? 1 : kQueries[at[2]], kKeys[at[1]], dim, dim},
                          DType::kF16);
    p.causal = at[5] != 0;
    if (at[7] != 0) p.softcap = 30;
    return p;
  };
  group.finish = [](const Point& at, Draw&, PeerCase& c) {
    AlignBottomRight(c.problem);
    c.rule = OutRule(c.problem.dtype);
    c.form.storage = kStorage[at[9]];
    if (at[6] != 0) AddSlopes(c.problem);
    if (at[8] != 0) c.form.layout = DirectLayout::kBshd;
  };
  group.limits = {kMostAPoint, 4e7};
  return group;
}

// One request under a custom mask, and windows.
PeerGroup SingleGroup() {
  static constexpr std::array<int64_t, 4> kKeys = {54, 81, 97, 514};
  static constexpr std::array<int64_t, 4> kQueries = {1, 17, 37, 54};
  static constexpr std::array<int64_t, 2> kHeads = {4, 32};
  static constexpr std::array<int64_t, 3> kDims = {64, 128, 256};
  static constexpr std::array<int64_t, 4> kWindows = {-1, 13, 33, 111};
  PeerGroup group;
  // kv_len, q_len, heads, head_dim, mask (none, causal, custom), window, heads inside positions
  group.axes = {{4, true}, {4, true}, {2, true}, {3, true}, {3}, {4}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const int64_t kv_len = kKeys[at[0]], q_len = kQueries[at[1]], dim = kDims[at[3]];
    if (q_len > kv_len) return std::nullopt;
    if (at[5] != 0 && at[4] != 1) return std::nullopt;
    Problem p = ProblemOf({1, kHeads[at[2]], 4, q_len, kv_len, dim, dim}, DType::kF16);
    p.causal = at[4] == 1;
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    Problem& p = c.problem;
    AlignBottomRight(p);
    c.rule = OutRule(p.dtype);
    if (at[4] == 2) p.mask = DrawPlane({1, 1, p.q_len, p.kv_len}, 50, draw);
    if (at[4] == 2) p.mask->rank = 2;
    if (at[5] != 0) p.window.left = kWindows[at[5]];
    if (at[6] != 0) c.form.layout = DirectLayout::kBshd;
  };
  group.limits = {kMostAPoint, 4e7};
  return group;
}

// Sinks, with and without a window.
PeerGroup SinkGroup() {
  static constexpr std::array<int64_t, 2> kBatch = {1, 4};
  static constexpr std::array<int64_t, 4> kQueries = {1, 4, 16, 128};
  static constexpr std::array<int64_t, 3> kKeys = {16, 128, 512};
  PeerGroup group;
  // batch, q_len, kv_len, heads, causal, window, dtype
  group.axes = {{2, true}, {4, true}, {3, true}, {2}, {2}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    if (kQueries[at[1]] > kKeys[at[2]]) return std::nullopt;
    Problem p =
        ProblemOf({kBatch[at[0]], 8, at[3] == 0 ? 8 : 1, kQueries[at[1]], kKeys[at[2]], 64, 64},
                  kHalves[at[6]]);
    p.causal = at[4] != 0;
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    Problem& p = c.problem;
    AlignBottomRight(p);
    c.rule = OutRule(p.dtype);
    p.sinks = PerHead(p, [&](int64_t) { return 5 * DrawUniform(0, 1, draw); });
    if (at[5] != 0) p.window.left = 127;
  };
  group.limits = {kMostAPoint, 3e7};
  return group;
}

// Block masks of each head.
PeerGroup BlockGroup() {
  static constexpr std::array<int64_t, 3> kLens = {128, 256, 512};
  static constexpr std::array<int64_t, 2> kBlocks = {16, 64};
  PeerGroup group;
  // q_len, kv_len, block_q, block_k, kv heads, queries' heads to each, head_dim
  group.axes = {{3, true}, {3, true}, {2}, {2}, {2, true}, {2, true}, {2, true}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const int64_t kv_heads = at[4] == 0 ? 1 : 4, dim = at[6] == 0 ? 64 : 128;
    return ProblemOf(
        {1, kv_heads * (at[5] == 0 ? 1 : 4), kv_heads, kLens[at[0]], kLens[at[1]], dim, dim},
        DType::kF16);
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    Problem& p = c.problem;
    c.rule = OutRule(p.dtype);
    const int64_t block_q = kBlocks[at[2]], block_k = kBlocks[at[3]];
    const Shape4 shape{1, p.q_heads, p.q_len / block_q, p.kv_len / block_k};
    p.block_mask = BlockMask{block_q, block_k, DrawPlane(shape, 60, draw)};
  };
  group.limits = {kMostAPoint, 3e7};
  return group;
}

// Heads of 192 lanes whose values have 128 (multi-head latent attention); the lse is compared too.
PeerGroup LatentGroup() {
  static constexpr std::array<int64_t, 4> kKeys = {33, 96, 114, 514};
  static constexpr std::array<int64_t, 3> kQueries = {1, 17, 33};
  PeerGroup group;
  // batch, kv_len, q_len, causal, dtype
  group.axes = {{2, true}, {4, true}, {3, true}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    Problem p = ProblemOf({at[0] == 0 ? 1 : 3, 4, 4, kQueries[at[2]], kKeys[at[1]], 192, 128},
                          kHalves[at[4]]);
    p.causal = at[3] != 0;
    p.want_lse = true;
    return p;
  };
  group.finish = [](const Point&, Draw&, PeerCase& c) {
    AlignBottomRight(c.problem);
    c.rule = OutRule(c.problem.dtype);
    c.form.storage = DirectStorage::kPacked;
    c.others = c.rule;
  };
  group.limits = {kMostAPoint, 4e7};
  return group;
}

// A prefix and what follows it in two calls, merged by their lse.
PeerGroup CascadeGroup() {
  static constexpr std::array<int64_t, 3> kShared = {64, 128, 256};
  static constexpr std::array<int64_t, 2> kOwn = {17, 37};
  PeerGroup group;
  // batch, shared keys, own keys, heads
  group.axes = {{2, true}, {3, true}, {2, true}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    return ProblemOf(
        {at[0] == 0 ? 2 : 4, at[3] == 0 ? 8 : 16, 8, 1, kShared[at[1]] + kOwn[at[2]], 128, 128},
        DType::kF16);
  };
  group.finish = [](const Point& at, Draw&, PeerCase& c) {
    c.rule = OutRule(c.problem.dtype);
    c.merge_at = kShared[at[1]];
  };
  group.limits = {kMostAPoint, 4e7};
  return group;
}

// 8-bit storage with scales.
PeerGroup EightBitGroup() {
  static constexpr std::array<DType, 2> kFormats = {DType::kE4M3, DType::kE5M2};
  static constexpr std::array<int64_t, 2> kKeys = {54, 97};
  PeerGroup group;
  // kv_len, q_len, format, scaled, causal
  group.axes = {{2, true}, {2, true}, {2}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    Problem p = ProblemOf({2, 4, 4, at[1] == 0 ? 1 : 17, kKeys[at[0]], 128, 128}, DType::kF16);
    const double scale = at[3] == 0 ? 1 : 0.015625;  // as of a largest value over 256
    p.fp8 = Fp8{kFormats[at[2]], 1, scale, scale};
    p.causal = at[4] != 0;
    return p;
  };
  group.finish = [](const Point&, Draw&, PeerCase& c) {
    AlignBottomRight(c.problem);
    c.rule = ToleranceRule(1e-1, 1e-1);
    c.form.storage = DirectStorage::kPages;
  };
  group.limits = {kMostAPoint, 4e7};
  return group;
}

// The fixtures of 2026: a score below what a running maximum may start at (-5e4 in base 2), rows
// that see nothing among others, an empty part.
void AddFixtures(PeerSuite& suite) {
  const auto add = [&suite](const Sizes& sizes) -> PeerCase& {
    PeerCase& added = suite.cases.emplace_back();
    added.problem = ProblemOf(sizes, DType::kF16);
    added.rule = OutRule(DType::kF16);
    added.seed = suite.cases.size();
    ++suite.points;
    return added;
  };
  PeerCase& low = add({1, 4, 4, 1, 1, 128, 128});
  low.rule = ToleranceRule(0, 0);
  low.problem.scale = 1;
  low.edit = [](Inputs& inputs) {  // -258 * 259
    for (double& q : inputs.q.values) q = 0;
    for (int64_t h = 0; h < 4; ++h) {
      inputs.q.At(0, h, 0, 0) = -258;
      inputs.k.At(0, h, 0, 0) = 259;
    }
  };
  PeerCase& empty_rows = add({1, 4, 4, 64, 97, 128, 128});
  empty_rows.problem.want_lse = true;
  empty_rows.others = empty_rows.rule;
  BitPlane& mask = empty_rows.problem.mask.emplace();
  mask.shape = {1, 1, 64, 97};
  for (int64_t i = 0; i < 64; ++i) mask.bits.insert(mask.bits.end(), 97, i < 33 ? 0 : 1);
  add({2, 4, 4, 1, 97, 128, 128}).merge_at = 0;
}

}  // namespace

PeerSuite FlashInferSuite() {
  PeerSuite suite{.name = "FlashInfer", .published = "42,779"};
  AddGroup(BatchGroup(/*is_decode=*/true), suite);
  AddGroup(BatchGroup(/*is_decode=*/false), suite);
  for (const auto& group :
       {SingleGroup(), SinkGroup(), BlockGroup(), LatentGroup(), CascadeGroup(), EightBitGroup()}) {
    AddGroup(group, suite);
  }
  AddFixtures(suite);
  return suite;
}

}  // namespace attest
