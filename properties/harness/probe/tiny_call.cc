#include "properties/harness/probe/tiny_call.h"

#include <algorithm>
#include <utility>

#include "attest/kernel.h"
#include "properties/harness/lower/tensor_image.h"

namespace attest::probe {
namespace {

constexpr uint8_t kSlack = 0xFF;

}  // namespace

TinyCall::TinyCall(const Form& form, const TinySizes& sizes)
    : q({sizes.batch, sizes.q_heads, sizes.q_len, form.head_dim}),
      k({sizes.batch, sizes.kv_heads, sizes.kv_len, form.head_dim}),
      v({sizes.batch, sizes.kv_heads, sizes.kv_len,
         sizes.value_dim == 0 ? form.head_dim : sizes.value_dim}),
      q_layout(form.layout),
      k_layout(form.layout),
      v_layout(form.layout),
      out_layout(form.layout),
      data_dtype(form.dtype),
      form_(form),
      sizes_(sizes) {
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t h = 0; h < sizes.q_heads; ++h)
      for (int64_t i = 0; i < sizes.q_len; ++i) q.At(b, h, i, 0) = 1;
    for (int64_t h = 0; h < sizes.kv_heads; ++h)
      for (int64_t j = 0; j < sizes.kv_len; ++j) {
        k.At(b, h, j, 0) = static_cast<double>(j);
        if (j < v.shape[3]) v.At(b, h, j, j) = 1;
      }
  }
}

TinyCall& TinyCall::Option(int32_t id, int64_t value) {
  options_.push_back({id, false, value, 0});
  return *this;
}

TinyCall& TinyCall::Option(int32_t id, double value) {
  options_.push_back({id, true, 0, value});
  return *this;
}

TinyCall& TinyCall::Integers(int32_t role, std::vector<int64_t> shape,
                             std::vector<int64_t> values) {
  if (role == ATTEST_ROLE_KEY_LENGTHS) key_lengths_ = values;
  if (role == ATTEST_ROLE_DIAGONAL_OFFSET) offsets_ = values;
  more_.push_back(IntegerTensor(role, std::move(shape), values, kSlack));
  return *this;
}

TinyCall& TinyCall::Bits(int32_t role, const Shape4& shape, std::vector<uint8_t> bits, int rank) {
  more_.push_back(BitTensor(role, {shape, rank, std::move(bits)}, 0, kSlack));
  return *this;
}

TinyCall& TinyCall::Floats(int32_t role, DType dtype, std::vector<int64_t> shape,
                           const std::vector<double>& values) {
  CallTensor tensor = MakeDense(role, dtype, std::move(shape), kSlack);
  const size_t size = ByteSize(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(dtype, tensor.image.data() + i * size, values[i]);
  }
  more_.push_back(std::move(tensor));
  return *this;
}

TinyCall& TinyCall::Data(int32_t role, const Array& array) {
  more_.push_back(DataTensor(role, array, form_.layout));
  return *this;
}

TinyCall& TinyCall::Ask(int32_t role, DType dtype, std::vector<int64_t> shape) {
  more_.push_back(MakeDense(role, dtype, std::move(shape), 0));
  return *this;
}

TinyCall& TinyCall::AskLse() {
  return Ask(ATTEST_ROLE_LSE, LseDType(), {sizes_.batch, sizes_.q_heads, sizes_.q_len});
}

TinyCall& TinyCall::AskWeights(int32_t role) {
  return Ask(role, form_.dtype, {sizes_.batch, sizes_.q_heads, sizes_.q_len, sizes_.kv_len});
}

TinyCall& TinyCall::Offsets(const std::vector<int64_t>& offsets) {
  return Integers(ATTEST_ROLE_DIAGONAL_OFFSET, {static_cast<int64_t>(offsets.size())}, offsets);
}

TinyCall& TinyCall::WithoutRule() {
  form_.rule.reset();
  return *this;
}

int64_t TinyCall::DiagonalOffset(int64_t b) const {
  const auto item = static_cast<size_t>(b);
  if (offsets_) return (*offsets_)[item];
  const int64_t keys = key_lengths_ ? (*key_lengths_)[item] : sizes_.kv_len;
  switch (*form_.rule) {
    case CausalOffset::kKvLenMinusQLen:
      return sizes_.kv_len - sizes_.q_len;
    case CausalOffset::kKeyLengthMinusQLen:
      return keys - sizes_.q_len;
    case CausalOffset::kByInputs:  // keys that are not in k lie in the past
      return key_lengths_ ? keys - sizes_.q_len : sizes_.kv_len - k.shape[2];
    default:
      return 0;
  }
}

bool TinyCall::IsHiddenByForm(int64_t b, int64_t i, int64_t j) const {
  return form_.is_causal && form_.rule && j > i + DiagonalOffset(b);
}

bool TinyCall::HasCausalOption() const {
  return std::any_of(options_.begin(), options_.end(),
                     [](const CallOption& o) { return o.id == ATTEST_OPTION_CAUSAL; });
}

CallTensor TinyCall::DataTensor(int32_t role, const Array& array, Layout layout) const {
  const QkvExtents qkv{sizes_.q_heads + 2 * sizes_.kv_heads, form_.head_dim};
  CallTensor tensor = FloatTensor(role, data_dtype, array, {layout, qkv}, 1, kSlack);
  if (is_packed) {  // [rows, heads, dim]
    const int64_t heads = array.shape[1], rows = array.shape[2], dim = array.shape[3];
    CallTensor packed = MakeDense(role, data_dtype, {rows, heads, dim}, kSlack);
    const size_t size = ByteSize(data_dtype);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t d = 0; d < dim; ++d) {
          const auto at = static_cast<size_t>((i * heads + h) * dim + d) * size;
          StoreElement(data_dtype, packed.image.data() + at, array.At(0, h, i, d));
        }
    return packed;
  }
  return tensor;
}

Call TinyCall::Build() const {
  Call call;
  if (gives_scale) call.options.push_back({ATTEST_OPTION_SCALE, true, 0, scale});
  call.options.insert(call.options.end(), options_.begin(), options_.end());
  if (form_.is_causal && !HasCausalOption()) {
    call.options.push_back({ATTEST_OPTION_CAUSAL, false, 1, 0});
  }
  call.tensors.push_back(DataTensor(ATTEST_ROLE_Q, q, q_layout));
  call.tensors.push_back(DataTensor(ATTEST_ROLE_K, k, k_layout));
  call.tensors.push_back(DataTensor(ATTEST_ROLE_V, v, v_layout));
  Shape4 out = q.shape;
  out[3] = v.shape[3];
  if (is_packed) {
    call.tensors.push_back(MakeDense(ATTEST_ROLE_OUT, form_.dtype, {out[2], out[1], out[3]}, 0));
  } else {
    const QkvExtents qkv{sizes_.q_heads, out[3]};
    call.tensors.push_back(MakeTensor(ATTEST_ROLE_OUT, form_.dtype, {out.begin(), out.end()},
                                      StridesOf(out, {out_layout, qkv}), 0));
  }
  call.tensors.insert(call.tensors.end(), more_.begin(), more_.end());
  return call;
}

}  // namespace attest::probe
