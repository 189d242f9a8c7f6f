#include "properties/harness/case/slice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "properties/harness/case/offers.h"

namespace attest {
namespace {

// Which dimension of a tensor an axis is, if any. Bias and mask planes go by [b, q_heads, q, kv].
std::optional<size_t> DimensionOf(Axis axis, DataTensor tensor) {
  if (axis == Axis::kBatch) return 0;
  const bool by_query =
      tensor == DataTensor::kQ || tensor == DataTensor::kBias || tensor == DataTensor::kDout;
  if (axis == Axis::kQHeads) return by_query ? std::optional<size_t>(1) : std::nullopt;
  if (axis == Axis::kKvHeads) return by_query ? std::nullopt : std::optional<size_t>(1);
  if (axis == Axis::kQLen) return by_query ? std::optional<size_t>(2) : std::nullopt;
  if (axis == Axis::kKvLen) {
    if (tensor == DataTensor::kBias) return 3;
    return by_query ? std::nullopt : std::optional<size_t>(2);
  }
  const bool head_dim = tensor == DataTensor::kQ || tensor == DataTensor::kK;
  if (axis == Axis::kHeadDim) return head_dim ? std::optional<size_t>(3) : std::nullopt;
  const bool value_dim = tensor == DataTensor::kV || tensor == DataTensor::kDout;
  return value_dim ? std::optional<size_t>(3) : std::nullopt;
}

// Calls visit(source_offset) for each kept element in row-major order of the result.
template <typename Visitor>
void VisitKept(const Shape4& shape, size_t dimension, const std::vector<int64_t>& keep,
               Visitor&& visit) {
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < 4; ++d) {
    if (d < dimension) outer *= shape[d];
    if (d > dimension) inner *= shape[d];
  }
  for (int64_t o = 0; o < outer; ++o)
    for (const int64_t index : keep)
      for (int64_t i = 0; i < inner; ++i)
        visit(static_cast<size_t>((o * shape[dimension] + index) * inner + i));
}

BitPlane Kept(const BitPlane& plane, size_t dimension, const std::vector<int64_t>& keep) {
  BitPlane out;
  out.shape = plane.shape;
  out.rank = plane.rank;
  out.shape[dimension] = static_cast<int64_t>(keep.size());
  VisitKept(plane.shape, dimension, keep, [&](size_t at) { out.bits.push_back(plane.bits[at]); });
  return out;
}

void SelectPlane(std::optional<BitPlane>& plane, Axis axis, const std::vector<int64_t>& keep) {
  const auto dimension = DimensionOf(axis, DataTensor::kBias);
  // A broadcast extent stays one, whatever the full extent becomes.
  if (!plane || !dimension || plane->shape[*dimension] == 1) return;
  plane = Kept(*plane, *dimension, keep);
}

// For each tile of what is kept the tile that it comes from; nullopt where one would be a mixture.
std::optional<std::vector<int64_t>> KeptTiles(const std::vector<int64_t>& keep, int64_t block) {
  std::vector<int64_t> tiles;
  for (size_t n = 0; n < keep.size(); ++n) {
    const int64_t from = keep[n] / block;
    if (static_cast<int64_t>(n) % block == 0) tiles.push_back(from);
    if (tiles.back() != from) return std::nullopt;
  }
  return tiles;
}

// False, with nothing done, where the cut goes through tiles.
bool SelectBlocks(BlockMask& mask, Axis axis, const std::vector<int64_t>& keep) {
  const auto dimension = DimensionOf(axis, DataTensor::kBias);
  if (!dimension) return true;
  if (*dimension < 2) {
    if (mask.plane.shape[*dimension] != 1) mask.plane = Kept(mask.plane, *dimension, keep);
    return true;
  }
  const auto tiles = KeptTiles(keep, *dimension == 2 ? mask.block_q : mask.block_k);
  if (tiles) mask.plane = Kept(mask.plane, *dimension, *tiles);
  return tiles.has_value();
}

// The block mask said by the boolean mask, together with what that says already.
void BlocksToMask(Problem& p) {
  const BlockMask& blocks = *p.block_mask;
  BitPlane plane;
  plane.shape = p.WeightsShape();
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t extent = blocks.plane.shape[axis];
    plane.shape[axis] = extent != 1 || !p.mask ? extent : p.mask->shape[axis];
  }
  for (int64_t b = 0; b < plane.shape[0]; ++b)
    for (int64_t h = 0; h < plane.shape[1]; ++h)
      for (int64_t i = 0; i < p.q_len; ++i)
        for (int64_t j = 0; j < p.kv_len; ++j) {
          const bool attends = blocks.plane.At(b, h, i / blocks.block_q, j / blocks.block_k) &&
                               (!p.mask || p.mask->At(b, h, i, j));
          plane.bits.push_back(attends ? 1 : 0);
        }
  p.mask = std::move(plane);
  p.block_mask.reset();
}

