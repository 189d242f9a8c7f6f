// The measure that every shrink step lowers. Lexicographic: sizes, features, options, overrides,
// data, and last what nobody would notice (seed, placement).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "properties/harness/case/shrink.h"
#include "properties/harness/case/shrink_internal.h"
#include "properties/harness/case/tensor_shape.h"

namespace attest {
namespace {

// More than all the values of a literal of 64 elements can cost, so that turning a family into a
// tiny literal, the first step to simpler numbers, is a step down.
constexpr uint64_t kFamilyCost = uint64_t{1} << 20;

uint64_t SumOfSizes(const Problem& p) {
  return static_cast<uint64_t>(p.batch + p.q_heads + p.kv_heads + p.q_len + p.kv_len + p.head_dim +
                               p.value_dim);
}

uint64_t Features(const Case& c) {
  const Problem& p = c.problem;
  uint64_t count = 0;
  for (const bool on : {p.causal,
                        p.window.left.has_value(),
                        p.window.right.has_value(),
                        p.key_lengths.has_value(),
                        p.mask.has_value(),
                        p.bias.has_value(),
                        p.want_lse,
                        p.want_weights,
                        p.scale.has_value(),
                        !c.overrides.empty(),
                        c.layouts != Layouts{},
                        p.dtype != DType::kF32,
                        p.softcap > 0,
                        p.alibi_slopes.has_value(),
                        p.sinks.has_value(),
                        p.dropout.has_value(),
                        p.query_lengths.has_value(),
                        p.prefix_lengths.has_value(),
                        p.documents.has_value(),
                        p.block_mask.has_value(),
                        p.want_scores.has_value(),
                        p.fp8.has_value(),
                        p.bias_dtype.has_value(),
                        p.want_gradients,
                        c.storage != Storage{}}) {
    count += on ? 1 : 0;
  }
  return count;
}

uint64_t PlaneCost(const BitPlane& plane) {
  uint64_t cost = 2 * plane.bits.size() + static_cast<uint64_t>(4 - plane.rank);
  for (const uint8_t bit : plane.bits) cost += bit == 0 ? 1 : 0;
  return cost;
}

uint64_t PlaneCosts(const Problem& p) {
  uint64_t cost = 0;
  if (p.mask) cost += PlaneCost(*p.mask);
  if (p.bias) cost += PlaneCost(*p.bias);
  if (p.block_mask) {
    cost += PlaneCost(p.block_mask->plane);
    cost += static_cast<uint64_t>(p.block_mask->block_q + p.block_mask->block_k);
  }
  if (p.dropout) cost += PlaneCost(p.dropout->keep) + ValueCost(p.dropout->probability);
  return cost;
}

// How far lengths lie from what would be no length at all.
uint64_t LengthCost(const Problem& p) {
  uint64_t cost = 0;
  const auto add = [&](const std::optional<std::vector<int64_t>>& lengths, int64_t plain) {
    if (!lengths) return;
    for (const int64_t length : *lengths) cost += static_cast<uint64_t>(std::abs(plain - length));
  };
  add(p.key_lengths, p.kv_len);
  add(p.query_lengths, p.q_len);
  add(p.prefix_lengths, 0);
  return cost;
}

// Document 0 is the plain one; high and negative numbers are harder to read.
uint64_t DocumentCost(const std::vector<int64_t>& ids) {
  uint64_t cost = 0;
  for (const int64_t id : ids) {
    cost += id == 0 ? 0 : id < 0 ? 1000 : static_cast<uint64_t>(std::min<int64_t>(id, 999));
  }
  return cost;
}

uint64_t ScoringCost(const Problem& p) {
  uint64_t cost = (p.scale ? ValueCost(*p.scale) : 0) + ValueCost(p.softcap);
  for (const auto* values : {&p.alibi_slopes, &p.sinks}) {
    if (!*values) continue;
    for (const double value : **values) cost += ValueCost(value);
  }
  return cost;
}

uint64_t TypeCost(const Problem& p) {
  uint64_t cost = static_cast<uint64_t>(p.dtype);
  if (p.fp8) {
    cost += static_cast<uint64_t>(p.fp8->format);
    for (const double scale : {p.fp8->q_scale, p.fp8->k_scale, p.fp8->v_scale}) {
      cost += ValueCost(scale);
    }
  }
  return p.want_scores ? cost + static_cast<uint64_t>(*p.want_scores) : cost;
}

uint64_t DiagonalCost(const Problem& p) {
  uint64_t cost = p.diagonal_offset.empty() ? 0 : 1;
  for (const int64_t offset : p.diagonal_offset) cost += static_cast<uint64_t>(std::abs(offset));
  for (const auto& side : {p.window.left, p.window.right}) {
    if (side) cost += static_cast<uint64_t>(*side);
  }
  return cost;
}

uint64_t Options(const Case& c) {
  const Problem& p = c.problem;
  uint64_t cost = PlaneCosts(p) + LengthCost(p) + DiagonalCost(p) + ScoringCost(p) + TypeCost(p);
  if (p.documents) cost += DocumentCost(p.documents->query) + DocumentCost(p.documents->key);
  cost += static_cast<uint64_t>(c.storage.past + c.storage.page_size);
  cost += c.storage.without_present ? 1 : 0;
  cost += static_cast<uint64_t>(c.storage.first_call);
  for (const Layout layout : {c.layouts.q, c.layouts.k, c.layouts.v, c.layouts.out}) {
    cost += static_cast<uint64_t>(layout);
  }
  return cost;
}

uint64_t Overrides(const Case& c) {
  uint64_t cost = 0;
  for (const Override& o : c.overrides) cost += 100 + ValueCost(o.value);
  return cost;
}

uint64_t FamilyRank(const Recipe& recipe, DataTensor tensor) {
  if (tensor == DataTensor::kV) return static_cast<uint64_t>(recipe.values);
  if (tensor == DataTensor::kDout) return static_cast<uint64_t>(recipe.dout);
  if (tensor == DataTensor::kBias) return static_cast<uint64_t>(recipe.bias);
  return static_cast<uint64_t>(recipe.scores);
}

uint64_t TensorCost(const Case& c, DataTensor tensor) {
  const auto literal = c.literals.find(tensor);
  if (literal == c.literals.end()) {
    const uint64_t rank = FamilyRank(c.recipe, tensor);
    return rank == 0 ? 1 : kFamilyCost * (1 + rank);
  }
  uint64_t cost = 2;  // a trivial family is simpler than any literal
  for (const double value : literal->second.values) {
    // -inf in a bias is visibility, which the plane pays for.
    const bool hidden = tensor == DataTensor::kBias && std::isinf(value) && value < 0;
    cost += hidden ? 0 : ValueCost(value);
  }
  return cost;
}

uint64_t Data(const Case& c) {
  uint64_t cost = 0;
  for (const DataTensor tensor : kDataTensors) {
    const bool is_there = (tensor != DataTensor::kBias || c.problem.bias) &&
                          (tensor != DataTensor::kDout || c.problem.want_gradients);
    if (is_there) cost += TensorCost(c, tensor);
  }
  return cost;
}

uint64_t Rest(const Case& c) {
  const Recipe& r = c.recipe;
  return static_cast<uint64_t>(r.scores) + static_cast<uint64_t>(r.values) +
         static_cast<uint64_t>(r.bias) + static_cast<uint64_t>(r.dout) + (r.seed < 4 ? r.seed : 4) +
         static_cast<uint64_t>(c.placement) + c.literals.size();
}

}  // namespace

uint64_t ValueCost(double value) {
  if (!std::isfinite(value)) return 40;
  if (value == 0) return std::signbit(value) ? 10 : 0;
  if (value == 1) return 1;
  const double magnitude = std::fabs(value);
  const uint64_t sign = value < 0 ? 1 : 0;
  if (magnitude <= 4 && magnitude == std::floor(magnitude)) {
    return 2 * static_cast<uint64_t>(magnitude) + sign;
  }
  const bool short_fraction = magnitude <= 64 && magnitude * 16 == std::floor(magnitude * 16);
  return (short_fraction ? 20 : 50) + sign;
}

std::vector<uint64_t> CaseMeasure(const Case& c) {
  return {SumOfSizes(c.problem), Features(c), Options(c), Overrides(c), Data(c), Rest(c)};
}

}  // namespace attest
