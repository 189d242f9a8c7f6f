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

using ElementFunction = double (RecipeData::*)(const Element&) const;

struct TensorRecipe {
  DataTensor tensor;
  ElementFunction function;
  bool shares_head = false;  // every head holds what the first one gets
};

void FillRow(const Problem& p, const RecipeData& data, const TensorRecipe& recipe, Element e,
             double* row, int64_t lanes) {
  const uint64_t row_hash = data.RowHash(recipe.tensor, e.batch, e.head, e.position);
  for (e.lane = 0; e.lane < lanes; ++e.lane) {
    e.hash = RecipeData::ElementHash(row_hash, e.lane);
    row[e.lane] = RoundedFor(p, recipe.tensor, (data.*recipe.function)(e));
  }
}

Array FromRecipe(const Problem& p, const RecipeData& data, const TensorRecipe& recipe) {
  Array array(ShapeOf(p, recipe.tensor));
  if (array.empty()) return array;
  const Shape4& shape = array.shape;
  double* row = array.values.data();
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i, row += shape[3])
        FillRow(p, data, recipe, Element{0, b, recipe.shares_head ? 0 : h, i, 0}, row, shape[3]);
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
    default:
      return inputs.bias;
  }
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
  const DType type = TypeOf(p, tensor);
  if (!IsFp8(type)) return RoundTo(type, value);
  const double scale = ScaleOf(p, tensor), most = TraitsOf(type).max_finite;
  const double units = std::isfinite(value) ? std::clamp(value / scale, -most, most) : value;
  return scale * RoundTo(type, units);
}

Inputs Materialise(const Case& c) {
  const Problem& p = c.problem;
  const RecipeData data(c);
  const auto make = [&](DataTensor tensor, ElementFunction function, Layout layout) {
    const auto literal = c.literals.find(tensor);
    if (literal != c.literals.end()) return literal->second;
    return FromRecipe(p, data, {tensor, function, layout == Layout::kSharedHead});
  };
  Inputs inputs;
  inputs.q = make(DataTensor::kQ, &RecipeData::Q, Layout::kBhsd);
  inputs.k = make(DataTensor::kK, &RecipeData::K, c.layouts.k);
  inputs.v = make(DataTensor::kV, &RecipeData::V, c.layouts.v);
  if (p.bias) {
    inputs.bias = make(DataTensor::kBias, &RecipeData::Bias, Layout::kBhsd);
    HideBias(*p.bias, inputs.bias);
  }
  for (const Override& o : c.overrides) {
    Array& target = TensorOf(inputs, o.tensor);
    target.At(o.index[0], o.index[1], o.index[2], o.index[3]) = RoundedFor(p, o.tensor, o.value);
  }
  return inputs;
}

uint64_t HashInputs(const Inputs& inputs) {
  uint64_t hash = 0;
  for (const Array* array : {&inputs.q, &inputs.k, &inputs.v, &inputs.bias}) {
    hash = HashArray(hash, *array);
  }
  return hash;
}

}  // namespace attest
