// From a case to its tensors: recipes or literals, hidden biases, overrides, and the hash of it
// all.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "properties/harness/case/case.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/recipe.h"
#include "properties/harness/case/tensor_shape.h"

namespace attest {
namespace {

// Rounds the values of one tensor to what it can hold.
class Rounder {
 public:
  Rounder(const Problem& p, DataTensor tensor)
      : type_(TypeOf(p, tensor)), scale_(IsFp8(type_) ? ScaleOf(p, tensor) : 1) {}

  void Round(std::vector<double>& values) const {
    if (type_ == DType::kF32) {  // nearly all
      for (double& value : values) value = static_cast<double>(static_cast<float>(value));
    } else if (type_ != DType::kF64) {
      for (double& value : values) value = (*this)(value);
    }
  }

  double operator()(double value) const {
    if (!IsFp8(type_)) return RoundTo(type_, value);
    const double most = TraitsOf(type_).max_finite;
    const double units = std::isfinite(value) ? std::clamp(value / scale_, -most, most) : value;
    return scale_ * RoundTo(type_, units);
  }

 private:
  const DType type_;
  const double scale_;
};

// With `shares_head` every head holds what the first one gets.
Array FromRecipe(const Problem& p, const RecipeData& data, DataTensor tensor, bool shares_head) {
  Array array(ShapeOf(p, tensor));
  if (array.empty()) return array;
  const Shape4& shape = array.shape;
  double* plane = array.values.data();
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h, plane += shape[2] * shape[3])
      data.FillPlane(tensor, b, shares_head ? 0 : h, shape[2], shape[3], plane);
  Rounder(p, tensor).Round(array.values);
  return array;
}

void HideBias(const BitPlane& plane, Array& bias) {
  for (size_t n = 0; n < bias.values.size(); ++n) {
    if (plane.bits[n] == 0) bias.values[n] = -std::numeric_limits<double>::infinity();
  }
}

Array& TensorOf(Inputs& inputs, DataTensor tensor) {
  switch (tensor) {
    case DataTensor::kQ:
      return inputs.q;
    case DataTensor::kK:
      return inputs.k;
    case DataTensor::kV:
      return inputs.v;
    case DataTensor::kDout:
      return inputs.dout;
    default:
      return inputs.bias;
  }
}

// Rows of padding have no part in the loss.
void ClearPadding(const Problem& p, Array& dout) {
  if (!p.query_lengths) return;
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.q_heads; ++h)
      for (int64_t i = (*p.query_lengths)[static_cast<size_t>(b)]; i < p.q_len; ++i)
        for (int64_t d = 0; d < p.value_dim; ++d) dout.At(b, h, i, d) = 0;
}

uint64_t HashArray(uint64_t hash, const Array& array) {
  for (const int64_t extent : array.shape) hash = MixIn(hash, static_cast<uint64_t>(extent));
  for (const double value : array.values) {
    // All NaNs are one value: payloads do not survive text.
    const uint64_t bits = std::isnan(value) ? 0x7FF8000000000000u : std::bit_cast<uint64_t>(value);
    hash = MixIn(hash, bits);
  }
  return hash;
}

}  // namespace

double RoundedFor(const Problem& p, DataTensor tensor, double value) {
  return Rounder(p, tensor)(value);
}

Inputs Materialise(const Case& c) {
  const Problem& p = c.problem;
  const RecipeData data(c);
  const auto make = [&](DataTensor tensor, Layout layout) {
    const auto literal = c.literals.find(tensor);
    if (literal != c.literals.end()) return literal->second;
    return FromRecipe(p, data, tensor, layout == Layout::kSharedHead);
  };
  Inputs inputs;
  inputs.q = make(DataTensor::kQ, Layout::kBhsd);
  inputs.k = make(DataTensor::kK, c.layouts.k);
  inputs.v = make(DataTensor::kV, c.layouts.v);
  if (p.bias) {
    inputs.bias = make(DataTensor::kBias, Layout::kBhsd);
    HideBias(*p.bias, inputs.bias);
  }
  if (p.want_gradients) {
    inputs.dout = make(DataTensor::kDout, Layout::kBhsd);
  }
  for (const Override& o : c.overrides) {
    Array& target = TensorOf(inputs, o.tensor);
    target.At(o.index[0], o.index[1], o.index[2], o.index[3]) = RoundedFor(p, o.tensor, o.value);
  }
  if (p.want_gradients) ClearPadding(p, inputs.dout);
  return inputs;
}

uint64_t HashInputs(const Inputs& inputs) {
  uint64_t hash = 0;
  for (const Array* array : {&inputs.q, &inputs.k, &inputs.v, &inputs.bias}) {
    hash = HashArray(hash, *array);
  }
  // Left out where there is none, so that older cases keep their hash.
  return inputs.dout.empty() ? hash : HashArray(hash, inputs.dout);
}

}  // namespace attest