void SelectLiterals(const Case& c, Axis axis, const std::vector<int64_t>& keep, Case& out) {
  for (auto& [tensor, literal] : out.literals) {
    const auto dimension = DimensionOf(axis, tensor);
    if (!dimension) continue;
    const bool broadcast =
        tensor == DataTensor::kBias && c.problem.bias && c.problem.bias->shape[*dimension] == 1;
    if (!broadcast) literal = SelectArray(literal, *dimension, keep);
  }
}

// Renumbers the override's index; false when its element is gone.
bool SelectOverride(const Problem& before, Axis axis, const std::vector<int64_t>& keep,
                    Override& o) {
  const auto dimension = DimensionOf(axis, o.tensor);
  if (!dimension) return true;
  if (o.tensor == DataTensor::kBias && before.bias && before.bias->shape[*dimension] == 1) {
    return true;
  }
  const auto at = std::ranges::find(keep, o.index[*dimension]);
  if (at == keep.end()) return false;
  o.index[*dimension] = at - keep.begin();
  return true;
}

template <typename T>
std::vector<T> SelectFrom(const std::vector<T>& values, const std::vector<int64_t>& keep) {
  std::vector<T> kept;
  for (const int64_t index : keep) kept.push_back(values[static_cast<size_t>(index)]);
  return kept;
}

template <typename T>
void SelectFrom(std::optional<std::vector<T>>& values, const std::vector<int64_t>& keep) {
  if (values) values = SelectFrom(*values, keep);
}

// Of `ids` [batch, len] the rows, or in every row the columns, that are kept.
std::vector<int64_t> SelectIds(const std::vector<int64_t>& ids, const Shape4& shape,
                               size_t dimension, const std::vector<int64_t>& keep) {
  std::vector<int64_t> kept;
  VisitKept(shape, dimension, keep, [&](size_t at) { kept.push_back(ids[at]); });
  return kept;
}

// Lengths count the positions that remain.
void SelectLengths(std::optional<std::vector<int64_t>>& lengths, const std::vector<int64_t>& keep) {
  if (!lengths) return;
  for (int64_t& length : *lengths) {
    length = std::ranges::lower_bound(keep, length) - keep.begin();
  }
}

void SelectBatch(const std::vector<int64_t>& keep, Problem& p) {
  if (!p.diagonal_offset.empty()) p.diagonal_offset = SelectFrom(p.diagonal_offset, keep);
  for (auto* lengths : {&p.key_lengths, &p.query_lengths, &p.prefix_lengths}) {
    SelectFrom(*lengths, keep);
  }
  if (!p.documents) return;
  p.documents->query = SelectIds(p.documents->query, {p.batch, p.q_len, 1, 1}, 0, keep);
  p.documents->key = SelectIds(p.documents->key, {p.batch, p.kv_len, 1, 1}, 0, keep);
}

// A row that moves up by n keeps its diagonal key with an offset that is n larger; keys that move
// down by n ask for one that is n smaller.
void ShiftDiagonal(int64_t by, Problem& p) {
  if (by == 0 || !LooksAtDiagonal(p)) return;
  if (p.diagonal_offset.empty()) p.diagonal_offset.assign(static_cast<size_t>(p.batch), 0);
  for (int64_t& offset : p.diagonal_offset) offset += by;
}

