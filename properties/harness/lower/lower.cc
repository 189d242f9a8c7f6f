#include "properties/harness/lower/lower.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "impl/attention/visibility.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/planes.h"
#include "properties/harness/lower/tensor_image.h"

namespace attest {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using MaybeReason = std::optional<std::string>;  // nullopt = supported

// --- What the contract can take ---

MaybeReason CheckLimit(const char* name, int64_t size, int64_t limit) {
  if (limit > 0 && size > limit) {
    return fmt::format("{} = {} exceeds the contract's {}", name, size, limit);
  }
  return std::nullopt;
}

MaybeReason CheckSizes(const Problem& p, const Contract& c) {
  const int64_t smallest =
      std::min({p.batch, p.q_heads, p.kv_heads, p.q_len, p.kv_len, p.head_dim, p.value_dim});
  if (smallest == 0 && !c.Has(Feature::kZeroSizes)) return "a size of 0 is not offered";
  if (p.q_heads != p.kv_heads && !c.Has(Feature::kGqa)) return "q_heads != kv_heads is not offered";
  if (p.value_dim != p.head_dim && !c.Has(Feature::kValueDim)) {
    return "value_dim != head_dim is not offered";
  }
  for (const auto& reason : {CheckLimit("batch", p.batch, c.limits.max_batch),
                             CheckLimit("q_heads", p.q_heads, c.limits.max_heads),
                             CheckLimit("q_len", p.q_len, c.limits.max_q_len),
                             CheckLimit("kv_len", p.kv_len, c.limits.max_kv_len),
                             CheckLimit("head_dim", p.head_dim, c.limits.max_head_dim)}) {
    if (reason) return reason;
  }
  if (p.head_dim % c.limits.head_dim_multiple != 0) {
    return fmt::format("head_dim = {} is not a multiple of {}", p.head_dim,
                       c.limits.head_dim_multiple);
  }
  return std::nullopt;
}

MaybeReason CheckLayouts(const Layouts& l, const Contract& c) {
  const std::vector<Layout> offered = OfferedLayouts(c);
  for (const Layout layout : {l.q, l.k, l.v, l.out}) {
    if (std::find(offered.begin(), offered.end(), layout) == offered.end()) {
      return fmt::format("layout {} is not offered", Name(layout));
    }
  }
  return std::nullopt;
}

// --- Diagonals ---

// One implicit rule needs no tensor; a choice does.
bool PassesDiagonalTensor(const Contract& c) {
  return c.causal_offset.size() > 1 || c.causal_offset.count(CausalOffset::kExplicit) != 0;
}

// --- Features that become a mask ---

// The problem as the kernel will be asked it: the same visible sets, in forms that the contract
// has.
struct Reduced {
  Problem problem;
  Array bias;  // matches problem.bias
  bool via_mask = false;
};

// Moves causality, window and lengths that the contract cannot express into a full boolean mask.
void FlagsToMask(Reduced& r, bool flags, bool lengths) {
  Problem hiding = r.problem;  // only what is to move, and the mask that is there already
  hiding.bias.reset();
  if (!flags) {
    hiding.causal = false;
    hiding.window = {};
  }
  if (!lengths) hiding.key_lengths.reset();
  r.problem.mask = VisiblePlane(hiding);
  if (flags) {
    r.problem.causal = false;
    r.problem.window = {};
  }
  if (lengths) r.problem.key_lengths.reset();
  r.via_mask = true;
}

// Moves the boolean mask into the additive one: -inf where it hides.
void MaskToBias(Reduced& r) {
  const Problem before = r.problem;
  BitPlane plane;
  plane.shape = before.WeightsShape();
  Array bias(plane.shape);
  size_t flat = 0;
  ForEachRow(before, [&](const Row& row) {
    for (int64_t j = 0; j < before.kv_len; ++j, ++flat) {
      const bool visible = before.mask->At(row.batch, row.head, row.query, j) &&
                           (!before.bias || before.bias->At(row.batch, row.head, row.query, j));
      plane.bits.push_back(visible ? 1 : 0);
      if (!visible) {
        bias.values[flat] = -kInf;
      } else if (before.bias) {
        bias.values[flat] = r.bias.Broadcast(row.batch, row.head, row.query, j);
      }
    }
  });
  r.problem.mask.reset();
  r.problem.bias = std::move(plane);
  r.bias = std::move(bias);
  r.via_mask = true;
}

// The extents that a plane must have for this contract.
Shape4 FittedShape(const Problem& p, const Shape4& shape, const Contract& c) {
  if (!c.Has(Feature::kMaskBroadcast)) return p.WeightsShape();
  Shape4 fitted = shape;
  if (!c.Has(Feature::kMaskKeyBroadcast)) fitted[3] = p.kv_len;
  return fitted;
}

void FitPlanes(Reduced& r, const Contract& c) {
  for (std::optional<BitPlane>* plane : {&r.problem.mask, &r.problem.bias}) {
    if (!*plane) continue;
    *plane = ExpandTo(**plane, FittedShape(r.problem, (*plane)->shape, c));
    if (!c.Has(Feature::kMaskRanks)) (*plane)->rank = 4;
  }
  if (r.problem.bias) r.bias = ExpandTo(r.bias, r.problem.bias->shape);
}

tl::expected<Reduced, Unsupported> Reduce(const Case& c, const Inputs& inputs,
                                          const Contract& contract) {
  Reduced r{c.problem, inputs.bias, false};
  const Problem& p = c.problem;
  const bool diagonal = CanExpressDiagonal(contract, p);
  const bool flags_fit = (!p.causal || (contract.Has(Feature::kCausal) && diagonal)) &&
                         (!p.window.active() || (contract.Has(Feature::kWindow) && diagonal));
  const bool lengths_fit = !p.key_lengths || contract.Has(Feature::kKeyLengths);
  const bool maskable = contract.Has(Feature::kMask) || contract.Has(Feature::kBias);
  if (!flags_fit || !lengths_fit) {
    if (!maskable) {
      return tl::unexpected(Unsupported{!lengths_fit ? "key_lengths is not offered"
                                        : p.causal   ? "this causal diagonal is not offered"
                                                     : "this window is not offered"});
    }
    FlagsToMask(r, !flags_fit, !lengths_fit);
  }
  const bool both = r.problem.mask && r.problem.bias;
  if (r.problem.mask &&
      (!contract.Has(Feature::kMask) || (both && !contract.Has(Feature::kMaskWithBias)))) {
    if (!contract.Has(Feature::kBias)) return tl::unexpected(Unsupported{"mask is not offered"});
    MaskToBias(r);
  }
  if (r.problem.bias && !contract.Has(Feature::kBias)) {
    return tl::unexpected(Unsupported{"an additive mask is not offered"});
  }
  FitPlanes(r, contract);
  return r;
}

// --- Building the call ---

CallTensor MakeTensor(int32_t role, DType dtype, std::vector<int64_t> shape,
                      std::vector<int64_t> strides, uint8_t fill) {
  CallTensor t;
  t.role = role;
  t.dtype = dtype;
  t.is_output = role >= ATTEST_ROLE_OUT;
  const auto bytes = static_cast<size_t>(ExtentOf(shape, strides)) * ByteSize(dtype);
  t.shape = std::move(shape);
  t.strides = std::move(strides);
  t.image.assign(bytes, std::byte{fill});
  return t;
}

CallTensor DataTensorOf(int32_t role, DType dtype, const Array& array, Layout layout,
                        uint8_t fill) {
  const Shape4& s = array.shape;
  CallTensor t =
      MakeTensor(role, dtype, {s.begin(), s.end()}, StridesOf(array.shape, layout), fill);
  const size_t size = ByteSize(dtype);
  size_t flat = 0;
  for (int64_t a = 0; a < s[0]; ++a)
    for (int64_t b = 0; b < s[1]; ++b)
      for (int64_t i = 0; i < s[2]; ++i)
        for (int64_t d = 0; d < s[3]; ++d) {
          const int64_t at =
              a * t.strides[0] + b * t.strides[1] + i * t.strides[2] + d * t.strides[3];
          StoreElement(dtype, t.image.data() + static_cast<size_t>(at) * size,
                       array.values[flat++]);
        }
  return t;
}

// A dense tensor of the trailing `rank` extents of `shape`.
CallTensor PlaneTensor(int32_t role, DType dtype, const Shape4& shape, int rank, uint8_t fill) {
  std::vector<int64_t> extents(shape.end() - rank, shape.end());
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t axis = extents.size() - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * extents[axis];
  }
  return MakeTensor(role, dtype, std::move(extents), std::move(strides), fill);
}

