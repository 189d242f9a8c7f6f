#include "properties/harness/case/slice.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace attest {
namespace {

// Which dimension of a tensor an axis is, if any. Bias and mask planes go by [b, q_heads, q, kv].
std::optional<size_t> DimensionOf(Axis axis, DataTensor tensor) {
  if (axis == Axis::kBatch) return 0;
  const bool by_query = tensor == DataTensor::kQ || tensor == DataTensor::kBias;
  if (axis == Axis::kQHeads) return by_query ? std::optional<size_t>(1) : std::nullopt;
  if (axis == Axis::kKvHeads) return by_query ? std::nullopt : std::optional<size_t>(1);
  if (axis == Axis::kQLen) return by_query ? std::optional<size_t>(2) : std::nullopt;
  if (axis == Axis::kKvLen) {
    if (tensor == DataTensor::kBias) return 3;
    return tensor == DataTensor::kQ ? std::nullopt : std::optional<size_t>(2);
  }
  const bool head_dim = tensor == DataTensor::kQ || tensor == DataTensor::kK;
  if (axis == Axis::kHeadDim) return head_dim ? std::optional<size_t>(3) : std::nullopt;
  return tensor == DataTensor::kV ? std::optional<size_t>(3) : std::nullopt;
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

void SelectPlane(std::optional<BitPlane>& plane, Axis axis, const std::vector<int64_t>& keep) {
  const auto dimension = DimensionOf(axis, DataTensor::kBias);
  // A broadcast extent stays one, whatever the full extent becomes.
  if (!plane || !dimension || plane->shape[*dimension] == 1) return;
  std::vector<uint8_t> bits;
  VisitKept(plane->shape, *dimension, keep, [&](size_t at) { bits.push_back(plane->bits[at]); });
  plane->bits = std::move(bits);
  plane->shape[*dimension] = static_cast<int64_t>(keep.size());
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

std::vector<int64_t> SelectPerItem(const std::vector<int64_t>& values,
                                   const std::vector<int64_t>& keep) {
  std::vector<int64_t> kept;
  for (const int64_t index : keep) kept.push_back(values[static_cast<size_t>(index)]);
  return kept;
}

void SelectBatch(const std::vector<int64_t>& keep, Problem& p) {
  if (!p.diagonal_offset.empty()) p.diagonal_offset = SelectPerItem(p.diagonal_offset, keep);
  if (p.key_lengths) p.key_lengths = SelectPerItem(*p.key_lengths, keep);
}

// A row that moves up by n keeps its diagonal key with an offset that is n larger; keys that move
// down by n ask for one that is n smaller.
void ShiftDiagonal(int64_t by, Problem& p) {
  if (by == 0 || (!p.causal && !p.window.active())) return;
  if (p.diagonal_offset.empty()) p.diagonal_offset.assign(static_cast<size_t>(p.batch), 0);
  for (int64_t& offset : p.diagonal_offset) offset += by;
}

void SelectKeys(const std::vector<int64_t>& keep, Problem& p) {
  if (!keep.empty()) ShiftDiagonal(-keep.front(), p);
  if (!p.key_lengths) return;
  for (int64_t& length : *p.key_lengths) {
    length = std::ranges::lower_bound(keep, length) - keep.begin();
  }
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
  SelectPlane(p.mask, axis, keep);
  SelectPlane(p.bias, axis, keep);
  SelectLiterals(c, axis, keep, out);
  out.overrides.clear();
  for (Override o : c.overrides) {
    if (SelectOverride(c.problem, axis, keep, o)) out.overrides.push_back(o);
  }
  if (axis == Axis::kBatch) SelectBatch(keep, p);
  if (axis == Axis::kQLen && !keep.empty()) ShiftDiagonal(keep.front(), p);
  if (axis == Axis::kKvLen) SelectKeys(keep, p);
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
