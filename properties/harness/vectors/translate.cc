#include "properties/harness/vectors/translate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attest {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();
constexpr int64_t kShortMaskOpset = 24;  // the first that pads a short attn_mask

constexpr int64_t kMaxHeads = int64_t{1}
                              << 24;  // as much as a Problem takes; products stay in range

using Done = tl::expected<void, std::string>;
using Reasons = std::vector<std::string>;

template <typename... Args>
tl::unexpected<std::string> Fail(fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected(fmt::format(format, std::forward<Args>(args)...));
}

// A floating tensor as [batch, heads, len, dim]: 4-D as it is, 3-D from [batch, len, heads * dim].
tl::expected<Array, std::string> ToBhsd(const char* name, const OnnxTensor& tensor, int64_t heads) {
  if (!tensor.dtype || !IsFloat(*tensor.dtype)) {
    return Fail("{} of type {}", name, tensor.type_name);
  }
  const auto& dims = tensor.dims;
  Array result;
  if (dims.size() == 4) {
    result.shape = {dims[0], dims[1], dims[2], dims[3]};
    result.values = tensor.values;
    return result;
  }
  if (dims.size() != 3) return Fail("{} of rank {}, not 3 or 4", name, dims.size());
  if (heads <= 0 || heads > kMaxHeads) {
    return Fail("{} of rank 3 needs a number of heads in 1..{}, not {}", name, kMaxHeads, heads);
  }
  if (dims[2] % heads != 0) {
    return Fail("{} has {} columns, not a multiple of its {} heads", name, dims[2], heads);
  }
  result = Array({dims[0], heads, dims[1], dims[2] / heads});
  const auto& shape = result.shape;
  size_t at = 0;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t i = 0; i < shape[2]; ++i)
      for (int64_t h = 0; h < shape[1]; ++h)
        for (int64_t d = 0; d < shape[3]; ++d) result.At(b, h, i, d) = tensor.values[at++];
  return result;
}

// K or V behind its past, along the axis of keys.
tl::expected<Array, std::string> Behind(const char* name, const OnnxTensor& past_tensor,
                                        const Array& recent) {
  if (past_tensor.dims.size() != 4) {
    return Fail("past of {} of rank {}, not 4", name, past_tensor.dims.size());
  }
  auto past = ToBhsd(name, past_tensor, /*heads=*/0);
  if (!past) return past;
  const Shape4 &before = past->shape, &after = recent.shape;
  if (before[0] != after[0] || before[1] != after[1] || before[3] != after[3]) {
    return Fail("past of {} has shape [{}] before [{}]", name, fmt::join(before, ", "),
                fmt::join(after, ", "));
  }
  Array whole({after[0], after[1], before[2] + after[2], after[3]});
  size_t at = 0;
  for (int64_t b = 0; b < after[0]; ++b)
    for (int64_t h = 0; h < after[1]; ++h)
      for (int64_t j = 0; j < whole.shape[2]; ++j)
        for (int64_t d = 0; d < after[3]; ++d) {
          whole.values[at++] =
              j < before[2] ? past->At(b, h, j, d) : recent.At(b, h, j - before[2], d);
        }
  return whole;
}

// Q, K and V fix the sizes. K and V that do not fit each other show when the case is validated.
Done TakeTensors(const AttentionNode& node, const std::vector<OnnxTensor>& inputs, Case* c) {
  const auto at = [&inputs](int position) -> const OnnxTensor& {
    return inputs[static_cast<size_t>(position)];
  };
  auto q = ToBhsd("Q", at(node.q), node.q_num_heads);
  if (!q) return tl::unexpected(q.error());
  auto k = ToBhsd("K", at(node.k), node.kv_num_heads);
  if (!k) return tl::unexpected(k.error());
  auto v = ToBhsd("V", at(node.v), node.kv_num_heads);
  if (!v) return tl::unexpected(v.error());
  if (node.past_key >= 0) {
    const int64_t recent = k->shape[2];
    k = Behind("K", at(node.past_key), *k);
    if (!k) return tl::unexpected(k.error());
    v = Behind("V", at(node.past_value), *v);
    if (!v) return tl::unexpected(v.error());
    c->storage.past = k->shape[2] - recent;
  }
  Problem& p = c->problem;
  p.batch = q->shape[0];
  p.q_heads = q->shape[1];
  p.q_len = q->shape[2];
  p.head_dim = q->shape[3];
  p.kv_heads = k->shape[1];
  p.kv_len = k->shape[2];
  p.value_dim = v->shape[3];
  p.dtype = *at(node.q).dtype;
  c->literals[DataTensor::kQ] = std::move(*q);
  c->literals[DataTensor::kK] = std::move(*k);
  c->literals[DataTensor::kV] = std::move(*v);
  return {};
}