CallTensor MaskTensor(const BitPlane& plane, MaskPolarity polarity, uint8_t fill) {
  CallTensor t = PlaneTensor(ATTEST_ROLE_MASK, DType::kBool, plane.shape, plane.rank, fill);
  const uint8_t flip = polarity == MaskPolarity::kHide ? 1 : 0;
  for (size_t i = 0; i < plane.bits.size(); ++i) t.image[i] = std::byte(plane.bits[i] ^ flip);
  return t;
}

CallTensor BiasTensor(const Problem& p, const Array& bias, uint8_t fill) {
  CallTensor t = PlaneTensor(ATTEST_ROLE_BIAS, p.dtype, p.bias->shape, p.bias->rank, fill);
  const size_t size = ByteSize(p.dtype);
  for (size_t i = 0; i < bias.values.size(); ++i) {
    StoreElement(p.dtype, t.image.data() + i * size, bias.values[i]);
  }
  return t;
}

CallTensor BatchTensor(int32_t role, const std::vector<int64_t>& values, uint8_t fill) {
  CallTensor t = MakeTensor(role, DType::kI64, {static_cast<int64_t>(values.size())}, {1}, fill);
  if (!values.empty()) std::memcpy(t.image.data(), values.data(), t.image.size());
  return t;
}

void AddInputs(Call& call, const Case& c, const Inputs& inputs, const Reduced& r,
               const Contract& contract) {
  const DType dtype = c.problem.dtype;
  auto& tensors = call.tensors;
  tensors.push_back(DataTensorOf(ATTEST_ROLE_Q, dtype, inputs.q, c.layouts.q, call.poison));
  tensors.push_back(DataTensorOf(ATTEST_ROLE_K, dtype, inputs.k, c.layouts.k, call.poison));
  tensors.push_back(DataTensorOf(ATTEST_ROLE_V, dtype, inputs.v, c.layouts.v, call.poison));
  if (r.problem.mask) {
    tensors.push_back(MaskTensor(*r.problem.mask, contract.mask_true_means, call.poison));
  }
  if (r.problem.bias) tensors.push_back(BiasTensor(r.problem, r.bias, call.poison));
  if (r.problem.key_lengths) {
    tensors.push_back(BatchTensor(ATTEST_ROLE_KEY_LENGTHS, *r.problem.key_lengths, call.poison));
  }
  if ((r.problem.causal || r.problem.window.active()) && PassesDiagonalTensor(contract)) {
    std::vector<int64_t> offsets;
    for (int64_t b = 0; b < c.problem.batch; ++b) offsets.push_back(c.problem.DiagonalOffset(b));
    tensors.push_back(BatchTensor(ATTEST_ROLE_DIAGONAL_OFFSET, offsets, call.poison));
  }
}