void SelectQueries(const std::vector<int64_t>& keep, Problem& p) {
  if (!keep.empty()) ShiftDiagonal(keep.front(), p);
  SelectLengths(p.query_lengths, keep);
  if (!p.documents) return;
  p.documents->query = SelectIds(p.documents->query, {p.batch, p.q_len, 1, 1}, 1, keep);
}

void SelectKeys(const std::vector<int64_t>& keep, Case& c) {
  Problem& p = c.problem;
  if (!keep.empty()) ShiftDiagonal(-keep.front(), p);
  SelectLengths(p.key_lengths, keep);
  SelectLengths(p.prefix_lengths, keep);
  c.storage.past = std::ranges::lower_bound(keep, c.storage.past) - keep.begin();
  if (c.storage.past == 0) c.storage.without_present = false;
  if (!p.documents) return;
  p.documents->key = SelectIds(p.documents->key, {p.batch, p.kv_len, 1, 1}, 1, keep);
}

// Masks of every kind, before the sizes change.
void SelectPlanes(Axis axis, const std::vector<int64_t>& keep, Problem& p) {
  if (p.block_mask && !SelectBlocks(*p.block_mask, axis, keep)) BlocksToMask(p);
  SelectPlane(p.mask, axis, keep);
  SelectPlane(p.bias, axis, keep);
  const auto dimension = DimensionOf(axis, DataTensor::kBias);
  if (p.dropout && dimension) p.dropout->keep = Kept(p.dropout->keep, *dimension, keep);
}

int64_t Problem::*MemberOf(Axis axis) {
  switch (axis) {
    case Axis::kBatch:
      return &Problem::batch;
    case Axis::kQHeads:
      return &Problem::q_heads;
    case Axis::kKvHeads:
      return &Problem::kv_heads;
    case Axis::kQLen:
      return &Problem::q_len;
    case Axis::kKvLen:
      return &Problem::kv_len;
    case Axis::kHeadDim:
      return &Problem::head_dim;
    case Axis::kValueDim:
      break;
  }
  return &Problem::value_dim;
}

}  // namespace

int64_t& SizeOf(Problem& problem, Axis axis) {
  return problem.*MemberOf(axis);
}

int64_t SizeOf(const Problem& problem, Axis axis) {
  return problem.*MemberOf(axis);
}

std::vector<int64_t> IndexRange(int64_t first, int64_t count) {
  std::vector<int64_t> indices;
  for (int64_t n = 0; n < count; ++n) indices.push_back(first + n);
  return indices;
}

Array SelectArray(const Array& array, size_t dimension, const std::vector<int64_t>& keep) {
  Array out;
  out.shape = array.shape;
  out.shape[dimension] = static_cast<int64_t>(keep.size());
  VisitKept(array.shape, dimension, keep,
            [&](size_t at) { out.values.push_back(array.values[at]); });
  return out;
}

Case Select(const Case& c, Axis axis, const std::vector<int64_t>& keep) {
  Case out = c;
  Problem& p = out.problem;
  SelectPlanes(axis, keep, p);
  SelectLiterals(c, axis, keep, out);
  out.overrides.clear();
  for (Override o : c.overrides) {
    if (SelectOverride(c.problem, axis, keep, o)) out.overrides.push_back(o);
  }
  if (axis == Axis::kBatch) SelectBatch(keep, p);
  if (axis == Axis::kQHeads) {
    SelectFrom(p.alibi_slopes, keep);
    SelectFrom(p.sinks, keep);
  }
  if (axis == Axis::kQLen) SelectQueries(keep, p);
  if (axis == Axis::kKvLen) SelectKeys(keep, out);
  SizeOf(p, axis) = static_cast<int64_t>(keep.size());
  return out;
}

Case SelectHeads(const Case& c, const std::vector<int64_t>& keep, int64_t ratio) {
  const int64_t group = c.problem.heads_per_kv_head();
  std::vector<int64_t> query_heads;
  for (const int64_t head : keep) {
    for (int64_t n = 0; n < ratio; ++n) query_heads.push_back(head * group + n);
  }
  return Select(Select(c, Axis::kQHeads, query_heads), Axis::kKvHeads, keep);
}

}  // namespace attest