void CheckTypes(const AttentionNode& node, const std::vector<OnnxTensor>& inputs,
                Reasons* reasons) {
  const OnnxTensor& q = inputs[static_cast<size_t>(node.q)];
  for (const auto& [name, position] :
       {std::pair("K", node.k), std::pair("V", node.v), std::pair("past_key", node.past_key),
        std::pair("past_value", node.past_value)}) {
    if (position < 0) continue;
    const OnnxTensor& other = inputs[static_cast<size_t>(position)];
    if (other.dtype != q.dtype) {
      reasons->push_back(
          fmt::format("{} of type {} beside Q of type {}", name, other.type_name, q.type_name));
    }
  }
}

// ONNX's number of a floating type.
std::optional<DType> TypeOf(int64_t number) {
  switch (number) {
    case 1:
      return DType::kF32;
    case 10:
      return DType::kF16;
    case 11:
      return DType::kF64;
    case 16:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

// A softmax in another type than the tensors' only rounds otherwise. Where that type is no narrower
// than theirs, in digits and in range, it errs less than the bound grants a kernel of theirs, and the
// same answers are due; where it is narrower the stored ones may lie further off, and no Problem
// says so.
void CheckSoftmaxPrecision(const AttentionNode& node, DType dtype, Reasons* reasons) {
  if (!node.softmax_precision) return;
  const std::optional<DType> type = TypeOf(*node.softmax_precision);
  const bool is_enough = type && TraitsOf(*type).unit_roundoff <= TraitsOf(dtype).unit_roundoff &&
                         TraitsOf(*type).max_finite >= TraitsOf(dtype).max_finite;
  if (is_enough) return;
  reasons->push_back(
      fmt::format("softmax_precision {} beside {}", *node.softmax_precision, Name(dtype)));
}

// The 4-D shape of a mask (1 in front), or the reason why it is none.
tl::expected<Shape4, std::string> MaskShape(const OnnxTensor& mask, const Shape4& full,
                                            int64_t opset) {
  const auto& dims = mask.dims;
  if (dims.empty() || dims.size() > 4) return Fail("attn_mask of rank {}", dims.size());
  Shape4 shape{1, 1, 1, 1};
  std::copy(dims.begin(), dims.end(), shape.end() - static_cast<std::ptrdiff_t>(dims.size()));
  for (size_t axis = 0; axis < 3; ++axis) {
    if (shape[axis] != 1 && shape[axis] != full[axis]) {
      return Fail("attn_mask of shape [{}] does not broadcast to [{}]", fmt::join(dims, ", "),
                  fmt::join(full, ", "));
    }
  }
  if (shape[3] > full[3]) return Fail("attn_mask is longer than the {} keys", full[3]);
  if (shape[3] == full[3]) return shape;
  if (shape[3] == 1 && opset >= kShortMaskOpset) {
    return Fail("attn_mask with a last dimension of 1: the standard both broadcasts and pads it");
  }
  if (shape[3] != 1 && opset < kShortMaskOpset) {
    return Fail("attn_mask shorter than the keys, which came with opset {}", kShortMaskOpset);
  }
  return shape;
}

// The mask's values over `shape`, short rows padded at their end with `hidden`.
Array MaskValues(const OnnxTensor& mask, const Shape4& stored, const Shape4& full, double hidden) {
  const bool pad = stored[3] != 1 && stored[3] < full[3];
  Array values({stored[0], stored[1], stored[2], pad ? full[3] : stored[3]}, hidden);
  size_t at = 0;
  for (int64_t b = 0; b < stored[0]; ++b)
    for (int64_t h = 0; h < stored[1]; ++h)
      for (int64_t i = 0; i < stored[2]; ++i)
        for (int64_t j = 0; j < stored[3]; ++j) values.At(b, h, i, j) = mask.values[at++];
  return values;
}

// A boolean attn_mask is the problem's mask (true = attend, as here); a floating one its bias.
void TakeMask(const OnnxTensor& mask, int64_t opset, Case* c, Reasons* reasons) {
  Problem& p = c->problem;
  const bool boolean = mask.dtype == DType::kBool;
  if (!boolean && (!mask.dtype || !IsFloat(*mask.dtype))) {
    reasons->push_back(fmt::format("attn_mask of type {}", mask.type_name));
    return;
  }
  const auto shape = MaskShape(mask, p.WeightsShape(), opset);
  if (!shape) {
    reasons->push_back(shape.error());
    return;
  }
  Array values = MaskValues(mask, *shape, p.WeightsShape(), boolean ? 0.0 : kMinusInf);
  BitPlane plane;
  plane.shape = values.shape;
  plane.rank = std::max(2, static_cast<int>(mask.dims.size()));
  for (const double value : values.values) {
    if (!boolean && (std::isnan(value) || value > std::numeric_limits<double>::max())) {
      reasons->push_back(fmt::format("attn_mask holds {}", value));
      return;
    }
    plane.bits.push_back(boolean ? value != 0 : value != kMinusInf);
  }
  (boolean ? p.mask : p.bias) = std::move(plane);
  if (mask.dtype == DType::kF32 && p.dtype != DType::kF32) p.bias_dtype = DType::kF32;
  if (!boolean) c->literals[DataTensor::kBias] = std::move(values);
}

void TakeKeyLengths(const OnnxTensor& lengths, Problem* p, Reasons* reasons) {
  if (lengths.dtype != DType::kI64 || lengths.dims.size() != 1) {
    reasons->push_back(fmt::format("nonpad_kv_seqlen of type {} and rank {}", lengths.type_name,
                                   lengths.dims.size()));
    return;
  }
  p->key_lengths.emplace();
  for (const double length : lengths.values) {
    p->key_lengths->push_back(static_cast<int64_t>(length));
  }
}

// The standard's rule: row i stands at key i without a cache, at the i-th new key behind a past; with
// key lengths, the last row stands at the last key within its batch item's length.
void PlaceDiagonal(const AttentionNode& node, int64_t past, Problem* p) {
  p->causal = node.causal;
  p->window = {node.left_window, node.right_window};
  if (!p->causal && !p->window.active()) return;
  if (past > 0) p->diagonal_offset.assign(static_cast<size_t>(p->batch), past);
  if (!p->key_lengths) return;
  p->diagonal_offset.clear();
  for (const int64_t length : *p->key_lengths) p->diagonal_offset.push_back(length - p->q_len);
}

// The expected values, whose shape must be the problem's.
tl::expected<Array, std::string> TakeOutput(const char* name, const OnnxTensor& tensor,
                                            int64_t heads, const Shape4& shape) {
  auto result = ToBhsd(name, tensor, heads);
  if (result && result->shape != shape) {
    return Fail("{} has shape [{}] where [{}] is computed", name, fmt::join(result->shape, ", "),
                fmt::join(shape, ", "));
  }
  return result;
}

Done TakeOutputs(const AttentionNode& node, const std::vector<OnnxTensor>& outputs,
                 VectorCase* vector) {
  const Problem& p = vector->c.problem;
  const struct {
    const char* name;
    int position;
    int64_t heads;  // of a 3-D tensor
    Shape4 shape;
    Array* target;
  } wanted[] = {
      {"Y", node.out, node.q_num_heads, p.OutShape(), &vector->out},
      {"qk_matmul_output", node.qk_matmul_output, 0, p.WeightsShape(),
       p.want_weights ? &vector->weights : &vector->scores},
      {"present_key", node.present_key, 0, p.KShape(), &vector->present_k},
      {"present_value", node.present_value, 0, p.VShape(), &vector->present_v},
  };
  for (const auto& output : wanted) {
    if (output.position < 0) continue;
    auto taken = TakeOutput(output.name, outputs[static_cast<size_t>(output.position)],
                            output.heads, output.shape);
    if (!taken) return tl::unexpected(taken.error());
    *output.target = std::move(*taken);
  }
  return {};
}

// Probabilities are weights, which more kernels give.
void WantScores(const AttentionNode& node, Problem* p) {
  p->want_weights = node.scores == ScoreMode::kWeights;
  if (!p->want_weights) p->want_scores = node.scores;
}

}  // namespace

Done Translate(const AttentionNode& node, const std::vector<OnnxTensor>& inputs,
               const std::vector<OnnxTensor>& outputs, VectorCase* vector) {
  Case& c = vector->c;
  Reasons& reasons = vector->unsupported;
  reasons = node.unsupported;
  if (auto taken = TakeTensors(node, inputs, &c); !taken) return taken;
  CheckTypes(node, inputs, &reasons);
  CheckSoftmaxPrecision(node, c.problem.dtype, &reasons);
  c.problem.scale = node.scale;
  c.problem.softcap = node.softcap;
  WantScores(node, &c.problem);
  c.origin = "ONNX vector " + vector->name;
  if (node.key_lengths >= 0) {
    TakeKeyLengths(inputs[static_cast<size_t>(node.key_lengths)], &c.problem, &reasons);
  }
  PlaceDiagonal(node, c.storage.past, &c.problem);
  // Before the mask, because padding it to sizes that nobody has checked could take all memory.
  if (auto error = Validate(c.problem)) reasons.push_back(std::move(*error));
  if (node.attn_mask >= 0 && reasons.empty()) {
    TakeMask(inputs[static_cast<size_t>(node.attn_mask)], node.opset, &c, &reasons);
  }
  if (reasons.empty()) {
    if (auto error = Validate(c)) reasons.push_back(std::move(*error));
  }
  return reasons.empty() ? TakeOutputs(node, outputs, vector) : Done{};
}

}  // namespace attest