void AddOutputs(Call& call, const Case& c, const Contract& contract) {
  const Problem& p = c.problem;
  const Shape4 out = p.OutShape();
  call.tensors.push_back(MakeTensor(ATTEST_ROLE_OUT, p.dtype, {out.begin(), out.end()},
                                    StridesOf(out, c.layouts.out), 0));
  if (p.want_lse && contract.lse != LseKind::kNone) {
    call.tensors.push_back(MakeTensor(ATTEST_ROLE_LSE, p.LseDType(), {p.batch, p.q_heads, p.q_len},
                                      {p.q_heads * p.q_len, p.q_len, 1}, 0));
  }
  if (p.want_weights && contract.Has(Feature::kWeights)) {
    const Shape4 shape = p.WeightsShape();
    call.tensors.push_back(MakeTensor(ATTEST_ROLE_WEIGHTS, p.dtype, {shape.begin(), shape.end()},
                                      StridesOf(shape, Layout::kBhsd), 0));
  }
}

void AddOptions(Call& call, const Problem& p, const Contract& contract) {
  call.options.push_back({ATTEST_OPTION_SCALE, true, 0, p.EffectiveScale()});
  if (p.causal) call.options.push_back({ATTEST_OPTION_CAUSAL, false, 1, 0});
  if (p.window.left) {
    const int64_t with_diagonal = contract.window_counts == WindowCounts::kKeysWithDiagonal;
    call.options.push_back({ATTEST_OPTION_WINDOW_LEFT, false, *p.window.left + with_diagonal, 0});
  }
  if (p.window.right) {
    call.options.push_back({ATTEST_OPTION_WINDOW_RIGHT, false, *p.window.right, 0});
  }
}

}  // namespace

std::vector<int64_t> StridesOf(const Shape4& s, Layout layout) {
  switch (layout) {
    case Layout::kBshd:
      return {s[2] * s[1] * s[3], s[3], s[1] * s[3], 1};
    case Layout::kGapped: {
      const int64_t row = s[3] + 3, head = s[2] * row + 5;
      return {s[1] * head + 7, head, row, 1};
    }
    case Layout::kTransposed:
      return {s[1] * s[3] * s[2], s[3] * s[2], 1, s[2]};
    default:
      return {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
  }
}

int64_t ExtentOf(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t extent = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return 0;
    extent += (shape[axis] - 1) * strides[axis];
  }
  return extent;
}

tl::expected<Lowered, Unsupported> Lower(const Case& c, const Inputs& inputs,
                                         const Contract& contract) {
  const Problem& p = c.problem;
  if (contract.dtypes.count(p.dtype) == 0) {
    return tl::unexpected(Unsupported{fmt::format("dtype {} is not offered", Name(p.dtype))});
  }
  if (auto reason = CheckSizes(p, contract)) return tl::unexpected(Unsupported{*reason});
  if (auto reason = CheckLayouts(c.layouts, contract)) return tl::unexpected(Unsupported{*reason});
  auto reduced = Reduce(c, inputs, contract);
  if (!reduced) return tl::unexpected(reduced.error());
  Lowered lowered;
  lowered.via_mask = reduced->via_mask;
  lowered.call.placement = c.placement;
  lowered.call.min_alignment = contract.min_alignment;
  AddOptions(lowered.call, reduced->problem, contract);
  AddInputs(lowered.call, c, inputs, *reduced, contract);
  AddOutputs(lowered.call, c, contract);
  return lowered;
}

}  // namespace attest
