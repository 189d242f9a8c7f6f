#include "impl/abi/testing/random_problem.h"

#include <limits>

#include "impl/attention/visibility.h"

namespace attest {
namespace {

int64_t Draw(std::mt19937_64& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

bool OneIn(std::mt19937_64& random, int64_t n) {
  return Draw(random, 1, n) == 1;
}

// Mostly small, sometimes past a tile, rarely 0.
int64_t DrawSize(std::mt19937_64& random, int64_t high) {
  if (OneIn(random, 20)) return 0;
  return OneIn(random, 3) ? Draw(random, 1, high) : Draw(random, 1, 6);
}

BitPlane DrawPlane(std::mt19937_64& random, const Problem& p) {
  BitPlane plane;
  plane.rank = static_cast<int>(Draw(random, 2, 4));
  const Shape4 full = p.WeightsShape();
  for (size_t axis = static_cast<size_t>(4 - plane.rank); axis < 4; ++axis) {
    plane.shape[axis] = OneIn(random, 3) ? 1 : full[axis];
  }
  plane.bits.resize(static_cast<size_t>(ElementCount(plane.shape)));
  const int64_t density = Draw(random, 1, 4);  // 1: all hidden now and then
  for (uint8_t& bit : plane.bits) bit = OneIn(random, density) ? 0 : 1;
  return plane;
}

void DrawDiagonal(std::mt19937_64& random, Problem& p) {
  const int64_t reach = p.q_len + p.kv_len + 2;
  p.causal = OneIn(random, 2);
  if (OneIn(random, 3)) p.window.left = Draw(random, 0, 8);
  if (OneIn(random, 3)) p.window.right = Draw(random, 0, 8);
  if (OneIn(random, 2)) return;
  for (int64_t b = 0; b < p.batch; ++b) {
    p.diagonal_offset.push_back(OneIn(random, 2) ? p.kv_len - p.q_len
                                                 : Draw(random, -reach, reach));
  }
}

// Values of `dtype` times `scale`.
Array DrawArray(std::mt19937_64& random, const Shape4& shape, DType dtype, double scale = 1) {
  Array array(shape);
  for (double& value : array.values) {
    value = scale * RoundTo(dtype, static_cast<double>(Draw(random, -4096, 4096)) / 2048.0);
  }
  return array;
}

template <typename T>
T OneOf(std::mt19937_64& random, std::initializer_list<T> choices) {
  return choices.begin()[Draw(random, 0, static_cast<int64_t>(choices.size()) - 1)];
}

std::vector<int64_t> DrawIntegers(std::mt19937_64& random, int64_t count, int64_t low,
                                  int64_t high) {
  std::vector<int64_t> values;
  for (int64_t n = 0; n < count; ++n) values.push_back(Draw(random, low, high));
  return values;
}

std::vector<double> DrawPerHead(std::mt19937_64& random, const Problem& p,
                                std::initializer_list<double> choices) {
  std::vector<double> values;
  for (int64_t h = 0; h < p.q_heads; ++h) {
    values.push_back(RoundTo(p.LseDType(), OneOf(random, choices)));
  }
  return values;
}

void FillBits(std::mt19937_64& random, BitPlane& plane) {
  plane.bits.resize(static_cast<size_t>(ElementCount(plane.shape)));
  for (uint8_t& bit : plane.bits) bit = OneIn(random, 3) ? 0 : 1;
}

// Padding has no part in the loss.
Array DrawDout(std::mt19937_64& random, const Problem& p) {
  Array dout = DrawArray(random, p.OutShape(), p.dtype);
  ForEachRow(p, [&](const Row& row) {
    if (!IsPaddedQuery(p, row)) return;
    for (int64_t d = 0; d < p.value_dim; ++d) dout.At(row.batch, row.head, row.query, d) = 0;
  });
  return dout;
}

void DrawBlockMask(std::mt19937_64& random, Problem& p) {
  BlockMask& mask = p.block_mask.emplace();
  mask.block_q = OneOf<int64_t>(random, {1, 2, 3, 16, 1000});
  mask.block_k = OneOf<int64_t>(random, {1, 2, 3, 16, 1000});
  mask.plane.shape = {OneIn(random, 2) ? 1 : p.batch, OneIn(random, 2) ? 1 : p.q_heads,
                      (p.q_len + mask.block_q - 1) / mask.block_q,
                      (p.kv_len + mask.block_k - 1) / mask.block_k};
  FillBits(random, mask.plane);
}

void DrawDropout(std::mt19937_64& random, Problem& p) {
  p.dropout.emplace().probability = OneOf(random, {0.0, 0.1, 0.5});
  p.dropout->keep.shape = p.WeightsShape();
  FillBits(random, p.dropout->keep);
}

}  // namespace

Problem RandomProblem(std::mt19937_64& random, DType dtype) {
  Problem p;
  p.dtype = dtype;
  p.batch = DrawSize(random, 3);
  p.kv_heads = DrawSize(random, 3);
  p.q_heads = p.kv_heads * Draw(random, 1, 3);
  p.q_len = DrawSize(random, 40);
  p.kv_len = DrawSize(random, 40);
  p.head_dim = DrawSize(random, 20);
  p.value_dim = OneIn(random, 2) ? p.head_dim : DrawSize(random, 20);
  if (OneIn(random, 2)) p.scale = static_cast<double>(Draw(random, -16, 16)) / 16.0;
  if (OneIn(random, 2)) DrawDiagonal(random, p);
  if (OneIn(random, 3)) {
    p.key_lengths.emplace();
    for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(Draw(random, 0, p.kv_len));
  }
  if (OneIn(random, 3)) p.mask = DrawPlane(random, p);
  if (OneIn(random, 3)) p.bias = DrawPlane(random, p);
  p.want_lse = true;
  p.want_weights = true;
  return p;
}

void AddRandomFeatures(std::mt19937_64& random, Problem& p) {
  if (OneIn(random, 4)) p.softcap = OneOf(random, {0.125, 1.0, 5.0, 30.0});
  if (OneIn(random, 4)) p.alibi_slopes = DrawPerHead(random, p, {0.5, 0.7, 0.0, -0.1});
  if (OneIn(random, 4)) p.sinks = DrawPerHead(random, p, {0.0, 1.1, -1.0, 60.0, -60.0});
  if (OneIn(random, 4)) p.query_lengths = DrawIntegers(random, p.batch, 0, p.q_len);
  if (OneIn(random, 4)) p.prefix_lengths = DrawIntegers(random, p.batch, 0, p.kv_len);
  if (OneIn(random, 5)) {
    p.documents = Documents{DrawIntegers(random, p.batch * p.q_len, -1, 1),
                            DrawIntegers(random, p.batch * p.kv_len, -1, 1)};
  }
  if (OneIn(random, 5)) DrawBlockMask(random, p);
  if (OneIn(random, 5)) DrawDropout(random, p);
  if (p.bias && OneIn(random, 3)) p.bias_dtype = DType::kF32;
  if (OneIn(random, 3)) p.want_scores = static_cast<ScoreMode>(Draw(random, 0, 3));
  if (!OneIn(random, 5)) return;
  p.fp8 = Fp8{OneIn(random, 2) ? DType::kE4M3 : DType::kE5M2, RoundTo(DType::kF32, 0.3), 0.5,
              RoundTo(DType::kF32, 1.7)};
}

Inputs RandomInputs(std::mt19937_64& random, const Problem& problem) {
  const Fp8 scales = problem.fp8.value_or(Fp8{});
  const DType type = problem.InputDType();
  Inputs inputs;
  inputs.q = DrawArray(random, problem.QShape(), type, scales.q_scale);
  inputs.k = DrawArray(random, problem.KShape(), type, scales.k_scale);
  inputs.v = DrawArray(random, problem.VShape(), type, scales.v_scale);
  if (problem.want_gradients) inputs.dout = DrawDout(random, problem);
  if (problem.bias) {
    inputs.bias = DrawArray(random, problem.bias->shape, problem.BiasDType());
    for (size_t n = 0; n < problem.bias->bits.size(); ++n) {
      if (problem.bias->bits[n] == 0) {
        inputs.bias.values[n] = -std::numeric_limits<double>::infinity();
      }
    }
  }
  return inputs;
}

void PoisonHidden(const Problem& problem, Inputs& inputs) {
  Array seen({problem.batch, problem.kv_heads, problem.kv_len, 1});
  ForEachRow(problem, [&](const Row& row) {
    for (const int64_t key : VisibleKeys(problem, row)) {
      seen.At(row.batch, row.head / problem.heads_per_kv_head(), key, 0) = 1;
    }
  });
  for (size_t key = 0; key < seen.values.size(); ++key) {
    if (seen.values[key] != 0) continue;
    for (Array* tensor : {&inputs.k, &inputs.v}) {
      const auto dim = static_cast<size_t>(tensor->shape[3]);
      for (size_t c = 0; c < dim; ++c) {
        tensor->values[key * dim + c] = std::numeric_limits<double>::quiet_NaN();
      }
    }
  }
}

}  // namespace attest
