// llama.cpp's test-backend-ops, operation FLASH_ATTN_EXT: q in f32, keys and values of f16, uniform
// in [-1, 1), an additive mask shared by the heads with blocks of minus infinity, one error figure
// for the whole tensor. Its ALiBi multiplies that mask; here it is the distance, as everywhere
// else.
#include <cmath>
#include <utility>

#include "properties/bench/peers/suites.h"

namespace attest {
namespace {

constexpr std::array<std::pair<int64_t, int64_t>, 12> kHeadSizes = {{{40, 40},
                                                                     {64, 64},
                                                                     {72, 72},
                                                                     {80, 80},
                                                                     {96, 96},
                                                                     {128, 128},
                                                                     {192, 128},
                                                                     {192, 192},
                                                                     {256, 256},
                                                                     {320, 256},
                                                                     {512, 512},
                                                                     {576, 512}}};
constexpr std::array<int64_t, 7> kGroups = {1, 4, 6, 8, 12, 16, 32};
constexpr std::array<int64_t, 2> kBatch = {1, 3};
constexpr std::array<int64_t, 3> kKeys = {113, 512, 1024};
constexpr std::array<int64_t, 4> kQueries = {1, 3, 32, 75};
constexpr int64_t kKvHeads = 4;

// Slopes fall geometrically from head to head, those beyond a power of two in between.
double SlopeOf(int64_t head, int64_t heads) {
  constexpr double kMostBias = 8;
  const double power = std::exp2(std::floor(std::log2(static_cast<double>(heads))));
  const auto h = static_cast<double>(head);
  return h < power ? std::exp2(-kMostBias / power * (h + 1))
                   : std::exp2(-kMostBias / 2 / power * (2 * (h - power) + 1));
}

// Finite but for one block of 64 queries and 128 keys in five.
BitPlane DrawBlocks(const Shape4& shape, Draw& draw) {
  constexpr int64_t kBlockQueries = 64, kBlockKeys = 128;
  BitPlane plane = DrawPlane(shape, 100, draw);
  const int64_t rows = (shape[2] + kBlockQueries - 1) / kBlockQueries;
  const int64_t columns = (shape[3] + kBlockKeys - 1) / kBlockKeys;
  const BitPlane blocks = DrawPlane({shape[0], 1, rows, columns}, 80, draw);
  size_t n = 0;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t i = 0; i < shape[2]; ++i) {
      for (int64_t j = 0; j < shape[3]; ++j) {
        plane.bits[n++] = blocks.At(b, 0, i / kBlockQueries, j / kBlockKeys) ? 1 : 0;
      }
    }
  }
  return plane;
}

}  // namespace

PeerSuite LlamaCppSuite() {
  PeerSuite suite{.name = "llama.cpp", .published = "5,097"};
  PeerGroup group;
  // head sizes, query heads to a kv head, batch, kv_len, q_len, mask, sinks, ALiBi, softcap,
  // permuted
  group.axes = {{12, true}, {7, true}, {2, true}, {3, true}, {4, true}, {2}, {2}, {2}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const auto [head_dim, value_dim] = kHeadSizes[at[0]];
    const bool has_mask = at[5] != 0, has_alibi = at[7] != 0, has_softcap = at[8] != 0;
    if (has_alibi && !has_mask) return std::nullopt;
    if (has_softcap && head_dim != 128) return std::nullopt;
    if (at[2] != 0 && head_dim > 72) return std::nullopt;
    if (at[1] != 0 && kKeys[at[3]] != 512) return std::nullopt;
    Problem p = ProblemOf({kBatch[at[2]], kKvHeads * kGroups[at[1]], kKvHeads, kQueries[at[4]],
                           kKeys[at[3]], head_dim, value_dim},
                          DType::kF32);
    if (has_softcap) p.softcap = 10;
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    c.values = Values::kSigned;
    c.rule = NmseRule(5e-4);
    c.has_half_keys = true;
    Problem& p = c.problem;
    if (at[5] != 0) p.bias = DrawBlocks({p.batch, 1, p.q_len, p.kv_len}, draw);
    if (at[6] != 0) p.sinks = PerHead(p, [&](int64_t) { return DrawUniform(-10, 10, draw); });
    if (at[7] != 0) {
      p.alibi_slopes = PerHead(p, [&](int64_t h) { return SlopeOf(h, p.q_heads); });
    }
    if (at[9] != 0) c.form.layout = DirectLayout::kBshd;
  };
  group.limits = {3e7, 2e8};
  AddGroup(group, suite);
  return suite;
}

}  // namespace attest
