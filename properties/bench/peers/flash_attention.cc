// FlashAttention's tests, forward only: normal data in f16 and bf16, the diagonal at the bottom
// right, and an error at most twice that of plain attention in the same precision. Its four batch
// items of nine heads are one or two of six here, and its pages have two keys.
#include <algorithm>

#include "properties/bench/peers/suites.h"

namespace attest {
namespace {

constexpr std::array<DType, 2> kHalves = {DType::kF16, DType::kBF16};
constexpr std::array<int64_t, 3> kKvHeads = {6, 1, 2};  // one each, one for all, groups of three
constexpr int64_t kHeads = 6;
constexpr double kMostAPoint = 5.5e7;

struct Lens {
  int64_t queries, keys;
};

// Random ends, drawn below the number of keys.
Window DrawWindow(const Problem& p, Draw& draw) {
  return {draw.Below(p.kv_len), draw.Below(p.kv_len)};
}

void AddSlopes(Draw& draw, Problem& p) {
  p.alibi_slopes = PerHead(p, [&](int64_t) { return 0.3 * DrawUniform(0, 1, draw); });
}

// Fixed lengths, with all options.
PeerGroup OutputGroup() {
  static constexpr std::array<int64_t, 11> kDims = {32,  40,  59,  64,  96, 111,
                                                    128, 160, 192, 224, 256};
  static constexpr std::array<Lens, 10> kLens = {{{113, 203},
                                                  {128, 217},
                                                  {113, 211},
                                                  {108, 256},
                                                  {256, 512},
                                                  {512, 256},
                                                  {1024, 1024},
                                                  {1023, 1024},
                                                  {1024, 1023},
                                                  {2048, 2048}}};
  PeerGroup group;
  // lengths, head_dim, kv heads, dtype, causal, local, ALiBi, dropout, softcap
  group.axes = {{10, true}, {11, true}, {3}, {2}, {2}, {2}, {2}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    if (at[7] != 0 && at[8] != 0) return std::nullopt;  // no softcap under dropout
    const Lens& lens = kLens[at[0]];
    const int64_t dim = kDims[at[1]];
    Problem p =
        ProblemOf({1, kHeads, kKvHeads[at[2]], lens.queries, lens.keys, dim, dim}, kHalves[at[3]]);
    p.causal = at[4] != 0;
    if (at[8] != 0) p.softcap = 50;
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    Problem& p = c.problem;
    AlignBottomRight(p);
    c.rule = MultipleRule(2);
    c.form.layout = DirectLayout::kBshd;
    if (at[8] != 0) c.query_factor = p.softcap;
    if (at[5] != 0) p.window = DrawWindow(p, draw);
    if (at[6] != 0) AddSlopes(draw, p);
    if (at[7] != 0) p.dropout = Dropout{0.17, DrawPlane(p.WeightsShape(), 83, draw)};
  };
  group.limits = {kMostAPoint, 0};
  return group;
}

// Sequences of random lengths, end to end.
PeerGroup PackedGroup() {
  static constexpr std::array<int64_t, 6> kDims = {32, 59, 64, 96, 128, 160};
  static constexpr std::array<Lens, 8> kLens = {{{1, 147},
                                                 {113, 203},
                                                 {128, 217},
                                                 {113, 211},
                                                 {108, 256},
                                                 {256, 512},
                                                 {512, 256},
                                                 {1024, 1024}}};
  PeerGroup group;
  // lengths, head_dim, kv heads, dtype, causal, local, ALiBi, softcap
  group.axes = {{8, true}, {6, true}, {3}, {2}, {2}, {2}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const Lens& lens = kLens[at[0]];
    const int64_t dim = kDims[at[1]];
    Problem p =
        ProblemOf({2, kHeads, kKvHeads[at[2]], lens.queries, lens.keys, dim, dim}, kHalves[at[3]]);
    p.causal = at[4] != 0;
    if (at[7] != 0) p.softcap = 50;
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    Problem& p = c.problem;
    p.query_lengths = DrawLengths(p.batch, std::max<int64_t>(1, p.q_len - 20), p.q_len, draw);
    p.key_lengths = DrawLengths(p.batch, std::max<int64_t>(1, p.kv_len - 20), p.kv_len, draw);
    AlignBottomRight(p);
    c.rule = MultipleRule(2);
    c.form.storage = DirectStorage::kPacked;
    if (at[7] != 0) c.query_factor = p.softcap;
    if (at[5] != 0) p.window = DrawWindow(p, draw);
    if (at[6] != 0) AddSlopes(draw, p);
  };
  group.limits = {kMostAPoint, 0};
  return group;
}

// A cache filled to a random length: plain, appended to, or in pages.
PeerGroup CacheGroup() {
  static constexpr std::array<int64_t, 6> kDims = {32, 59, 64, 80, 128, 256};
  static constexpr std::array<Lens, 9> kLens = {{{1, 128},
                                                 {1, 339},
                                                 {3, 1024},
                                                 {64, 800},
                                                 {64, 256},
                                                 {3, 799},
                                                 {64, 2048},
                                                 {16, 20000},
                                                 {128, 128}}};
  static constexpr std::array<DirectStorage, 3> kStorage = {
      DirectStorage::kPlain, DirectStorage::kPast, DirectStorage::kPages};
  PeerGroup group;
  // lengths, head_dim, kv heads, dtype, causal, local, ALiBi, storage
  group.axes = {{9, true}, {6, true}, {3}, {2}, {2}, {2}, {2}, {3}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const Lens& lens = kLens[at[0]];
    const int64_t dim = kDims[at[1]];
    Problem p =
        ProblemOf({2, kHeads, kKvHeads[at[2]], lens.queries, lens.keys, dim, dim}, kHalves[at[3]]);
    p.causal = at[4] != 0;
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    Problem& p = c.problem;
    c.form.storage = kStorage[at[7]];
    // What is appended fills the cache to its end, and the cache is looked at.
    if (c.form.storage == DirectStorage::kPast) {
      c.form.want_present = true;
      c.others = ToleranceRule(1e-3, 1e-3);
    } else {
      p.key_lengths = DrawLengths(p.batch, std::min(p.q_len, p.kv_len), p.kv_len, draw);
    }
    AlignBottomRight(p);
    c.rule = MultipleRule(at[6] != 0 ? 5 : 3, 1e-5);
    if (at[5] != 0) p.window = DrawWindow(p, draw);
    if (at[6] != 0) AddSlopes(draw, p);
  };
  group.limits = {kMostAPoint, 0};
  return group;
}

}  // namespace

PeerSuite FlashAttentionSuite() {
  PeerSuite suite{.name = "FlashAttention", .published = "508,777"};
  AddGroup(OutputGroup(), suite);
  AddGroup(PackedGroup(), suite);
  AddGroup(CacheGroup(), suite);
  return suite;
}

}  // namespace attest
