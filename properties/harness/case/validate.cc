// What makes a case well formed, beyond its problem: families, layouts, literals, overrides and
// storage.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "properties/harness/case/case.h"
#include "properties/harness/case/storage.h"
#include "properties/harness/case/tensor_shape.h"

namespace attest {
namespace {

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

std::optional<std::string> CheckEnumerators(const Case& c) {
  if (static_cast<int>(c.recipe.scores) >= kScoreFamilyCount) return "scores is no known family";
  if (static_cast<int>(c.recipe.values) >= kValueFamilyCount) return "values is no known family";
  if (static_cast<int>(c.recipe.bias) >= kBiasFamilyCount) return "bias is no known family";
  if (static_cast<int>(c.recipe.dout) >= kValueFamilyCount) return "dout is no known family";
  for (const Layout layout : {c.layouts.q, c.layouts.k, c.layouts.v, c.layouts.out}) {
    if (static_cast<int>(layout) >= kLayoutCount) return "layout is no known layout";
  }
  if (c.placement != Placement::kEnd && c.placement != Placement::kBegin) {
    return "placement is neither end nor begin";
  }
  return std::nullopt;
}

// A bias element is -inf exactly where the plane hides: two owners of one fact must agree.
std::optional<std::string> CheckBiasLiteral(const BitPlane& plane, const Array& literal) {
  for (size_t n = 0; n < literal.values.size(); ++n) {
    if ((literal.values[n] == kMinusInf) != (plane.bits[n] == 0)) {
      return fmt::format(
          "literals.bias: element {} is {}, but the bias plane says {}; "
          "-inf belongs exactly where the plane's bit is 0",
          n, literal.values[n], plane.bits[n]);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckLiteral(const Problem& p, DataTensor tensor, const Array& literal) {
  if (tensor > DataTensor::kDout) return "literals name an unknown tensor";
  if (tensor == DataTensor::kDout && !p.want_gradients) {
    return "literals.dout: the problem wants no gradients";
  }
  if (tensor == DataTensor::kBias && !p.bias) return "literals.bias: the problem has no bias";
  const Shape4 shape = ShapeOf(p, tensor);
  if (literal.shape != shape ||
      static_cast<int64_t>(literal.values.size()) != ElementCount(shape)) {
    return fmt::format("literals.{}: shape must be [{}, {}, {}, {}]", Name(tensor), shape[0],
                       shape[1], shape[2], shape[3]);
  }
  for (const double value : literal.values) {
    if (!std::isnan(value) && RoundedFor(p, tensor, value) != value) {
      return fmt::format("literals.{}: {} is no {} value{}; the nearest is {}", Name(tensor), value,
                         Name(TypeOf(p, tensor)),
                         IsFp8(TypeOf(p, tensor)) ? " times its scale" : "",
                         RoundedFor(p, tensor, value));
    }
  }
  if (tensor == DataTensor::kBias) return CheckBiasLiteral(*p.bias, literal);
  return std::nullopt;
}

// A finite value that the tensor's type cannot come near.
bool Overflows(const Problem& p, DataTensor tensor, double value) {
  const DType type = TypeOf(p, tensor);
  return std::isfinite(value) && !std::isfinite(RoundTo(type, value / ScaleOf(p, tensor)));
}

std::optional<std::string> CheckOverride(const Problem& p, const Override& o) {
  if (o.tensor > DataTensor::kDout) return "set names an unknown tensor";
  if (o.tensor == DataTensor::kDout && !p.want_gradients) {
    return "set: the problem wants no gradients";
  }
  if (o.tensor == DataTensor::kBias && !p.bias) return "set: the problem has no bias";
  const Shape4 shape = ShapeOf(p, o.tensor);
  for (size_t axis = 0; axis < 4; ++axis) {
    if (o.index[axis] < 0 || o.index[axis] >= shape[axis]) {
      return fmt::format("set: index {} of {} is {}, outside 0..{}", axis, Name(o.tensor),
                         o.index[axis], shape[axis] - 1);
    }
  }
  if (Overflows(p, o.tensor, o.value)) {
    return fmt::format("set: {} overflows {}; write inf if that is meant", o.value,
                       Name(TypeOf(p, o.tensor)));
  }
  if (o.tensor != DataTensor::kBias) return std::nullopt;
  if (o.value == kMinusInf) return "set: a bias of -inf is visibility; clear the bias plane's bit";
  if (!p.bias->At(o.index[0], o.index[1], o.index[2], o.index[3])) {
    return "set: this bias element is hidden (-inf) by the bias plane";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> Validate(const Case& c) {
  if (auto error = Validate(c.problem)) return error;
  if (auto error = CheckEnumerators(c)) return error;
  for (const auto& [tensor, literal] : c.literals) {
    if (auto error = CheckLiteral(c.problem, tensor, literal)) return error;
  }
  for (const Override& o : c.overrides) {
    if (auto error = CheckOverride(c.problem, o)) return error;
  }
  return CheckStorage(c);
}

}  // namespace attest
