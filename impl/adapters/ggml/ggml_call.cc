#include "impl/adapters/ggml/ggml_call.h"

#include <limits>

#include "impl/abi/float_types.h"
#include "impl/abi/input_rows.h"

namespace attest {
namespace {

int32_t TypeOf(DType dtype) {
  if (dtype == DType::kF32) return ATTEST_GGML_F32;
  return dtype == DType::kF16 ? ATTEST_GGML_F16 : ATTEST_GGML_BF16;
}

// `shape` and `strides` (in elements) from the outermost axis, as attest has them. An axis of extent 1
// gets the stride of a dense tensor, which ggml checks without need.
attest_ggml_tensor Describe(void* data, DType dtype, const Shape4& shape, const Shape4& strides) {
  const size_t size = dtype == DType::kF32 ? 4 : 2;
  attest_ggml_tensor tensor{TypeOf(dtype), {}, {}, data};
  size_t dense = size;
  for (size_t i = 0; i < 4; ++i) {
    tensor.ne[i] = shape[3 - i];
    tensor.nb[i] = shape[3 - i] == 1 ? dense : static_cast<size_t>(strides[3 - i]) * size;
    dense = tensor.nb[i] * static_cast<size_t>(shape[3 - i]);
  }
  return tensor;
}

Shape4 DenseStrides(const Shape4& shape) {
  return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1};
}

attest_ggml_tensor DescribeDense(void* data, DType dtype, const Shape4& shape) {
  return Describe(data, dtype, shape, DenseStrides(shape));
}

// The mask's extents: ggml broadcasts over heads and batch items.
Shape4 OwnShape(const TensorView& plane) {
  Shape4 shape = plane.shape;
  for (const size_t axis : {0u, 1u}) {
    if (plane.strides[axis] == 0) shape[axis] = 1;
  }
  return shape;
}

bool IsDense(const TensorView& view, const Shape4& shape) {
  const Shape4 dense = DenseStrides(shape);
  for (size_t axis = 0; axis < 4; ++axis) {
    if (shape[axis] != 1 && view.strides[axis] != dense[axis]) return false;
  }
  return true;
}

// Copies the elements of `shape`, row-major, each through `convert`.
template <typename From, typename To, typename Convert>
void CopyPlane(const TensorView& plane, const Shape4& shape, Convert&& convert,
               std::vector<To>& target) {
  target.reserve(static_cast<size_t>(ElementCount(shape)));
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t i = 0; i < shape[2]; ++i) {
        for (int64_t j = 0; j < shape[3]; ++j) {
          target.push_back(convert(plane.At<const From>(b, h, i, j)));
        }
      }
    }
  }
}

Eigen::half HalfOfBit(uint8_t bit) {
  return bit != 0 ? Eigen::half(0.0f) : -std::numeric_limits<Eigen::half>::infinity();
}

}  // namespace

GgmlCall::GgmlCall(const CallView& call, bool unfused, int threads) : call_(call) {
  words_.unfused = unfused ? 1 : 0;
  words_.threads = threads;
  words_.scale = static_cast<float>(call.scale);
  words_.softcap = static_cast<float>(call.softcap);
  words_.k = Describe(call.k.data, call.dtype, call.k.shape, call.k.strides);
  words_.v = Describe(call.v.data, call.dtype, call.v.shape, call.v.strides);
  SetQuery();
  SetMask();
  if (call.sinks) {
    sinks_.assign(call.sinks->begin(), call.sinks->end());
    words_.sinks = DescribeDense(sinks_.data(), DType::kF32, {1, 1, 1, call.q_heads});
  }
  SetOut();
}

void GgmlCall::SetQuery() {
  if (call_.dtype == DType::kF32) {
    words_.q = Describe(call_.q.data, DType::kF32, call_.q.shape, call_.q.strides);
    return;
  }
  q_.resize(static_cast<size_t>(ElementCount(call_.q.shape)));
  float* row = q_.data();
  WithFloatType(call_.dtype, [&](auto zero) {
    const InputRows<decltype(zero)> rows(call_);
    if constexpr (std::is_same_v<AccumulatorOf<decltype(zero)>, float>) {
      for (int64_t b = 0; b < call_.batch; ++b) {
        for (int64_t h = 0; h < call_.q_heads; ++h) {
          for (int64_t i = 0; i < call_.q_len; ++i, row += call_.head_dim) rows.Query(b, h, i, row);
        }
      }
    }
  });
  words_.q = DescribeDense(q_.data(), DType::kF32, call_.q.shape);
}

void GgmlCall::SetMask() {
  if (call_.mask) {
    const Shape4 shape = OwnShape(*call_.mask);
    CopyPlane<uint8_t>(*call_.mask, shape, HalfOfBit, f16_mask_);
    words_.mask = DescribeDense(f16_mask_.data(), DType::kF16, shape);
  }
  if (!call_.bias) return;
  const Shape4 shape = OwnShape(*call_.bias);
  if (call_.bias_dtype == DType::kBF16) {
    CopyPlane<Eigen::bfloat16>(
        *call_.bias, shape, [](Eigen::bfloat16 x) { return static_cast<float>(x); }, f32_mask_);
    words_.mask = DescribeDense(f32_mask_.data(), DType::kF32, shape);
  } else if (IsDense(*call_.bias, shape)) {
    words_.mask = DescribeDense(call_.bias->data, call_.bias_dtype, shape);
  } else if (call_.bias_dtype == DType::kF16) {
    CopyPlane<Eigen::half>(
        *call_.bias, shape, [](Eigen::half x) { return x; }, f16_mask_);
    words_.mask = DescribeDense(f16_mask_.data(), DType::kF16, shape);
  } else {
    CopyPlane<float>(
        *call_.bias, shape, [](float x) { return x; }, f32_mask_);
    words_.mask = DescribeDense(f32_mask_.data(), DType::kF32, shape);
  }
}

// The result as a view: fused it comes as [batch, q_len, heads, value_dim].
TensorView GgmlCall::ResultView() const {
  TensorView view{words_.out, call_.out.shape, DenseStrides(call_.out.shape)};
  const int64_t heads = view.shape[1], dim = view.shape[3];
  if (words_.unfused == 0) view.strides = {view.shape[2] * heads * dim, dim, heads * dim, 1};
  return view;
}

void GgmlCall::SetOut() {
  TensorView result = ResultView();
  bool in_place = call_.dtype == DType::kF32;
  for (size_t axis = 0; axis < 4; ++axis) {
    in_place =
        in_place && (result.shape[axis] == 1 || result.strides[axis] == call_.out.strides[axis]);
  }
  if (!in_place) out_.resize(static_cast<size_t>(ElementCount(call_.out.shape)));
  words_.out = in_place ? static_cast<float*>(call_.out.data) : out_.data();
}

void GgmlCall::StoreOut() const {
  if (words_.out == call_.out.data) return;
  const TensorView result = ResultView();
  WithFloatType(call_.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t b = 0; b < call_.batch; ++b) {
      for (int64_t h = 0; h < call_.q_heads; ++h) {
        for (int64_t i = 0; i < call_.q_len; ++i) {
          for (int64_t d = 0; d < call_.value_dim; ++d) {
            call_.out.At<T>(b, h, i, d) = static_cast<T>(result.At<const float>(b, h, i, d));
          }
        }
      }
    }
  });
}

}  // namespace attest
