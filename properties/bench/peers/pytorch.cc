// PyTorch's tests of scaled_dot_product_attention, forward only: the fused kernels against the
// attention of plain operations, uniform in [0, 1), with tolerances taken from the same-precision
// error; and the CPU's fused kernel under every broadcast of a mask, normal data, fixed tolerances.
#include "properties/bench/peers/suites.h"

namespace attest {
namespace {

constexpr std::array<DType, 2> kHalves = {DType::kF16, DType::kBF16};
constexpr double kMostAPoint = 2e7;

Rule OutRule(const Problem& problem) {
  return FudgeRule(problem.head_dim % 8 == 0 ? 1 : 3);
}

void AddDropout(double probability, Draw& draw, Problem& p) {
  if (probability == 0) return;
  const auto kept = static_cast<int64_t>(100 * (1 - probability) + 0.5);
  p.dropout = Dropout{probability, DrawPlane(p.WeightsShape(), kept, draw)};
}

// Flash attention. Causal only where there are as many queries as keys.
PeerGroup FlashGroup() {
  static constexpr std::array<int64_t, 2> kBatch = {1, 8};
  static constexpr std::array<int64_t, 3> kQueries = {4, 143, 2048};
  static constexpr std::array<int64_t, 4> kKeys = {4, 127, 579, 2048};
  static constexpr std::array<int64_t, 12> kDims = {8,  16,  21,  32,  64,  72,
                                                    96, 128, 160, 192, 203, 256};
  static constexpr std::array<double, 3> kDropout = {0, 0.22, 0.48};
  PeerGroup group;
  // batch, q_len, kv_len, head_dim, causal, dropout, dtype, scale, groups of heads
  group.axes = {{2, true}, {3, true}, {4, true}, {12, true}, {2}, {3}, {2}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const int64_t q_len = kQueries[at[1]], kv_len = kKeys[at[2]], dim = kDims[at[3]];
    if (at[4] != 0 && q_len != kv_len) return std::nullopt;
    const bool has_groups = at[8] != 0;
    Problem p =
        ProblemOf({kBatch[at[0]], has_groups ? 16 : 4, has_groups ? 8 : 4, q_len, kv_len, dim, dim},
                  kHalves[at[6]]);
    p.causal = at[4] != 0;
    if (at[7] != 0) p.scale = 1.0 / static_cast<double>(dim);
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    c.values = Values::kUnit;
    c.rule = OutRule(c.problem);
    AddDropout(kDropout[at[5]], draw, c.problem);
  };
  group.limits = {kMostAPoint, 1e8};
  return group;
}

// Memory-efficient attention with an additive mask of full shape.
PeerGroup MaskGroup() {
  static constexpr std::array<int64_t, 2> kBatch = {1, 8};
  static constexpr std::array<int64_t, 4> kLens = {4, 8, 152, 512};
  static constexpr std::array<int64_t, 4> kDims = {8, 16, 32, 64};
  static constexpr std::array<double, 3> kDropout = {0, 0.22, 0.48};
  static constexpr std::array<DType, 3> kTypes = {DType::kF16, DType::kBF16, DType::kF32};
  PeerGroup group;
  // batch, q_len, kv_len, head_dim, dropout, dtype, scale
  group.axes = {{2, true}, {4, true}, {4, true}, {4, true}, {3}, {3}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const int64_t dim = kDims[at[3]];
    Problem p =
        ProblemOf({kBatch[at[0]], 4, 4, kLens[at[1]], kLens[at[2]], dim, dim}, kTypes[at[5]]);
    if (at[6] != 0) p.scale = 1.0 / static_cast<double>(dim);
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    c.values = Values::kUnit;
    c.rule = OutRule(c.problem);
    c.problem.bias = DrawPlane(c.problem.WeightsShape(), 100, draw);
    AddDropout(kDropout[at[4]], draw, c.problem);
  };
  group.limits = {kMostAPoint, 5e7};
  return group;
}

// The CPU's fused kernel: boolean and additive masks of every broadcast shape, or causal.
PeerGroup CpuGroup() {
  static constexpr std::array<int64_t, 2> kBatch = {2, 12};
  static constexpr std::array<int64_t, 3> kQueries = {11, 514, 1030};
  static constexpr std::array<int64_t, 2> kKeys = {11, 514};
  static constexpr std::array<DType, 4> kTypes = {DType::kF32, DType::kF64, DType::kF16,
                                                  DType::kBF16};
  // Absolute and relative.
  static constexpr std::array<Rule, 4> kRules = {
      ToleranceRule(5e-6, 1e-5), ToleranceRule(5e-6, 1e-5), ToleranceRule(1e-2, 1e-2),
      ToleranceRule(5e-2, 5e-2)};
  PeerGroup group;
  // batch, q_len, kv_len, heads, dtype, kind (bool, float, causal), extents full or 1
  group.axes = {{2, true}, {3, true}, {2, true}, {2}, {4}, {3}, {2}, {2}, {2}, {2}};
  group.problem = [](const Point& at) -> std::optional<Problem> {
    const int64_t heads = at[3] == 0 ? 1 : 3;
    const bool is_causal = at[5] == 2;
    if (is_causal && at[6] + at[7] + at[8] + at[9] != 0) return std::nullopt;
    Problem p = ProblemOf({kBatch[at[0]], heads, heads, kQueries[at[1]], kKeys[at[2]], 8, 8},
                          kTypes[at[4]]);
    p.causal = is_causal;
    return p;
  };
  group.finish = [](const Point& at, Draw& draw, PeerCase& c) {
    c.values = Values::kNormal;
    c.rule = kRules[at[4]];
    Problem& p = c.problem;
    Shape4 shape = p.WeightsShape();
    for (size_t axis = 0; axis < 4; ++axis) {
      if (at[6 + axis] != 0) shape[axis] = 1;
    }
    if (at[5] == 0) p.mask = DrawPlane(shape, 50, draw);
    if (at[5] == 1) p.bias = DrawPlane(shape, 100, draw);
  };
  group.limits = {kMostAPoint, 5e7};
  return group;
}

// Calls without queries, keys or items.
void AddZeroLengths(PeerSuite& suite) {
  for (const Sizes& sizes :
       {Sizes{2, 2, 2, 4, 0, 8, 8}, Sizes{2, 2, 2, 0, 4, 8, 8}, Sizes{0, 2, 2, 4, 4, 8, 8}}) {
    PeerCase& added = suite.cases.emplace_back();
    added.problem = ProblemOf(sizes, DType::kF32);
    added.rule = ToleranceRule(1.3e-6, 1e-5);
    ++suite.points;
  }
}

}  // namespace

PeerSuite PytorchSuite() {
  PeerSuite suite{.name = "PyTorch", .published = "73,488"};
  AddGroup(FlashGroup(), suite);
  AddGroup(MaskGroup(), suite);
  AddGroup(CpuGroup(), suite);
  AddZeroLengths(suite);
  return suite;
}

}  // namespace attest
