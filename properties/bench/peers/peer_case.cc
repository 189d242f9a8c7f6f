#include "properties/bench/peers/peer_case.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace attest {
namespace {

// What a call of the problem costs, in multiply-adds: those it makes, and what it takes to store
// its tensors in their type.
double CostOf(const Problem& p) {
  const double an_element = p.fp8 ? 60 : 15;
  const auto rows = static_cast<double>(p.batch * p.q_heads * p.q_len);
  const auto keys = static_cast<double>(p.batch * p.kv_heads * p.kv_len);
  const auto lanes = static_cast<double>(p.head_dim + p.value_dim);
  return lanes * (rows * static_cast<double>(p.kv_len) + an_element * (rows + keys));
}

double DrawValue(Values values, Draw& draw) {
  switch (values) {
    case Values::kUnit:
      return DrawUniform(0, 1, draw);
    case Values::kSigned:
      return DrawUniform(-1, 1, draw);
    case Values::kNormal:
      return DrawNormal(draw);
  }
  return 0;
}

// How a value is stored: rounded to `dtype`, as a multiple of `scale`.
struct Storage {
  DType dtype;
  double scale = 1;
};

Array DrawArray(const Shape4& shape, const Storage& storage, double factor, Values values,
                Draw& draw) {
  Array array(shape);
  for (double& value : array.values) {
    const double drawn = factor * DrawValue(values, draw) / storage.scale;
    value = RoundTo(storage.dtype, drawn) * storage.scale;
  }
  return array;
}

void HideByBias(const BitPlane& plane, Array& bias) {
  for (size_t n = 0; n < plane.bits.size(); ++n) {
    if (plane.bits[n] == 0) bias.values[n] = -std::numeric_limits<double>::infinity();
  }
}

}  // namespace

void AddGroup(const PeerGroup& group, PeerSuite& suite) {
  const auto cost = [&](const Point& point) -> std::optional<double> {
    const std::optional<Problem> problem = group.problem(point);
    return problem ? std::optional(CostOf(*problem)) : std::nullopt;
  };
  const ThinnedGrid grid = Thin(group.axes, cost, group.limits);
  suite.points += grid.points;
  suite.values_missing += grid.values_missing;
  for (const Point& point : grid.chosen) {
    PeerCase& added = suite.cases.emplace_back();
    added.problem = *group.problem(point);
    added.seed = suite.cases.size();
    Draw draw(MixIn(added.seed, 2));
    group.finish(point, draw, added);
  }
}

Problem ProblemOf(const Sizes& sizes, DType dtype) {
  Problem problem;
  problem.batch = sizes.batch;
  problem.q_heads = sizes.q_heads;
  problem.kv_heads = sizes.kv_heads;
  problem.q_len = sizes.q_len;
  problem.kv_len = sizes.kv_len;
  problem.head_dim = sizes.head_dim;
  problem.value_dim = sizes.value_dim;
  problem.dtype = dtype;
  return problem;
}

void AlignBottomRight(Problem& p) {
  p.diagonal_offset.clear();
  for (int64_t b = 0; b < p.batch; ++b) {
    const auto item = static_cast<size_t>(b);
    const int64_t keys = p.key_lengths ? (*p.key_lengths)[item] : p.kv_len;
    const int64_t queries = p.query_lengths ? (*p.query_lengths)[item] : p.q_len;
    p.diagonal_offset.push_back(keys - queries);
  }
}

BitPlane DrawPlane(const Shape4& shape, int64_t percent, Draw& draw) {
  BitPlane plane;
  plane.shape = shape;
  for (int64_t n = 0; n < ElementCount(shape); ++n) {
    plane.bits.push_back(draw.Percent(percent) ? 1 : 0);
  }
  return plane;
}

std::vector<int64_t> DrawLengths(int64_t batch, int64_t least, int64_t most, Draw& draw) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < batch; ++b) lengths.push_back(draw.Between(least, most));
  return lengths;
}

double DrawUniform(double first, double last, Draw& draw) {
  return first + (last - first) * static_cast<double>(draw.Bits() >> 11) * 0x1p-53;
}

// Box and Muller's transformation.
double DrawNormal(Draw& draw) {
  const double radius = std::sqrt(-2 * std::log(1 - DrawUniform(0, 1, draw)));
  return radius * std::cos(2 * std::numbers::pi * DrawUniform(0, 1, draw));
}

std::vector<double> PerHead(const Problem& problem, const std::function<double(int64_t)>& value) {
  std::vector<double> values;
  for (int64_t h = 0; h < problem.q_heads; ++h) values.push_back(RoundTo(DType::kF32, value(h)));
  return values;
}

Inputs DrawInputs(const PeerCase& c) {
  const Problem& p = c.problem;
  const Fp8 unscaled;
  const Fp8& scales = p.fp8 ? *p.fp8 : unscaled;
  const DType key_type = c.has_half_keys ? DType::kF16 : p.InputDType();
  Draw draw(c.seed);
  Inputs inputs;
  inputs.q =
      DrawArray(p.QShape(), {p.InputDType(), scales.q_scale}, c.query_factor, c.values, draw);
  inputs.k = DrawArray(p.KShape(), {key_type, scales.k_scale}, 1, c.values, draw);
  inputs.v = DrawArray(p.VShape(), {key_type, scales.v_scale}, 1, c.values, draw);
  if (p.bias) {
    const DType bias_type = c.has_half_keys ? DType::kF16 : p.BiasDType();
    inputs.bias = DrawArray(p.bias->shape, {bias_type}, 1, c.values, draw);
    HideByBias(*p.bias, inputs.bias);
  }
  if (c.edit) c.edit(inputs);
  return inputs;
}

}  // namespace attest
